#include "entrain/planner/partial_work.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace entrain::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Bounds of the intervals of shares, close together near 0 and 1.
std::vector<double> share_bounds() {
  std::vector<double> bounds = {0};
  for (double s = 1.0 / 64; s < 0.5; s += std::min(0.3 * s, 0.04)) bounds.push_back(s);
  for (size_t i = bounds.size(); i-- > 0;) bounds.push_back(1 - bounds[i]);
  return bounds;
}

// Least bytes by buckets of work, over labels that are not the same for all layers.
class LabelTable {
 public:
  LabelTable(const LinkLayers& layers, double bucket, size_t size)
      : layers_(layers), bucket_(bucket), size_(size) {}

  // For shares in [lo, hi].
  void fill(double lo, double hi) {
    lo_ = lo;
    hi_ = hi;
    for (auto& costs : costs_) costs.assign(size_, kNever);
    double uniform_cost[] = {0, layers_.spread[0], 0};  // so far all layers have this label
    size_t uniform_place[] = {0, buckets(0, kPart), buckets(0, kOne)};
    for (size_t l = 1; l < layers_.work.size(); ++l) {
      std::vector<double> next[kStates];
      for (auto& costs : next) costs.assign(size_, kNever);
      for (int from = 0; from < kStates; ++from) {
        for (int to = 0; to < kLabels; ++to) {
          extend(costs_[from], l, label_of(from), to, next[state_after(is_late(from), to)]);
        }
      }
      for (int from = 0; from < kLabels; ++from) {
        for (int to = 0; to < kLabels; ++to) {
          const size_t place = uniform_place[from] + buckets(l, to);
          if (from == to || place >= size_) continue;
          double& entry = next[state_after(from == kPart, to)][place];
          entry = std::min(entry, uniform_cost[from] + cost(l, from, to));
        }
        uniform_cost[from] += cost(l, from, from);
        uniform_place[from] += buckets(l, from);
      }
      for (int state = 0; state < kStates; ++state) costs_[state] = std::move(next[state]);
    }
  }

  // The least in bucket `b`, with layers that are spread, or without any.
  double with_spread(size_t b) const { return std::min({costs_[2][b], costs_[3][b], costs_[4][b]}); }
  double without_spread(size_t b) const { return std::min(costs_[0][b], costs_[1][b]); }

 private:
  // A label: nothing, a part or all of a layer's examples. States 0 and 1: nothing or all, and no layer was
  // spread so far; 2 to 4: nothing, a part, all, and some layer is spread.
  enum { kZero, kPart, kOne, kLabels, kStates = 5 };
  static int label_of(int state) { return state < 2 ? 2 * state : state - 2; }
  static bool is_late(int state) { return state >= 2; }
  static int state_after(bool late, int label) { return late || label == kPart ? 2 + label : label / 2; }

  void extend(const std::vector<double>& costs, size_t layer, int from, int to,
              std::vector<double>& next) const {
    const size_t step = buckets(layer, to);
    const double more = cost(layer, from, to);
    for (size_t b = 0; b + step < size_; ++b) next[b + step] = std::min(next[b + step], costs[b] + more);
  }
  size_t buckets(size_t layer, int label) const {
    const double share = label == kZero ? 0 : label == kPart ? lo_ : 1;
    return static_cast<size_t>(layers_.examples * layers_.work[layer] * share / bucket_);
  }
  double cost(size_t layer, int from, int to) const {
    double distance = 0;
    if (from != to) distance = from == kZero || to == kZero ? lo_ : 1 - hi_;
    if (from != to && from != kPart && to != kPart) distance = 1;
    return (to == kPart ? layers_.spread[layer] : 0) + layers_.examples * layers_.flow[layer - 1] * distance;
  }

  const LinkLayers& layers_;
  double bucket_;
  size_t size_;
  double lo_ = 0, hi_ = 0;
  std::vector<double> costs_[kStates];  // of the layers so far
};

}  // namespace

double LinkLayers::all_work() const { return examples * std::accumulate(work.begin(), work.end(), 0.0); }
double LinkLayers::all_spread() const { return std::accumulate(spread.begin(), spread.end(), 0.0); }

