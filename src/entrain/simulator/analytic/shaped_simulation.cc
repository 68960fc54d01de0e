#include "entrain/simulator/analytic/shaped_simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/shared_cores.h"
#include "entrain/simulator/analytic/shipments.h"

namespace entrain::simulator {
namespace {

// What moves as one on a link: the same number of pieces for a small model as for a large one.
constexpr double kLeastPiece = 16 << 10;  // bytes
constexpr double kPieces = 2000;          // of all bytes that move

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

double emulated_cores(const cluster::Cluster& cluster, const Calibration& calibration) {
  return cluster.kind == cluster::Kind::kHosts ? 0 : calibration.cores;
}

}  // namespace

// One simulated update; kept between calls for its memory.
class ShapedSimulation::Update final : Source {
 public:
  void run(const ShapedSimulation& simulation, const strategy::Strategy& strategy, bool describe);
  Estimate summary() const;
  SimulatedIteration story() const;

 private:
  struct Opening {
    int message;
    int next;  // of the same block, or -1
  };

  void add_messages();
  void add_parcels();
  void begin(Carrier& carrier) override;
  void woken(int token) override;
  void arrived(int shipment) override;
  void start(int rank);
  void finish(int rank);
  void watch_cores();
  std::string name_of(const Block& block) const;
  Interval interval_of(size_t shipment) const;
  int rank_of(int block) const;
  std::vector<Interval> critical_path(double seconds) const;
  // A block that nobody waits for, and the next of the same rank that waits for nobody, run as one.
  bool joins_next(int block, int end) const;

  const ShapedSimulation* simulation_ = nullptr;
  bool describe_ = false;
  double cores_ = 0;  // 0: not shared
  ShapeBlocks blocks_;
  plan::Plan plan_;
  std::vector<Shipment> shipments_;  // messages, then parcels
  std::vector<int> opened_by_;       // by block: place in openings_ of the first message that it opens, or -1
  std::vector<Opening> openings_;
  std::vector<double> busy_;  // as Network::run() fills it

