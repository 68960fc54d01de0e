#include "entrain/plan/link_bound.h"

#include <algorithm>
#include <functional>

namespace entrain::plan {
namespace {

// Calls visit(from, to, bytes) for every transfer of the plan.
void each_transfer(const Plan& plan, const graph::Graph& graph,
                   const std::function<void(int, int, double)>& visit) {
  for (const Message& message : plan.messages) {
    if (message.scheduled()) {
      const auto& s = *message.schedule;
      const int64_t width = collective::size_of(message.wire_type().value_or(message.type));
      const int64_t elements = message.schedule_bytes() / width;
      for (const auto& t : s.transfers) {
        visit(t.from, t.to,
              static_cast<double>(collective::chunk_range(elements, s.chunks, t.chunk).size() * width));
      }
      continue;
    }
    const double rows = wire_bytes(message, graph);
    const auto workers = static_cast<double>(message.ranks->size());
    for (const int worker : *message.ranks) {
      if (message.exchange == Exchange::kSparseServer) {
        if (worker == message.root) continue;
        visit(worker, message.root, rows);
        visit(message.root, worker, rows * workers);  // the union, when no two ranks share a row
      } else {
        for (const int other : *message.ranks) {
          if (other != worker) visit(worker, other, rows);
        }
      }
    }
  }
}

constexpr double bits_per_second(double gbit) { return gbit * 1e9; }

// The formula of the header, for what one worker contributes.
double least_seconds(double dense_bits, double sparse_bits, const cluster::Cluster& cluster) {
  double worker_hosts = 0, all_rates = 0;
  for (const auto& host : cluster.hosts) {
    worker_hosts += host.server_only() ? 0 : 1;
    all_rates += bits_per_second(host.bandwidth_gbit);
  }
  if (worker_hosts < 2) return 0;
  double seconds = 2 * (worker_hosts - 1) * dense_bits / all_rates;
  for (const auto& host : cluster.hosts) {
    if (host.server_only()) continue;
    const double others = cluster.workers() - host.workers;
    seconds =
        std::max(seconds, std::max(dense_bits, sparse_bits * others) / bits_per_second(host.bandwidth_gbit));
  }
  return seconds;
}

}  // namespace

LinkBytes link_bytes(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster) {
  const size_t hosts = cluster.hosts.size();
  LinkBytes bytes{std::vector<double>(hosts), std::vector<double>(hosts)};
  each_transfer(plan, graph, [&](int from, int to, double size) {
    const int a = cluster.host_of(from), b = cluster.host_of(to);
    if (a == b) return;
    bytes.sent[a] += size;
    bytes.received[b] += size;
  });
  return bytes;
}

LinkBound link_bound(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster) {
  const auto [sent, received] = link_bytes(plan, graph, cluster);
  LinkBound bound;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    for (const bool sending : {true, false}) {
      const double seconds =
          (sending ? sent : received)[h] * 8 / bits_per_second(cluster.hosts[h].bandwidth_gbit);
      if (seconds > bound.seconds) bound = {seconds, static_cast<int>(h), sending};
    }
  }
  return bound;
}

double best_link_bound(const graph::Graph& graph, const cluster::Cluster& cluster) {
  double dense_bits = 0, sparse_bits = 0;
  for (const auto& v : graph.variables) {
    (v.sparse ? sparse_bits : dense_bits) += static_cast<double>(v.step_bytes()) * 8;
  }
  return least_seconds(dense_bits, sparse_bits, cluster);
}

double best_link_bound(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster) {
  double dense_bits = 0, sparse_bits = 0;
  for (const Message& message : plan.messages) {
    (message.scheduled() ? dense_bits : sparse_bits) += wire_bytes(message, graph) * 8;
  }
  return least_seconds(dense_bits, sparse_bits, cluster);
}

std::vector<int64_t> bytes_sent(const Plan& plan, const graph::Graph& graph) {
  std::vector<double> sent(plan.world);
  each_transfer(plan, graph, [&](int from, int, double bytes) { sent[from] += bytes; });
  return {sent.begin(), sent.end()};
}

}  // namespace entrain::plan
