#include "entrain/simulator/boosted/boosting.h"

#include <algorithm>
#include <cmath>

#include "entrain/simulator/boosted/features.h"
#include "entrain/simulator/ranking.h"

namespace entrain::simulator {
namespace {

constexpr size_t kStopPairs = 4000;
constexpr int kRowsALeaf = 200;         // of many domains' trials, a leaf holds at least one in this many
                                        // may be of one domain only
constexpr double kLeastHessian = 0.05;  // saturated pairs have none, and steps must stay finite

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Pair {
  int a, b;
};

// Rows by lesson; lessons of one row make no pair and are left out.
std::vector<std::vector<int>> by_lesson(const Examples& examples, const std::vector<int>& rows) {
  std::vector<std::vector<int>> groups;
  for (const int i : rows) {
    const auto lesson = static_cast<size_t>(examples.lesson[i]);
    if (groups.size() <= lesson) groups.resize(lesson + 1);
    groups[lesson].push_back(i);
  }
  std::erase_if(groups, [](const auto& g) { return g.size() < 2; });
  return groups;
}

// All pairs when they are few, else a fixed random choice.
std::vector<Pair> stop_pairs(const std::vector<std::vector<int>>& groups, std::mt19937_64& rng) {
  std::vector<Pair> pairs;
  for (const auto& g : groups) {
    const size_t quota = kStopPairs / groups.size();
    if (g.size() * (g.size() - 1) / 2 <= quota) {
      for (size_t i = 0; i < g.size(); ++i) {
        for (size_t j = 0; j < i; ++j) pairs.push_back({g[i], g[j]});
      }
      continue;
    }
    for (size_t k = 0; k < quota; ++k) {
      const int a = g[rng() % g.size()], b = g[rng() % g.size()];
      if (a != b) pairs.push_back({a, b});
    }
  }
  return pairs;
}

// Mean cross-entropy of soft labels over the pairs.
double loss(const std::vector<Pair>& pairs, const Examples& examples, const std::vector<double>& scores,
            double tau) {
  double sum = 0;
  for (const auto [a, b] : pairs) {
    const double p = sigmoid((examples.target[a] - examples.target[b]) / tau);
    const double d = (scores[a] - scores[b]) / tau;
    sum += p * pair_loss(d) + (1 - p) * pair_loss(-d);
  }
  return sum / static_cast<double>(std::max<size_t>(1, pairs.size()));
}

void add_tree(const Tree& tree, const FeatureRows& rows, std::vector<double>& scores) {
  for (int i = 0; i < rows.count(); ++i) scores[i] += tree.predict(rows.row(i));
}

// exp(value / tau), so that sigma((a - b) / tau) = e_a / (e_a + e_b) costs no exp per pair. Values are taken
// from the lesson's middle, and cut 40 tau from it: nothing there changes the order any more.
void exponentials(const std::vector<std::vector<int>>& groups, const std::vector<double>& values, double tau,
                  std::vector<double>& out) {
  for (const auto& g : groups) {
    double middle = 0;
    for (const int i : g) middle += values[i] / static_cast<double>(g.size());
    for (const int i : g) out[i] = std::exp(std::clamp((values[i] - middle) / tau, -40.0, 40.0));
  }
}

// Gradients and hessians of pairs drawn anew, in units of tau.
class PairGradients {
 public:
  PairGradients(const std::vector<std::vector<int>>& groups, const Examples& examples,
                const BoostedOptions& options)
      : gradient(examples.target.size()),
        hessian(gradient.size()),
        groups_(groups),
        examples_(examples),
        options_(options),
        target_(gradient.size()),
        score_(gradient.size()) {
    exponentials(groups, examples.target, options.tau, target_);
  }

  void draw(const std::vector<double>& scores, std::mt19937_64& rng) {
    exponentials(groups_, scores, options_.tau, score_);
    std::fill(gradient.begin(), gradient.end(), 0);
    std::fill(hessian.begin(), hessian.end(), 0);
    for (const auto& g : groups_) {
      const double weight = examples_.weight[g.front()] / (2 * options_.partners);
      for (const int a : g) {
        for (int k = 0; k < options_.partners; ++k) {
          const int b = g[rng() % g.size()];
          if (a != b) add(a, b, weight);
        }
      }
    }
  }

  std::vector<double> gradient, hessian;  // by row

 private:
  void add(int a, int b, double weight) {
    const double p = target_[a] / (target_[a] + target_[b]);
    const double q = score_[a] / (score_[a] + score_[b]);
    const double h = std::max(q * (1 - q), kLeastHessian) * weight;
    gradient[a] += (q - p) * weight;
    gradient[b] -= (q - p) * weight;
    hessian[a] += h;
    hessian[b] += h;
  }

  const std::vector<std::vector<int>>& groups_;
  const Examples& examples_;
  const BoostedOptions& options_;
  std::vector<double> target_, score_;
};

}  // namespace

void Examples::append(const Lesson& from, int number) {
  const StrategyFeatures features(*from.graph, *from.cluster, from.calibration);
  rows.width = StrategyFeatures::count();
  const auto width = static_cast<size_t>(rows.width);
  for (const dataset::Trial* trial : from.trials) {
    rows.values.resize(rows.values.size() + width);
    features.compute(trial->strategy, std::span(rows.values).last(width));
    start.push_back(rows.row(rows.count() - 1)[StrategyFeatures::event_feature()]);
    target.push_back(std::log(trial->step_s()));
    lesson.push_back(number);
    weight.push_back(from.weight);
  }
}

std::vector<Tree> boost(const Examples& examples, const std::vector<int>& inside,
                        const std::vector<int>& outside, const Examples& held, int rounds,
                        const BoostedOptions& options, std::mt19937_64& rng) {
  const auto groups = by_lesson(examples, inside);
  if (groups.empty()) return {};
  std::vector<int> all_held(static_cast<size_t>(held.count()));
  for (size_t i = 0; i < all_held.size(); ++i) all_held[i] = static_cast<int>(i);
  const bool use_held = held.count() > 1;
  const Examples& judge = use_held ? held : examples;
  const auto pairs = stop_pairs(by_lesson(judge, use_held ? all_held : outside), rng);

  TreeOptions tree_options = options.tree;
  tree_options.min_leaf = std::max(tree_options.min_leaf, static_cast<int>(inside.size()) / kRowsALeaf);
  TreeGrower grower(examples.rows, tree_options);
  std::vector<double> scores = examples.start, held_scores = held.start;
  PairGradients pair_gradients(groups, examples, options);
  const auto judged = [&] { return loss(pairs, judge, use_held ? held_scores : scores, options.tau); };
  std::vector<Tree> trees;
  double best = judged();
  size_t best_size = 0;
  while (static_cast<int>(trees.size()) < rounds) {
    pair_gradients.draw(scores, rng);
    Tree tree = grower.grow(inside, pair_gradients.gradient, pair_gradients.hessian, rng);
    for (auto& node : tree.nodes) node.value *= static_cast<float>(options.rate * options.tau);
    add_tree(tree, examples.rows, scores);
    if (use_held) add_tree(tree, held.rows, held_scores);
    trees.push_back(std::move(tree));
    if (pairs.empty()) continue;  // nothing to judge by: every round
    if (const double now = judged(); now < best) {
      best = now;
      best_size = trees.size();
    } else if (trees.size() >= best_size + static_cast<size_t>(options.patience)) {
      break;
    }
  }
  if (!pairs.empty()) trees.resize(best_size);
  return trees;
}

}  // namespace entrain::simulator
