#include "entrain/planner/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "entrain/base/error.h"
#include "entrain/plan/assignment.h"

namespace entrain::planner {

using strategy::Cell;
using strategy::Shape;

Estimator::Estimator(const graph::Graph& graph, const cluster::Cluster& cluster, int64_t examples,
                     Limits limits, Overheads overheads)
    : graph_(graph),
      cluster_(cluster),
      examples_(examples),
      limits_(std::move(limits)),
      overheads_(overheads),
      bytes_((require_profile(graph), graph)) {
  if (examples < 1) bad_input("examples per update is {}, allowed: 1 or more", examples);
  const auto world = static_cast<size_t>(cluster.world());
  const bool own = limits_.memory_bytes.empty();
  if (!own && limits_.memory_bytes.size() != world) {
    bad_input("memory_bytes has {} values, allowed: {}, one per rank", limits_.memory_bytes.size(), world);
  }
  for (const auto& host : cluster.hosts) {
    const int h = static_cast<int>(link_.size());
    link_.push_back(host.bandwidth_gbit * 1e9 / 8 * overheads_.link_efficiency);
    for (int r = 0; r < std::max(host.workers, 1); ++r) {
      speed_.push_back(host.speed);
      host_of_.push_back(h);
      if (own) limits_.memory_bytes.push_back(host.memory_gib * 1073741824.0 / std::max(host.workers, 1));
    }
  }
}

const PassTimes& Estimator::times(int64_t micro_batch) const {
  const auto it = times_.find(micro_batch);
  return it != times_.end() ? it->second
                            : times_.emplace(micro_batch, PassTimes(graph_, micro_batch)).first->second;
}

// What the assignment makes of a shape.
struct Estimator::Work {
  std::vector<double> busy;      // by rank
  std::vector<double> latency;   // by cell, of one micro-batch
  std::vector<double> transfer;  // by cell: the part of latency that is transfers, there and back
  // By host: bytes of activations, and of these and their gradients (as many in both directions).
  std::vector<double> forward_sent, forward_received, moved;
  std::vector<std::vector<int64_t>> own;  // by cell and replica: micro-batches
  int64_t largest = 1;                    // micro-batch
};

Estimator::Work Estimator::work_of(const Shape& shape) const {
  const auto assignment = plan::assign(shape, examples_);
  Work work;
  work.busy.resize(speed_.size());
  work.latency.resize(shape.cells.size());
  work.transfer.resize(shape.cells.size());
  for (auto* bytes : {&work.forward_sent, &work.forward_received, &work.moved}) bytes->resize(link_.size());
  for (const auto& m : assignment.micro_batches) work.largest = std::max(work.largest, m.count);
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const Cell& cell = shape.cells[c];
    auto& own = work.own.emplace_back(cell.ranks.size());
    int crossing = 0;  // micro-batches that come from another host
    for (int m = 0; m < assignment.count(); ++m) {
      const int64_t n = assignment.micro_batches[m].count;
      const int rank = assignment.rank_of[c][m];
      const bool first = own[assignment.replica_of[c][m]]++ == 0;
      const bool recomputes =
          shape.remat == pipeline::Remat::kAlways || (shape.remat == pipeline::Remat::kExceptLast && !first);
      const double seconds =
          times(n).both(cell.begin, cell.end) + (recomputes ? times(n).forward(cell.begin, cell.end) : 0);
      work.busy[rank] += seconds / speed_[rank] + 2 * overheads_.pass_s;
      work.latency[c] += (seconds / speed_[rank] + 2 * overheads_.pass_s) / assignment.count();
      const int to = host_of_[rank], from = c == 0 ? to : host_of_[assignment.rank_of[c - 1][m]];
      if (from == to) continue;
      const double bytes = bytes_.crossing(cell.begin) * static_cast<double>(n);
      work.forward_sent[from] += bytes;
      work.forward_received[to] += bytes;
      work.moved[from] += bytes;
      work.moved[to] += bytes;
      work.transfer[c] += bytes / std::min(link_[from], link_[to]) + overheads_.transfer_s;
      ++crossing;
    }
    if (crossing > 0) work.transfer[c] *= 2.0 / crossing;
    work.latency[c] += work.transfer[c];
  }
  return work;
}