PartialWork::PartialWork(LinkLayers layers) : layers_(std::move(layers)), knapsack_w_{0}, knapsack_p_{0} {
  least_flow_ = layers_.flow.empty() ? kNever : *std::min_element(layers_.flow.begin(), layers_.flow.end());
  std::vector<size_t> order;
  for (size_t l = 0; l < layers_.work.size(); ++l) {
    if (layers_.work[l] > 0) order.push_back(l);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return layers_.spread[a] * layers_.work[b] < layers_.spread[b] * layers_.work[a];
  });
  for (const size_t l : order) {
    knapsack_w_.push_back(knapsack_w_.back() + layers_.work[l]);
    knapsack_p_.push_back(knapsack_p_.back() + layers_.spread[l]);
  }
  if (layers_.work.size() > 1 && layers_.all_work() > 0) fill_table();
}

void PartialWork::fill_table() {
  const size_t size = std::clamp<size_t>(64 * layers_.work.size(), 256, 4096);
  bucket_ = layers_.all_work() / static_cast<double>(size - 1);
  table_.assign(size, kNever);
  LabelTable labels(layers_, bucket_, size);
  const std::vector<double> bounds = share_bounds();
  // What is in bucket b may stand for as much more work as rounding hides: a bucket per layer, and of spread
  // layers the width of the interval.
  const auto enter = [&](size_t b, double bytes, double hidden_s) {
    if (bytes == kNever) return;
    const size_t hidden = layers_.work.size() + 1 + static_cast<size_t>(std::ceil(hidden_s / bucket_));
    for (size_t u = b; u <= std::min(b + hidden, size - 1); ++u) table_[u] = std::min(table_[u], bytes);
  };
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    labels.fill(bounds[i], bounds[i + 1]);
    for (size_t b = 0; b < size; ++b) {
      enter(b, labels.with_spread(b), (bounds[i + 1] - bounds[i]) * layers_.all_work());
      if (i == 0) enter(b, labels.without_spread(b), 0);
    }
  }
}

double PartialWork::most_apart(double total_bytes, double flow_bytes) const {
  const double per_work = least_flow_ > 0 ? std::min(layers_.examples, flow_bytes / least_flow_)
                                          : layers_.examples;  // the most that c / w(Q) can be
  const auto at = [&](double w, double p) {
    if (p > total_bytes) return 0.0;
    return w * (least_flow_ > 0 ? std::min(per_work, (total_bytes - p) / least_flow_) : per_work);
  };
  double most = 0;
  for (size_t i = 0; i + 1 < knapsack_w_.size(); ++i) {
    const double slope = (knapsack_p_[i + 1] - knapsack_p_[i]) / (knapsack_w_[i + 1] - knapsack_w_[i]);
    const double start = total_bytes - knapsack_p_[i] + slope * knapsack_w_[i];  // bytes left at w = 0
    std::vector<double> places = {knapsack_w_[i], knapsack_w_[i + 1]};
    if (slope > 0) {
      places.push_back(start / (2 * slope));
      places.push_back((start - per_work * least_flow_) / slope);
      places.push_back(start / slope);
    }
    for (double w : places) {
      w = std::clamp(w, knapsack_w_[i], knapsack_w_[i + 1]);
      most = std::max(most, at(w, knapsack_p_[i] + slope * (w - knapsack_w_[i])));
    }
  }
  return most;
}

// The largest u in [least, limit] that the table allows; 0: none.
double PartialWork::last_below(double limit, double least, double total_bytes) const {
  if (limit < least || limit <= 0) return 0;
  auto b = std::min(static_cast<size_t>(limit / bucket_), table_.size() - 1);
  while (table_[b] > total_bytes) {
    if (b == 0) return 0;
    --b;
  }
  const double found = std::min(limit, bucket_ * static_cast<double>(b + 1));
  return found < least ? 0 : found;
}

double PartialWork::most(double limit, double total_bytes, double flow_bytes) const {
  if (table_.empty() || flow_bytes < 0) return 0;
  const double all = layers_.all_work();
  limit = std::min(limit, all);
  const double across = layers_.examples * least_flow_;
  if (across <= std::min(total_bytes, flow_bytes)) return last_below(limit, 0, total_bytes);
  const double apart = most_apart(total_bytes, flow_bytes);
  const double high = last_below(limit, all - apart, total_bytes);
  return high > 0 ? high : last_below(std::min(limit, apart), 0, total_bytes);
}

}  // namespace entrain::planner
