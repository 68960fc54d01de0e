#include "entrain/simulator/boosting.h"

#include <algorithm>
#include <cmath>

#include "entrain/simulator/features.h"
#include "entrain/simulator/ranking.h"

namespace entrain::simulator {
namespace {

constexpr size_t kStopPairs = 4000;
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

void add_tree(const Tree& tree, const Rows& rows, std::vector<double>& scores) {
  for (int i = 0; i < rows.count(); ++i) scores[i] += tree.predict(rows.row(i));
}

// Gradients and hessians (in units of tau) of pairs drawn anew.
void draw_gradients(const std::vector<std::vector<int>>& groups, const Examples& examples,
                    const std::vector<double>& scores, const BoostedOptions& options, std::mt19937_64& rng,
                    std::vector<double>& gradient, std::vector<double>& hessian) {
  std::fill(gradient.begin(), gradient.end(), 0);
  std::fill(hessian.begin(), hessian.end(), 0);
  const double weight = 1.0 / (2 * options.partners);
  for (const auto& g : groups) {
    for (const int a : g) {
      for (int k = 0; k < options.partners; ++k) {
        const int b = g[rng() % g.size()];
        if (a == b) continue;
        const double p = sigmoid((examples.target[a] - examples.target[b]) / options.tau);
        const double q = sigmoid((scores[a] - scores[b]) / options.tau);
        const double h = std::max(q * (1 - q), kLeastHessian) * weight;
        gradient[a] += (q - p) * weight;
        gradient[b] -= (q - p) * weight;
        hessian[a] += h;
        hessian[b] += h;
      }
    }
  }
}

}  // namespace

void Examples::append(const Lesson& from, int number) {
  const StrategyFeatures features(*from.graph, *from.cluster, from.calibration);
  rows.width = StrategyFeatures::count();
  const auto width = static_cast<size_t>(rows.width);
  for (const dataset::Trial* trial : from.trials) {
    rows.values.resize(rows.values.size() + width);
    features.compute(trial->strategy, std::span(rows.values).last(width));
    start.push_back(rows.row(rows.count() - 1)[StrategyFeatures::event_feature()]);
    target.push_back(std::log(trial->median()));
    lesson.push_back(number);
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

  TreeGrower grower(examples.rows, options.tree);
  std::vector<double> scores = examples.start, held_scores = held.start;
  std::vector<double> gradient(scores.size()), hessian(scores.size());
  const auto judged = [&] { return loss(pairs, judge, use_held ? held_scores : scores, options.tau); };
  std::vector<Tree> trees;
  double best = judged();
  size_t best_size = 0;
  while (static_cast<int>(trees.size()) < rounds) {
    draw_gradients(groups, examples, scores, options, rng, gradient, hessian);
    Tree tree = grower.grow(inside, gradient, hessian, rng);
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
