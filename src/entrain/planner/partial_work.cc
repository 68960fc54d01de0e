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
  for (double s = 1.0 / 64; s < 0.5; s *= 1.3) bounds.push_back(s);
  for (size_t i = bounds.size(); i-- > 0;) bounds.push_back(1 - bounds[i]);
  return bounds;
}

// Least bytes by buckets of work, over labels that are not the same for all layers.
class LabelTable {
 public:
  LabelTable(const LinkLayers& layers, double bucket, size_t size)
      : layers_(layers), bucket_(bucket), size_(size) {}

  std::vector<double> fill(double lo, double hi) {
    lo_ = lo;
    hi_ = hi;
    for (auto& costs : costs_) costs.assign(size_, kNever);
    double uniform[3] = {0, layers_.spread[0], 0};  // so far all layers have this label
    size_t place[3] = {0, buckets(0, 1), buckets(0, 2)};
    for (size_t l = 1; l < layers_.work.size(); ++l) {
      const double flow = layers_.examples * layers_.flow[l - 1];
      std::vector<double> next[3];
      for (int to = 0; to < 3; ++to) {
        next[to].assign(size_, kNever);
        const size_t step = buckets(l, to);
        const double spread = to == 1 ? layers_.spread[l] : 0;
        for (int from = 0; from < 3; ++from) {
          const double cost = spread + flow * distance(from, to);
          for (size_t b = 0; b + step < size_; ++b) {
            next[to][b + step] = std::min(next[to][b + step], costs_[from][b] + cost);
          }
          if (from == to || place[from] + step >= size_) continue;
          double& entry = next[to][place[from] + step];
          entry = std::min(entry, uniform[from] + cost);
        }
      }
      for (int label = 0; label < 3; ++label) {
        costs_[label] = std::move(next[label]);
        place[label] += buckets(l, label);
      }
      uniform[1] += layers_.spread[l];
    }
    std::vector<double> least(size_);
    for (size_t b = 0; b < size_; ++b) least[b] = std::min({costs_[0][b], costs_[1][b], costs_[2][b]});
    return least;
  }

 private:
  size_t buckets(size_t layer, int label) const {
    const double share = label == 0 ? 0 : label == 1 ? lo_ : 1;
    return static_cast<size_t>(layers_.examples * layers_.work[layer] * share / bucket_);
  }
  double distance(int from, int to) const {
    if (from == to) return 0;
    if (from != 1 && to != 1) return 1;
    return from == 0 || to == 0 ? lo_ : 1 - hi_;
  }

  const LinkLayers& layers_;
  double bucket_;
  size_t size_;
  double lo_ = 0, hi_ = 0;
  std::vector<double> costs_[3];  // by label of the last layer
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
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::vector<double> least = labels.fill(bounds[i], bounds[i + 1]);
    // Work that rounding may hide: a bucket per layer, and the width of the interval.
    const auto hidden =
        layers_.work.size() + 1 +
        static_cast<size_t>(std::ceil((bounds[i + 1] - bounds[i]) * layers_.all_work() / bucket_));
    for (size_t b = 0; b < size; ++b) {
      if (least[b] == kNever) continue;
      for (size_t u = b; u <= std::min(b + hidden, size - 1); ++u) table_[u] = std::min(table_[u], least[b]);
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
