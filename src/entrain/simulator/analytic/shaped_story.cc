// What a simulated update was like: its sums, its intervals, its critical path.
#include <fmt/format.h>

#include <algorithm>

#include "entrain/simulator/analytic/shaped_update.h"

namespace entrain::simulator {
namespace {

// Blocks of a rank that follow each other, as one.
std::vector<Interval> joined(const std::vector<Interval>& path) {
  std::vector<Interval> result;
  for (const Interval& interval : path) {
    const bool block =
        interval.track.starts_with("rank ") && interval.track.find(" to ") == std::string::npos;
    if (!block || result.empty() || result.back().track != interval.track) {
      result.push_back(interval);
      continue;
    }
    Interval& last = result.back();
    last.name = last.name.substr(0, last.name.find(" to "));
    if (last.name != interval.name) last.name += " to " + interval.name;
    last.end = interval.end;
  }
  return result;
}

}  // namespace

Estimate ShapedUpdate::summary() const {
  const Calibration& k = model_->calibration;
  const cluster::Cluster& cluster = model_->job.cluster;
  Estimate e;
  const double others = cluster.workers() - 1;
  e.seconds = end_ + (others > 0 ? 2 * k.latency_s + 2 * others * k.message_s : 0);
  double all = 0;
  for (int rank = 0; rank < blocks_.ranks(); ++rank) {
    double own = 0;
    for (int b = blocks_.first(rank); b < blocks_.first(rank + 1); ++b) {
      own += blocks_.blocks()[static_cast<size_t>(b)].seconds;
    }
    e.compute = std::max(e.compute, own);
    all += own;
  }
  if (cores_ > 0) e.compute = std::max(e.compute, all / cores_);
  e.exposed = e.seconds - e.compute;
  const size_t hosts = cluster.hosts.size();
  for (size_t r = 0; r < busy_.size(); ++r) {
    if (r < 2 * hosts) e.link_bound = std::max(e.link_bound, busy_[r] * k.link_efficiency);
    if (busy_[r] <= e.busiest_s) continue;
    e.busiest_s = busy_[r];
    e.busiest_host = static_cast<int>(r % hosts);
    e.busiest_kind = static_cast<Estimate::Kind>(r / hosts);
  }
  for (const Shipment& s : shipments_) {
    if (s.route->hops.empty()) continue;  // of one rank alone
    e.last_arrival = std::max(e.last_arrival, s.ended);
    e.latency += s.route->depth * k.latency_s;
    e.transfers += static_cast<double>(s.route->hops.size());
    ++e.messages;
  }
  return e;
}

int ShapedUpdate::rank_of(int block) const {
  int rank = 0;
  while (blocks_.first(rank + 1) <= block) ++rank;
  return rank;
}

std::string ShapedUpdate::name_of(const Block& block) const {
  static constexpr const char* kNames[] = {"update", "F", "R", "B"};
  const char* kind = kNames[static_cast<size_t>(block.kind)];
  if (block.kind == Block::Kind::kUpdate) return kind;
  return fmt::format("{}{}/{}", kind, block.micro_batch, block.cell);
}

Interval ShapedUpdate::interval_of(size_t shipment) const {
  const Shipment& s = shipments_[shipment];
  if (shipment < plan_.messages.size()) {
    return {fmt::format("route {}", s.route->number), plan_.messages[shipment].what, s.begun, s.ended};
  }
  const Parcel& parcel = blocks_.parcels()[shipment - plan_.messages.size()];
  return {
      fmt::format("rank {} to {}", parcel.from, parcel.to),
      fmt::format("{} of micro-batch {} from cell {} to cell {}", parcel.backward ? "gradient" : "activation",
                  parcel.micro_batch, parcel.from_cell, parcel.to_cell),
      s.begun, s.ended};
}

SimulatedIteration ShapedUpdate::story() const {
  SimulatedIteration t{summary(), {}, {}};
  for (int rank = 0; rank < blocks_.ranks(); ++rank) {
    for (int b = blocks_.first(rank); b < blocks_.first(rank + 1); ++b) {
      const auto at = static_cast<size_t>(b);
      t.intervals.push_back(
          {fmt::format("rank {}", rank), name_of(blocks_.blocks()[at]), began_[at], ended_[at]});
    }
  }
  for (size_t i = 0; i < shipments_.size(); ++i) {
    if (!shipments_[i].route->hops.empty()) t.intervals.push_back(interval_of(i));
  }
  t.critical_path = critical_path(t.estimate.seconds);
  return t;
}

// From the end back to the beginning: each block began when the one before it on its rank had ended or when
// the last of its parcels came, each shipment when a block had ended.
std::vector<Interval> ShapedUpdate::critical_path(double seconds) const {
  std::vector<Interval> path;
  if (seconds > end_) path.push_back({"loss", "summed among all workers", end_, seconds});
  int block = -1;
  for (int rank = 0; rank < blocks_.ranks(); ++rank) {
    const int last = blocks_.first(rank + 1) - 1;
    if (last < blocks_.first(rank)) continue;
    if (block < 0 || ended_[static_cast<size_t>(last)] > ended_[static_cast<size_t>(block)]) block = last;
  }
  std::vector<int> sender(shipments_.size(), -1);  // by shipment: the block whose end gave its last part
  std::vector<int> last_of(blocks_.blocks().size(), -1);  // by block: its parcel that came last
  for (size_t b = 0; b < blocks_.blocks().size(); ++b) {
    const Block& from = blocks_.blocks()[b];
    for (int p = from.parcels; p < from.parcels + from.count; ++p) {
      sender[plan_.messages.size() + static_cast<size_t>(p)] = static_cast<int>(b);
    }
    for (int o = opened_by_[b]; o >= 0; o = openings_[static_cast<size_t>(o)].next) {
      int& last = sender[static_cast<size_t>(openings_[static_cast<size_t>(o)].message)];
      if (last < 0 || ended_[b] >= ended_[static_cast<size_t>(last)]) last = static_cast<int>(b);
    }
  }
  for (size_t i = plan_.messages.size(); i < shipments_.size(); ++i) {
    int& last = last_of[static_cast<size_t>(blocks_.parcels()[i - plan_.messages.size()].block)];
    if (last < 0 || shipments_[i].ended > shipments_[static_cast<size_t>(last)].ended)
      last = static_cast<int>(i);
  }
  const auto follow = [&](size_t shipment) {
    const Shipment& s = shipments_[shipment];
    Interval interval = interval_of(shipment);
    interval.begin = std::max(s.begun, s.ready);
    path.push_back(interval);
    if (s.begun > s.ready) path.push_back({"queue", "behind other messages", s.ready, s.begun});
    block = sender[shipment];
  };
  for (size_t i = 0; i < plan_.messages.size(); ++i) {
    if (shipments_[i].ended < end_ || shipments_[i].route->hops.empty()) continue;
    follow(i);
    break;
  }
  while (block >= 0) {
    const auto at = static_cast<size_t>(block);
    const int rank = rank_of(block);
    path.push_back({fmt::format("rank {}", rank), name_of(blocks_.blocks()[at]), began_[at], ended_[at]});
    const bool first = block == blocks_.first(rank);
    const int parcel = last_of[at];
    if (parcel >= 0 && (first || shipments_[static_cast<size_t>(parcel)].ended > ended_[at - 1])) {
      follow(static_cast<size_t>(parcel));
    } else {
      block = first ? -1 : block - 1;
    }
  }
  std::reverse(path.begin(), path.end());
  return joined(path);
}

}  // namespace entrain::simulator
