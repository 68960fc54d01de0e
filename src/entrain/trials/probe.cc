#include "entrain/trials/probe.h"

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/base/progress.h"
#include "entrain/base/quantile.h"
#include "entrain/transport/control_tags.h"

namespace entrain::trials {
namespace {

struct Pair {
  double gbit = 0;
  double latency_s = 0;
};

// `a` sends, `b` answers; the time is a's.
Pair measure_pair(transport::Transport& t, int a, int b, const ProbeOptions& options, double timeout_s) {
  const bool sends = t.rank() == a;
  const int peer = sends ? b : a;
  std::byte byte{};
  const transport::ConstBytes one(&byte, 1);
  const auto exchange = [&](transport::Tag tag, transport::ConstBytes out) {
    const Deadline deadline = Deadline::after(timeout_s);
    if (sends) transport::send(t, peer, tag, out, {0, deadline, "probe"});
    transport::recv(t, peer, tag, {deadline, "probe"});
    if (!sends) transport::send(t, peer, tag, one, {0, deadline, "probe"});
  };
  std::vector<double> round_trips;
  for (int i = 0; i < options.pings; ++i) {
    const auto start = Clock::now();
    exchange(transport::tags::kProbePing, one);
    round_trips.push_back(seconds_since(start));
  }
  const std::vector<std::byte> bulk(options.bytes);
  exchange(transport::tags::kProbeBulk, bulk);  // opens the congestion window
  const auto start = Clock::now();
  exchange(transport::tags::kProbeBulk, bulk);
  Pair pair;
  pair.latency_s = median(round_trips) / 2;
  pair.gbit = static_cast<double>(options.bytes) * 8 / 1e9 /
              std::max(1e-9, seconds_since(start) - 2 * pair.latency_s);
  return pair;
}

// GFLOP/s of a matrix product on this rank's threads: the best of a few.
double measure_compute() {
  constexpr int64_t kSize = 512;
  const torch::Tensor a = torch::ones({kSize, kSize}), b = torch::ones({kSize, kSize});
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const auto start = Clock::now();
    torch::mm(a, b);
    best = std::max(best, 2.0 * kSize * kSize * kSize / 1e9 / seconds_since(start));
  }
  return best;
}

}  // namespace

cluster::Cluster probe(job::Context& context, const ProbeOptions& options) {
  transport::Transport& t = *context.transport;
  cluster::Cluster measured = context.cluster;
  const int hosts = static_cast<int>(measured.hosts.size());
  // Of one turn: a pair's bytes go over its link twice. A slower link counts as dead.
  constexpr double kSlowest = 125e3;  // bytes per second
  const double timeout_s = context.job.timeout_s + 2 * static_cast<double>(options.bytes) / kSlowest;
  const auto turn = [&] {
    transport::barrier(t, transport::tags::kProbeTurn, Deadline::after(timeout_s), "probe");
  };
  Progress progress("pair", static_cast<int64_t>(hosts) * (hosts - 1), options.progress && t.rank() == 0);

  // Rank by rank, so that the speeds of ranks that share this machine are not each other's load.
  nlohmann::json own;
  for (int rank = 0; rank < t.size(); ++rank) {
    if (rank == t.rank()) own["gflops"] = measure_compute();
    turn();
  }
  int64_t done = 0;
  for (int from = 0; from < hosts; ++from) {
    for (int to = 0; to < hosts; ++to) {
      if (from == to) continue;
      const int a = measured.first_rank(from), b = measured.first_rank(to);
      if (t.rank() == a || t.rank() == b) {
        const Pair pair = measure_pair(t, a, b, options, timeout_s);
        if (t.rank() == a) own["links"].push_back({from, to, pair.gbit, pair.latency_s});
      }
      turn();
      progress.update(++done);
    }
  }
  const auto all =
      transport::gather(t, 0, own.dump(), transport::tags::kProbeResult, Deadline::after(timeout_s), "probe");
  if (t.rank() != 0) return measured;

  measured.links.clear();
  std::vector<double> gflops(hosts), best(hosts);
  for (int rank = 0; rank < t.size(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    const int host = measured.host_of(rank);
    gflops[host] = std::max(gflops[host], json["gflops"].get<double>());
    for (const auto& link : json.value("links", nlohmann::json::array())) {
      measured.links.push_back({link[0], link[1], link[2], link[3]});
      for (const int end : {link[0].get<int>(), link[1].get<int>()})
        best[end] = std::max(best[end], link[2].get<double>());
    }
  }
  const double fastest = *std::max_element(gflops.begin(), gflops.end());
  for (int h = 0; h < hosts; ++h) {
    measured.hosts[h].speed = gflops[h] / fastest;
    // A lab's links are shaped to the rate that was asked for; on real hosts only a measurement knows.
    if (best[h] > 0 && measured.kind == cluster::Kind::kHosts) measured.hosts[h].bandwidth_gbit = best[h];
  }
  return measured;
}

}  // namespace entrain::trials
