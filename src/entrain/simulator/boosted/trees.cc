#include "entrain/simulator/boosted/trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace entrain::simulator {
namespace {

constexpr size_t kBins = 32;  // 40 features' histograms of 32 bins fit the first-level cache

// Ends of at most kBins bins that hold about equally many rows, each halfway between two seen values.
std::vector<float> quantile_edges(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  std::vector<float> edges;
  const size_t n = values.size();
  for (size_t b = 1; b < kBins; ++b) {
    const size_t at = b * n / kBins;
    if (at == 0 || at >= n) continue;
    // The next larger value: an edge must stand between two that differ.
    const auto next = std::upper_bound(values.begin(), values.end(), values[at - 1]);
    if (next == values.end()) break;
    const float edge = values[at - 1] + (*next - values[at - 1]) / 2;
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

}  // namespace

TreeGrower::TreeGrower(const FeatureRows& rows, const TreeOptions& options)
    : options_(options), count_(rows.count()) {
  std::vector<float> column(static_cast<size_t>(count_));
  for (int f = 0; f < rows.width; ++f) {
    for (int i = 0; i < count_; ++i) column[i] = rows.row(i)[f];
    auto edges = quantile_edges(column);
    if (edges.empty()) continue;
    features_.push_back(f);
    edges_.push_back(std::move(edges));
  }
  const size_t width = features_.size();
  bins_.resize(width * static_cast<size_t>(count_));
  for (int i = 0; i < count_; ++i) {
    for (size_t p = 0; p < width; ++p) {
      const auto& edges = edges_[p];
      const auto place = std::lower_bound(edges.begin(), edges.end(), rows.row(i)[features_[p]]);
      bins_[static_cast<size_t>(i) * width + p] = static_cast<uint8_t>(place - edges.begin());
    }
  }
}

TreeGrower::Split TreeGrower::best_split(std::span<const int> rows, const Sums& all) {
  histogram_.assign(tried_.size() * kBins, Sums{});
  for (const int i : rows) {
    const uint8_t* bins = bins_.data() + static_cast<size_t>(i) * features_.size();
    const auto g = static_cast<float>(gradient_[i]), h = static_cast<float>(hessian_[i]);
    for (size_t t = 0; t < tried_.size(); ++t) {
      Sums& bin = histogram_[t * kBins + bins[tried_[t]]];
      bin.gradient += g;
      bin.hessian += h;
      bin.rows += 1;
    }
  }
  Split best;
  const auto l2 = static_cast<float>(options_.l2), least = static_cast<float>(options_.min_leaf);
  const float whole = all.gradient * all.gradient / (all.hessian + l2);
  for (size_t t = 0; t < tried_.size(); ++t) {
    Sums left;
    for (size_t b = 0; b < edges_[tried_[t]].size(); ++b) {
      const Sums& bin = histogram_[t * kBins + b];
      left.gradient += bin.gradient;
      left.hessian += bin.hessian;
      left.rows += bin.rows;
      if (left.rows < least) continue;
      if (all.rows - left.rows < least) break;
      const float g = all.gradient - left.gradient, h = all.hessian - left.hessian;
      const float gain = left.gradient * left.gradient / (left.hessian + l2) + g * g / (h + l2) - whole;
      if (gain > best.gain + 1e-7f) best = {tried_[t], static_cast<int>(b), gain};
    }
  }
  return best;
}

int TreeGrower::grow_node(Tree& tree, std::span<int> rows, int depth) {
  const int index = static_cast<int>(tree.nodes.size());
  tree.nodes.emplace_back();
  double gradient = 0, hessian = 0;
  for (const int i : rows) {
    gradient += gradient_[i];
    hessian += hessian_[i];
  }
  const Sums all{static_cast<float>(gradient), static_cast<float>(hessian), static_cast<float>(rows.size())};
  const Split split = depth > 0 ? best_split(rows, all) : Split{};
  if (split.place < 0) {
    tree.nodes[index].value = static_cast<float>(-gradient / (hessian + options_.l2));
    return index;
  }
  const uint8_t* bins = bins_.data() + split.place;
  const auto middle = std::stable_partition(rows.begin(), rows.end(), [&](int i) {
    return bins[static_cast<size_t>(i) * features_.size()] <= split.bin;
  });
  const auto left_rows = static_cast<size_t>(middle - rows.begin());
  const int left = grow_node(tree, rows.first(left_rows), depth - 1);
  const int right = grow_node(tree, rows.subspan(left_rows), depth - 1);
  tree.nodes[index] = {features_[split.place], edges_[split.place][split.bin], left, right, 0};
  return index;
}

Tree TreeGrower::grow(std::vector<int> chosen, std::span<const double> gradient,
                      std::span<const double> hessian, std::mt19937_64& rng) {
  gradient_ = gradient;
  hessian_ = hessian;
  tried_.resize(features_.size());
  std::iota(tried_.begin(), tried_.end(), 0);
  const auto wanted =
      static_cast<size_t>(std::ceil(options_.feature_share * static_cast<double>(tried_.size())));
  for (size_t i = 0; i < wanted && i < tried_.size(); ++i) {
    std::swap(tried_[i], tried_[i + rng() % (tried_.size() - i)]);
  }
  tried_.resize(std::min(wanted, tried_.size()));
  Tree tree;
  grow_node(tree, chosen, options_.depth);
  return tree;
}

}  // namespace entrain::simulator
