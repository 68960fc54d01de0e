#include "entrain/simulator/analytic/shaped_update.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/shipments.h"

namespace entrain::simulator {
namespace {

// What moves as one on a link: the same number of pieces for a small model as for a large one.
constexpr double kLeastPiece = 16 << 10;  // bytes
constexpr double kPieces = 2000;          // of all bytes that move

double emulated_cores(const cluster::Cluster& cluster, const Calibration& calibration) {
  return cluster.kind == cluster::Kind::kHosts ? 0 : calibration.cores;
}

}  // namespace

void ShapedUpdate::run(const ShapedModel& model, const strategy::Strategy& strategy, bool describe) {
  model_ = &model;
  describe_ = describe;
  cores_ = emulated_cores(model.job.cluster, model.calibration);
  blocks_.make(model.job, *strategy.shape);
  plan_ = model.planner.plan(strategy, describe);
  shipments_.clear();
  add_messages();
  add_parcels();
  double bytes = 0;
  for (const Shipment& s : shipments_) {
    bytes += s.bytes / s.route->chunks * static_cast<double>(s.route->hops.size());
  }
  model.network.run(shipments_, *this, std::max(kLeastPiece, bytes / kPieces), busy_);
  end_ = 0;
  for (size_t i = 0; i < shipments_.size(); ++i) {
    Shipment& s = shipments_[i];
    if (i < plan_.messages.size()) {
      s.ended += after_arrival(plan_.messages[i], *s.route, model.calibration);
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
void ShapedUpdate::add_messages() {
  opened_by_.assign(blocks_.blocks().size(), -1);
  openings_.clear();
  for (size_t i = 0; i < plan_.messages.size(); ++i) {
    const plan::Message& message = plan_.messages[i];
    shipments_.push_back(shipment_of(message, model_->job.graph, model_->routes, model_->calibration, 0));
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

void ShapedUpdate::add_parcels() {
  for (const Parcel& parcel : blocks_.parcels()) {
    Shipment s{model_->routes.straight(parcel.from, parcel.to), 0, parcel.bytes, 0, 0};
    s.whole = true;
    shipments_.push_back(s);
  }
}

void ShapedUpdate::begin(Carrier& carrier) {
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

bool ShapedUpdate::joins_next(int block, int end) const {
  const auto b = static_cast<size_t>(block);
  return !describe_ && block + 1 < end && opened_by_[b] < 0 && blocks_.blocks()[b].count == 0 &&
         blocks_.blocks()[b + 1].needs == 0;
}

void ShapedUpdate::start(int rank) {
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
void ShapedUpdate::watch_cores() {
  ++watch_;
  if (!shared_.idle()) carrier_->wake_at(shared_.next_end(), watch_);
}

void ShapedUpdate::woken(int token) {
  if (cores_ <= 0) return finish(token);
  if (token != watch_) return;
  const int rank = shared_.take(carrier_->time());
  watch_cores();
  finish(rank);
}

void ShapedUpdate::finish(int rank) {
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

void ShapedUpdate::arrived(int shipment) {
  const Parcel& parcel = blocks_.parcels()[static_cast<size_t>(shipment) - plan_.messages.size()];
  if (--needs_[static_cast<size_t>(parcel.block)] > 0) return;
  if (next_[static_cast<size_t>(parcel.to)] == parcel.block) start(parcel.to);
}

}  // namespace entrain::simulator
