#include "entrain/simulator/analytic/demand.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "entrain/plan/link_bound.h"

namespace entrain::simulator {
namespace {

double bytes_per_second(double gbit) { return gbit * 1e9 / 8; }

// depth(t) = 1 + the deepest earlier transfer of t's chunk into t's sender; the schedule's is the most.
int depth_of(const collective::Schedule& schedule) {
  std::map<std::pair<int, int>, int> arrived;  // by (chunk, rank): depth of what has come there
  int deepest = 0;
  size_t begin = 0;
  const auto& transfers = schedule.transfers;
  while (begin < transfers.size()) {
    size_t end = begin;
    std::vector<std::pair<std::pair<int, int>, int>> round;
    for (; end < transfers.size() && transfers[end].round == transfers[begin].round; ++end) {
      const auto& t = transfers[end];
      const auto before = arrived.find({t.chunk, t.from});
      round.push_back({{t.chunk, t.to}, 1 + (before == arrived.end() ? 0 : before->second)});
    }
    for (const auto& [where, depth] : round) {
      arrived[where] = std::max(arrived[where], depth);
      deepest = std::max(deepest, depth);
    }
    begin = end;
  }
  return deepest;
}

}  // namespace

Resources::Resources(const cluster::Cluster& cluster, const Calibration& calibration)
    : hosts(cluster.hosts.size()), capacity(3 * hosts), burst(3 * hosts) {
  for (size_t h = 0; h < hosts; ++h) {
    workers.push_back(cluster.hosts[h].workers);
    const double rate = bytes_per_second(cluster.hosts[h].bandwidth_gbit) * calibration.link_efficiency;
    capacity[h] = capacity[hosts + h] = rate;
    burst[h] = burst[hosts + h] = rate * calibration.burst_s;
    capacity[2 * hosts + h] = std::max(1, cluster.hosts[h].workers);
  }
}

Demands::Demands(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration)
    : graph_(graph), cluster_(cluster), calibration_(calibration), resources_(cluster, calibration) {
  for (int rank = 0; rank < cluster.world(); ++rank) host_of_.push_back(cluster.host_of(rank));
}

int Demands::queues() const {
  const std::shared_lock lock(mutex_);
  return queues_;
}

// One transfer of `share` of the message's bytes.
void Demands::count(Demand& demand, int from, int to, double share, bool reduce) const {
  const int a = host_of_[from], b = host_of_[to];
  demand.fixed[resources_.engine(a)] += calibration_.message_s;
  demand.fixed[resources_.engine(b)] += calibration_.message_s;
  demand.per_byte[resources_.engine(a)] += share / calibration_.engine_bytes_per_s;
  demand.per_byte[resources_.engine(b)] += share / calibration_.engine_bytes_per_s;
  if (reduce) demand.per_byte[resources_.engine(b)] += share / calibration_.reduce_bytes_per_s;
  ++demand.transfers;
  if (a == b) return;
  demand.per_byte[resources_.sending(a)] += share;
  demand.per_byte[resources_.receiving(b)] += share;
  const double rate = bytes_per_second(cluster_.gbit(a, b)) * calibration_.link_efficiency;
  demand.stream_rate = demand.stream_rate == 0 ? rate : std::min(demand.stream_rate, rate);
}

Demand Demands::dense(const collective::Schedule& schedule) const {
  Demand demand;
  demand.per_byte.resize(resources_.capacity.size());
  demand.fixed.resize(resources_.capacity.size());
  const double share = 1.0 / std::max(1, schedule.chunks);
  std::map<std::pair<int, int>, double> streams;
  for (const auto& t : schedule.transfers) {
    count(demand, t.from, t.to, share, t.reduce);
    streams[{t.from, t.to}] += share;
  }
  for (const auto& [pair, bytes] : streams) demand.stream = std::max(demand.stream, bytes);
  demand.depth = depth_of(schedule);
  demand.chunks = std::max(1, schedule.chunks);
  return demand;
}

// Bytes are those of one worker's rows.
Demand Demands::sparse(const plan::Message& message, const std::vector<int>& workers) const {
  Demand demand;
  demand.per_byte.resize(resources_.capacity.size());
  demand.fixed.resize(resources_.capacity.size());
  const auto all = static_cast<double>(workers.size());
  for (const int worker : workers) {
    if (message.exchange == plan::Exchange::kSparseServer) {
      if (worker == message.root) continue;
      count(demand, worker, message.root, 1, true);
      count(demand, message.root, worker, all, true);
      demand.stream = all;
      demand.depth = 2;
    } else {
      for (const int other : workers) {
        if (other != worker) count(demand, worker, other, 1, true);
      }
      demand.stream = 1;
      demand.depth = 1;
    }
  }
  return demand;
}

Demands::Found Demands::find(const plan::Message& message, const std::vector<int>& workers) const {
  const bool is_dense = message.scheduled();
  const double bytes = is_dense || message.exchange == plan::Exchange::kTopK
                           ? static_cast<double>(message.wire_bytes())
                           : plan::sparse_bytes(message, graph_);
  const int root = message.exchange == plan::Exchange::kSparseServer ? message.root : -1;
  {
    const std::shared_lock lock(mutex_);
    if (is_dense) {
      const auto found = by_schedule_.find(message.schedule.get());
      if (found != by_schedule_.end()) return {&found->second->demand, found->second->queue, bytes};
    } else {
      const auto found = by_root_.find(root);
      if (found != by_root_.end()) return {&found->second->demand, found->second->queue, bytes};
    }
  }
  Demand demand = is_dense ? dense(*message.schedule) : sparse(message, workers);
  const std::unique_lock lock(mutex_);
  auto& kept = is_dense ? by_schedule_[message.schedule.get()] : by_root_[root];
  if (!kept) kept = std::make_unique<Kept>(Kept{std::move(demand), queues_++});
  return {&kept->demand, kept->queue, bytes};
}

}  // namespace entrain::simulator