  // While it runs.
  Carrier* carrier_ = nullptr;
  SharedCores shared_;
  int watch_ = 0;                      // number of the last time at which cores_ were to be looked at
  std::vector<int> needs_;             // by block: parcels that it still waits for
  std::vector<int> next_, last_;       // by rank: blocks; of those that run as one
  std::vector<char> computing_;        // by rank
  std::vector<double> began_, ended_;  // by block
  double end_ = 0;                     // of all blocks and messages
};

void ShapedSimulation::Update::run(const ShapedSimulation& simulation, const strategy::Strategy& strategy,
                                   bool describe) {
  simulation_ = &simulation;
  describe_ = describe;
  cores_ = emulated_cores(simulation.job_.cluster, simulation.calibration_);
  blocks_.make(simulation.job_, *strategy.shape);
  plan_ = simulation.planner_.plan(strategy, describe);
  shipments_.clear();
  add_messages();
  add_parcels();
  double bytes = 0;
  for (const Shipment& s : shipments_) {
    bytes += s.bytes / s.route->chunks * static_cast<double>(s.route->hops.size());
  }
  simulation.network_.run(shipments_, *this, std::max(kLeastPiece, bytes / kPieces), busy_);
  end_ = 0;
  for (size_t i = 0; i < shipments_.size(); ++i) {
    Shipment& s = shipments_[i];
    if (i < plan_.messages.size()) {
      s.ended += after_arrival(plan_.messages[i], *s.route, simulation.calibration_);
    }
    end_ = std::max(end_, s.ended);
  }
  for (int rank = 0; rank < blocks_.ranks(); ++rank) {
    const int after = blocks_.first(rank + 1);
    if (next_[static_cast<size_t>(rank)] != after) {
      fail("simulation: rank {} stands still at block {} of {}", rank,
           next_[static_cast<size_t>(rank)] - blocks_.first(rank), after - blocks_.first(rank));
    }
    if (after > blocks_.first(rank)) end_ = std::max(end_, ended_[static_cast<size_t>(after) - 1]);
  }
}

// A rank has its part of a message when its last gradient of it is complete.
void ShapedSimulation::Update::add_messages() {
  opened_by_.assign(blocks_.blocks().size(), -1);
  openings_.clear();
  for (size_t i = 0; i < plan_.messages.size(); ++i) {
    const plan::Message& message = plan_.messages[i];
    shipments_.push_back(
        shipment_of(message, simulation_->job_.graph, simulation_->routes_, simulation_->calibration_, 0));
    for (const int rank : *message.ranks) {
      int block = 0;
      for (const auto& slice : message.slices) {
        block = std::max(block, blocks_.completes(rank, slice.variable));
      }
      int& first = opened_by_[static_cast<size_t>(block)];
      openings_.push_back({static_cast<int>(i), first});
      first = static_cast<int>(openings_.size()) - 1;
    }
  }
}

void ShapedSimulation::Update::add_parcels() {
  for (const Parcel& parcel : blocks_.parcels()) {
    Shipment s{simulation_->routes_.straight(parcel.from, parcel.to), 0, parcel.bytes, 0, 0};
    s.whole = true;
    shipments_.push_back(s);
  }
}

void ShapedSimulation::Update::begin(Carrier& carrier) {
  carrier_ = &carrier;
  shared_.reset(cores_);
  watch_ = 0;
  const auto ranks = static_cast<size_t>(blocks_.ranks());
  needs_.clear();
  for (const Block& block : blocks_.blocks()) needs_.push_back(block.needs);
  began_.assign(needs_.size(), 0);
  ended_.assign(needs_.size(), 0);
  computing_.assign(ranks, 0);
  next_.resize(ranks);
  last_.resize(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) next_[rank] = blocks_.first(static_cast<int>(rank));
  for (size_t rank = 0; rank < ranks; ++rank) start(static_cast<int>(rank));
}

bool ShapedSimulation::Update::joins_next(int block, int end) const {
  const auto b = static_cast<size_t>(block);
  return !describe_ && block + 1 < end && opened_by_[b] < 0 && blocks_.blocks()[b].count == 0 &&
         blocks_.blocks()[b + 1].needs == 0;
}

void ShapedSimulation::Update::start(int rank) {
  const auto r = static_cast<size_t>(rank);
  const int end = blocks_.first(rank + 1);
  int block = next_[r];
  if (computing_[r] || block == end || needs_[static_cast<size_t>(block)] > 0) return;
  computing_[r] = 1;
  began_[static_cast<size_t>(block)] = carrier_->time();
  double seconds = blocks_.blocks()[static_cast<size_t>(block)].seconds;
  while (joins_next(block, end)) seconds += blocks_.blocks()[static_cast<size_t>(++block)].seconds;
  last_[r] = block;
  if (cores_ <= 0) return carrier_->wake_at(carrier_->time() + seconds, rank);
  shared_.begin(carrier_->time(), rank, seconds);
  watch_cores();
}

// Who computes has changed, so the next end has as well; what was asked for before is out of date.
void ShapedSimulation::Update::watch_cores() {
  ++watch_;
  if (!shared_.idle()) carrier_->wake_at(shared_.next_end(), watch_);
}

void ShapedSimulation::Update::woken(int token) {
  if (cores_ <= 0) return finish(token);
  if (token != watch_) return;
  const int rank = shared_.take(carrier_->time());
  watch_cores();
  finish(rank);
}

void ShapedSimulation::Update::finish(int rank) {
  const auto r = static_cast<size_t>(rank);
  const auto last = static_cast<size_t>(last_[r]);
  ended_[last] = carrier_->time();
  computing_[r] = 0;
  next_[r] = last_[r] + 1;
  for (int o = opened_by_[last]; o >= 0; o = openings_[static_cast<size_t>(o)].next) {
    carrier_->give(openings_[static_cast<size_t>(o)].message, rank);
  }
  const Block& block = blocks_.blocks()[last];
  for (int p = block.parcels; p < block.parcels + block.count; ++p) {
    carrier_->give(static_cast<int>(plan_.messages.size()) + p, rank);
  }
  start(rank);
}

void ShapedSimulation::Update::arrived(int shipment) {
  const Parcel& parcel = blocks_.parcels()[static_cast<size_t>(shipment) - plan_.messages.size()];
  if (--needs_[static_cast<size_t>(parcel.block)] > 0) return;
  if (next_[static_cast<size_t>(parcel.to)] == parcel.block) start(parcel.to);
}

Estimate ShapedSimulation::Update::summary() const {
  const Calibration& k = simulation_->calibration_;
  const cluster::Cluster& cluster = simulation_->job_.cluster;
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

int ShapedSimulation::Update::rank_of(int block) const {
  int rank = 0;
  while (blocks_.first(rank + 1) <= block) ++rank;
  return rank;
}

std::string ShapedSimulation::Update::name_of(const Block& block) const {
  static constexpr const char* kNames[] = {"update", "F", "R", "B"};
  const char* kind = kNames[static_cast<size_t>(block.kind)];
  if (block.kind == Block::Kind::kUpdate) return kind;
  return fmt::format("{}{}/{}", kind, block.micro_batch, block.cell);
}

Interval ShapedSimulation::Update::interval_of(size_t shipment) const {
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

SimulatedIteration ShapedSimulation::Update::story() const {
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
std::vector<Interval> ShapedSimulation::Update::critical_path(double seconds) const {
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

ShapedSimulation::ShapedSimulation(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   const Calibration& calibration, const Network& network,
                                   const std::vector<double>& update, int64_t examples, int exact_ranks)
    : job_(graph, cluster, calibration.compute_scale, update, examples),
      calibration_(calibration),
      planner_(graph, cluster, exact_ranks),
      routes_(graph, exact_ranks),
      network_(network) {}

Estimate ShapedSimulation::estimate(const strategy::Strategy& strategy) const {
  thread_local Update update;
  update.run(*this, strategy, false);
  return update.summary();
}

SimulatedIteration ShapedSimulation::simulate(const strategy::Strategy& strategy) const {
  Update update;
  update.run(*this, strategy, true);
  return update.story();
}

}  // namespace entrain::simulator
