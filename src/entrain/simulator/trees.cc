#include "entrain/simulator/trees.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace entrain::simulator {
namespace {

constexpr size_t kBins = 64;

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

TreeGrower::TreeGrower(const Rows& rows, const TreeOptions& options)
    : options_(options), count_(rows.count()) {
  edges_.resize(static_cast<size_t>(rows.width));
  bins_.resize(static_cast<size_t>(rows.width) * static_cast<size_t>(count_));
  std::vector<float> column(static_cast<size_t>(count_));
  for (int f = 0; f < rows.width; ++f) {
    for (int i = 0; i < count_; ++i) column[i] = rows.row(i)[f];
    const auto& edges = edges_[f] = quantile_edges(column);
    if (!edges.empty()) features_.push_back(f);
    uint8_t* bins = bins_.data() + static_cast<size_t>(f) * static_cast<size_t>(count_);
    for (int i = 0; i < count_; ++i) {
      bins[i] = static_cast<uint8_t>(std::lower_bound(edges.begin(), edges.end(), column[i]) - edges.begin());
    }
  }
}

TreeGrower::Split TreeGrower::best_split(std::span<const int> rows, const Sums& all) const {
  Split best;
  const double whole = all.gradient * all.gradient / (all.hessian + options_.l2);
  for (const int f : tried_) {
    std::array<Sums, kBins> histogram{};
    const uint8_t* bins = bins_.data() + static_cast<size_t>(f) * static_cast<size_t>(count_);
    for (const int i : rows) {
      Sums& bin = histogram[bins[i]];
      bin.gradient += gradient_[i];
      bin.hessian += hessian_[i];
      ++bin.rows;
    }
    Sums left;
    for (size_t b = 0; b < edges_[f].size(); ++b) {
      left.gradient += histogram[b].gradient;
      left.hessian += histogram[b].hessian;
      left.rows += histogram[b].rows;
      if (left.rows < options_.min_leaf) continue;
      if (all.rows - left.rows < options_.min_leaf) break;
      const double g = all.gradient - left.gradient, h = all.hessian - left.hessian;
      const double gain =
          left.gradient * left.gradient / (left.hessian + options_.l2) + g * g / (h + options_.l2) - whole;
      if (gain > best.gain + 1e-12) best = {f, static_cast<int>(b), gain};
    }
  }
  return best;
}

int TreeGrower::grow_node(Tree& tree, std::span<int> rows, int depth) {
  const int index = static_cast<int>(tree.nodes.size());
  tree.nodes.emplace_back();
  Sums all;
  for (const int i : rows) {
    all.gradient += gradient_[i];
    all.hessian += hessian_[i];
  }
  all.rows = static_cast<int>(rows.size());
  const Split split = depth > 0 ? best_split(rows, all) : Split{};
  if (split.feature < 0) {
    tree.nodes[index].value = static_cast<float>(-all.gradient / (all.hessian + options_.l2));
    return index;
  }
  const uint8_t* bins = bins_.data() + static_cast<size_t>(split.feature) * static_cast<size_t>(count_);
  const auto middle =
      std::stable_partition(rows.begin(), rows.end(), [&](int i) { return bins[i] <= split.bin; });
  const auto left_rows = static_cast<size_t>(middle - rows.begin());
  const int left = grow_node(tree, rows.first(left_rows), depth - 1);
  const int right = grow_node(tree, rows.subspan(left_rows), depth - 1);
  tree.nodes[index] = {split.feature, edges_[split.feature][split.bin], left, right, 0};
  return index;
}

Tree TreeGrower::grow(std::vector<int> chosen, std::span<const double> gradient,
                      std::span<const double> hessian, std::mt19937_64& rng) {
  gradient_ = gradient;
  hessian_ = hessian;
  tried_ = features_;
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
