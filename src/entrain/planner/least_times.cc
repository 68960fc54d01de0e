#include "entrain/planner/least_times.h"

#include <algorithm>
#include <limits>
#include <set>

namespace entrain::planner {

LeastTimes::LeastTimes(const graph::Graph& graph) : graph_(graph) {
  std::set<int64_t> sizes;
  for (const graph::Layer& layer : graph.layers) {
    for (const graph::LayerTime& time : layer.times) sizes.insert(time.examples);
  }
  sizes_.assign(sizes.begin(), sizes.end());
  while (first_trained_ < layers() && graph.layers[first_trained_].variables.empty()) ++first_trained_;
}

double LeastTimes::layer_s(int layer, int64_t examples) const {
  const graph::LayerTime time = graph_.layers[layer].time_of(examples);
  return time.forward_s + (layer >= first_trained_ ? time.backward_s : 0);
}

// Over all sizes in [from, to]. Requires: `time` has its corners at profiled sizes only, or falls between.
template <typename Time>
double LeastTimes::least(int64_t from, int64_t to, const Time& time) const {
  double best = std::min(time(from), time(to));
  for (const int64_t size : sizes_) {
    if (size > from && size < to) best = std::min(best, time(size));
  }
  return best;
}

double LeastTimes::per_example(int layer, int64_t largest) const {
  return least(1, largest, [&](int64_t n) { return layer_s(layer, n) / static_cast<double>(n); });
}

double LeastTimes::per_example(int64_t largest) const {
  return least(1, largest, [&](int64_t n) {
    double sum = 0;
    for (int l = 0; l < layers(); ++l) sum += layer_s(l, n);
    return sum / static_cast<double>(n);
  });
}

double LeastTimes::chain(int begin, int64_t from, int64_t to) const {
  return least(from, to, [&](int64_t n) {
    double sum = 0;
    for (int l = begin; l < layers(); ++l) sum += layer_s(l, n);
    return sum;
  });
}

double LeastTimes::forward(int layer, int64_t largest) const {
  return least(1, largest, [&](int64_t n) { return graph_.layers[layer].time_of(n).forward_s; });
}

double LeastTimes::way_back(int64_t largest) const {
  return least(1, largest, [&](int64_t n) {
    double sum = graph_.layers.back().time_of(n).forward_s;
    for (int l = first_trained_; l < layers(); ++l) sum += graph_.layers[l].time_of(n).backward_s;
    return sum;
  });
}

}  // namespace entrain::planner
