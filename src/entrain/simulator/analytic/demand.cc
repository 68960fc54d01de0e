#include "entrain/simulator/analytic/demand.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "entrain/plan/link_bound.h"

namespace entrain::simulator {
namespace {

double bytes_per_second(double gbit) { return gbit * 1e9 / 8; }

// By transfer: depth(t) = 1 + the deepest earlier transfer of t's chunk into t's sender.
std::vector<int> depths_of(const collective::Schedule& schedule) {
  std::map<std::pair<int, int>, int> arrived;  // by (chunk, rank): depth of what has come there
  const auto& transfers = schedule.transfers;
  std::vector<int> depths;
  size_t begin = 0;
  while (begin < transfers.size()) {
    size_t end = begin;
    for (; end < transfers.size() && transfers[end].round == transfers[begin].round; ++end) {
      const auto before = arrived.find({transfers[end].chunk, transfers[end].from});
      depths.push_back(1 + (before == arrived.end() ? 0 : before->second));
    }
    for (size_t i = begin; i < end; ++i) {
      int& deepest = arrived[{transfers[i].chunk, transfers[i].to}];
      deepest = std::max(deepest, depths[i]);
    }
    begin = end;
  }
  return depths;
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

// Transfers of one depth make a stage, which takes as long as its busiest link. A piece of a message goes
// through all stages; pieces follow each other at the pace of the longest.
double Demands::filling_of(const collective::Schedule& schedule, const std::vector<int>& depths) const {
  std::map<int, std::map<size_t, double>> stages;  // by depth: seconds by byte of each link's direction
  for (size_t i = 0; i < depths.size(); ++i) {
    const int a = host_of_[schedule.transfers[i].from], b = host_of_[schedule.transfers[i].to];
    if (a == b) continue;
    auto& busy = stages[depths[i]];
    busy[resources_.sending(a)] += 1 / resources_.capacity[resources_.sending(a)];
    busy[resources_.receiving(b)] += 1 / resources_.capacity[resources_.receiving(b)];
  }
  double sum = 0, longest = 0;
  for (const auto& [depth, busy] : stages) {
    double stage = 0;
    for (const auto& [link, seconds] : busy) stage = std::max(stage, seconds);
    sum += stage;
    longest = std::max(longest, stage);
  }
  return sum - longest;
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
  const std::vector<int> depths = depths_of(schedule);
  demand.first.resize(resources_.capacity.size());
  for (size_t i = 0; i < depths.size(); ++i) {
    const int a = host_of_[schedule.transfers[i].from], b = host_of_[schedule.transfers[i].to];
    if (depths[i] > 1 || a == b) continue;
    demand.first[resources_.sending(a)] += share;
    demand.first[resources_.receiving(b)] += share;
  }
  demand.filling = filling_of(schedule, depths);
  for (const int depth : depths) demand.depth = std::max(demand.depth, depth);
  demand.chunks = std::max(1, schedule.chunks);
  return demand;
}

// Bytes are those of one worker's rows.
Demand Demands::sparse(const plan::Message& message, const std::vector<int>& workers) const {
  Demand demand;
  demand.per_byte.resize(resources_.capacity.size());
  demand.fixed.resize(resources_.capacity.size());
  demand.first.resize(resources_.capacity.size());
  const auto all = static_cast<double>(workers.size());
  for (const int worker : workers) {
    if (message.exchange == plan::Exchange::kSparseServer) {
      if (worker == message.root) continue;
      count(demand, worker, message.root, 1, true);
      if (host_of_[worker] != host_of_[message.root]) {
        demand.first[resources_.sending(host_of_[worker])] += 1;
        demand.first[resources_.receiving(host_of_[message.root])] += 1;
      }
      count(demand, message.root, worker, all, true);
      demand.stream = all;
      demand.filling += 1 / resources_.capacity[resources_.receiving(host_of_[message.root])];
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
