#include "entrain/simulator/analytic/shared_cores.h"

#include <algorithm>

namespace entrain::simulator {

void SharedCores::reset(double cores) {
  cores_ = cores;
  at_ = clock_ = 0;
  begun_ = 0;
  running_.clear();
}

double SharedCores::rate() const {
  const auto ranks = static_cast<double>(running_.size());
  return cores_ <= 0 || ranks <= cores_ ? 1 : cores_ / ranks;
}

void SharedCores::advance(double now) {
  clock_ += (now - at_) * rate();
  at_ = now;
}

void SharedCores::begin(double now, int rank, double work) {
  advance(now);
  running_.push_back({clock_ + work, begun_++, rank});
  std::push_heap(running_.begin(), running_.end());
}

double SharedCores::next_end() const {
  if (running_.empty()) return std::numeric_limits<double>::infinity();
  return at_ + std::max(0.0, running_.front().end - clock_) / rate();
}

int SharedCores::take(double now) {
  advance(now);
  clock_ = std::max(clock_, running_.front().end);  // what rounding left
  const int rank = running_.front().rank;
  std::pop_heap(running_.begin(), running_.end());
  running_.pop_back();
  return rank;
}

}  // namespace entrain::simulator