Estimate Estimator::of(const Shape& shape) const {
  const Work work = work_of(shape);
  const double all = std::accumulate(work.latency.begin(), work.latency.end(), 0.0);
  const double back = std::accumulate(work.transfer.begin(), work.transfer.end(), 0.0) / 2;
  std::vector<double> others(speed_.size(), all), sums(link_.size());
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const Cell& cell = shape.cells[c];
    std::set<int> hosts;
    for (const int rank : cell.ranks) {
      others[rank] -= work.latency[c] - work.transfer[c];
      hosts.insert(host_of_[rank]);
    }
    const auto w = static_cast<double>(hosts.size());
    for (const int h : hosts) sums[h] += 2 * (w - 1) / w * bytes_.gradients(cell.begin, cell.end);
  }
  double longest = 0, links = 0;
  for (size_t r = 0; r < speed_.size(); ++r) {
    if (work.busy[r] > 0) longest = std::max(longest, work.busy[r] + others[r]);
  }
  for (size_t h = 0; h < link_.size(); ++h) {
    const double queue = std::max(work.forward_sent[h], work.forward_received[h]) / link_[h];
    if (queue > 0) longest = std::max(longest, queue + all - back);
    links = std::max(links, (work.moved[h] + sums[h]) / link_[h]);
  }
  return {std::max(longest + exposed(shape, work), links), shortfall(shape, work)};
}

double Estimator::exposed(const Shape& shape, const Work& work) const {
  std::map<int, double> sync;  // by host: of the layers so far
  const PassTimes& time = times(work.largest);
  double late = 0, before = 0;
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const Cell& cell = shape.cells[c];
    std::set<int> hosts;
    double slowest = std::numeric_limits<double>::infinity(), fastest = 0;
    for (const int rank : cell.ranks) {
      hosts.insert(host_of_[rank]);
      slowest = std::min(slowest, link_[host_of_[rank]]);
      fastest = std::max(fastest, speed_[rank]);
    }
    before += work.transfer[c];
    const auto w = static_cast<double>(hosts.size());
    for (int l = cell.begin; l < cell.end; ++l) {
      const double bytes = bytes_.gradients(l, l + 1);
      if (hosts.size() > 1 && bytes > 0) {
        const double seconds = 2 * (w - 1) / w * bytes / slowest + overheads_.transfer_s;
        for (const int h : hosts) late = std::max(late, (sync[h] += seconds) - before);
      }
      before += time.both(l, l + 1) / fastest;
    }
  }
  return late;
}

// Parameters, their gradients and what the optimizer keeps; activations of the micro-batches in flight
// (plan/passes.h says how many those are; interleaved cells may keep more, so all are counted).
double Estimator::shortfall(const Shape& shape, const Work& work) const {
  std::vector<double> used(speed_.size());
  double behind = 0;
  const auto n = static_cast<double>(work.largest);
  for (size_t c = shape.cells.size(); c-- > 0;) {
    const Cell& cell = shape.cells[c];
    behind += cell.replicas();
    for (int r = 0; r < cell.replicas(); ++r) {
      auto flying = static_cast<double>(work.own[c][r]);
      if (shape.schedule == "1f1b") flying = std::min(flying, std::ceil(behind / cell.replicas() - 1e-9));
      const double kept = n * bytes_.kept(cell.begin, cell.end);
      const double stored = shape.remat == pipeline::Remat::kNever
                                ? flying * kept
                                : flying * n * bytes_.crossing(cell.begin) + kept;
      used[cell.ranks[r]] += bytes_.parameters(cell.begin, cell.end) * (2 + limits_.optimizer_slots) + stored;
    }
  }
  double most = 0;
  for (size_t r = 0; r < used.size(); ++r) {
    if (limits_.memory_bytes[r] > 0) most = std::max(most, used[r] - limits_.memory_bytes[r]);
  }
  return most;
}

}  // namespace entrain::planner
