// Small regression trees for gradient boosting: histograms over quantile bins, second-order leaf values.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace entrain::simulator {

// Rows of `width` floats, one after the other.
struct FeatureRows {
  std::vector<float> values;
  int width = 0;

  int count() const { return width == 0 ? 0 : static_cast<int>(values.size()) / width; }
  const float* row(int i) const {
    return values.data() + static_cast<size_t>(i) * static_cast<size_t>(width);
  }
};

struct Tree {
  struct Node {
    int feature = -1;     // -1: a leaf
    float threshold = 0;  // value <= threshold goes left
    int left = -1, right = -1;
    float value = 0;  // of a leaf
  };
  std::vector<Node> nodes;  // nodes[0] is the root

  double predict(const float* row) const {
    const Node* node = nodes.data();
    while (node->feature >= 0)
      node = &nodes[row[node->feature] <= node->threshold ? node->left : node->right];
    return node->value;
  }
};

struct TreeOptions {
  int depth = 3;
  int min_leaf = 6;            // rows
  double l2 = 1;               // added to a leaf's summed hessian
  double feature_share = 0.6;  // features that a tree may look at
};

// Grows trees on the same rows again and again. Not thread-safe.
class TreeGrower {
 public:
  TreeGrower(const FeatureRows& rows, const TreeOptions& options);

  // Over `chosen` rows, a leaf's value is -sum(gradient) / (sum(hessian) + l2); splits maximise
  //   G_l^2 / (H_l + l2) + G_r^2 / (H_r + l2) - G^2 / (H + l2)
  // `gradient` and `hessian` are by row of `rows`. Same rng state, same tree.
  Tree grow(std::vector<int> chosen, std::span<const double> gradient, std::span<const double> hessian,
            std::mt19937_64& rng);

 private:
  struct Sums {
    float gradient = 0, hessian = 0, rows = 0;
  };
  struct Split {
    int place = -1, bin = 0;  // in features_
    float gain = 0;
  };
  Split best_split(std::span<const int> rows, const Sums& all);
  int grow_node(Tree& tree, std::span<int> rows, int depth);

  TreeOptions options_;
  int count_;                              // rows
  std::vector<std::vector<float>> edges_;  // by place in features_: ends of all bins but the last
  std::vector<uint8_t> bins_;              // by row, then by place in features_
  std::vector<int> features_;              // those with more than one value
  std::vector<int> tried_;                 // places in features_, of the tree being grown
  std::vector<Sums> histogram_;            // of a node: by place in tried_, then bin
  std::span<const double> gradient_, hessian_;
};

}  // namespace entrain::simulator
