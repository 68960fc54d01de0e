#include "entrain/simulator/boosted/boosted.h"

#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/progress.h"
#include "entrain/simulator/boosted/boosting.h"
#include "entrain/simulator/boosted/features.h"
#include "entrain/simulator/ranking.h"
#include "entrain/simulator/schema.h"

namespace entrain::simulator {
namespace {

// Columns of a tree's nodes: a node is one place in each.
nlohmann::json to_json(const Tree& tree) {
  std::vector<int> feature, left, right;
  std::vector<float> number;  // threshold, or a leaf's value
  for (const Tree::Node& node : tree.nodes) {
    feature.push_back(node.feature);
    number.push_back(node.feature >= 0 ? node.threshold : node.value);
    left.push_back(node.left);
    right.push_back(node.right);
  }
  return {{"feature", feature}, {"number", number}, {"left", left}, {"right", right}};
}

Tree tree_from(const nlohmann::json& json) {
  const auto feature = json.at("feature").get<std::vector<int>>();
  const auto number = json.at("number").get<std::vector<float>>();
  const auto left = json.at("left").get<std::vector<int>>();
  const auto right = json.at("right").get<std::vector<int>>();
  const auto nodes = static_cast<int>(feature.size());
  if (nodes == 0 || number.size() != feature.size() || left.size() != feature.size() ||
      right.size() != feature.size()) {
    bad_input("a tree of {} nodes has columns of other lengths", nodes);
  }
  Tree tree;
  for (int i = 0; i < nodes; ++i) {
    const bool leaf = feature[i] < 0;
    // Children come after their parent, so that no file can make a walk that does not end.
    if (!leaf && (feature[i] >= StrategyFeatures::count() || left[i] <= i || left[i] >= nodes ||
                  right[i] <= i || right[i] >= nodes)) {
      bad_input("a tree's node {} points outside it", i);
    }
    tree.nodes.push_back(
        {leaf ? -1 : feature[i], leaf ? 0 : number[i], left[i], right[i], leaf ? number[i] : 0});
  }
  return tree;
}

Examples examples_of(const std::vector<Lesson>& lessons) {
  Examples examples;
  for (size_t i = 0; i < lessons.size(); ++i) examples.append(lessons[i], static_cast<int>(i));
  return examples;
}

}  // namespace

void Boosted::learn(const std::vector<Lesson>& training, const std::vector<Lesson>& validation,
                    const LearnOptions& options) {
  const Examples examples = examples_of(training), held = examples_of(validation);
  Progress progress("boosting", options_.bags, options.progress);
  bags_.clear();
  for (int bag = 0; bag < options_.bags; ++bag) {
    std::mt19937_64 rng(options.seed * 1000003 + static_cast<uint64_t>(bag));
    std::vector<int> inside, outside;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int i = 0; i < examples.count(); ++i) {
      (uniform(rng) < options_.bag_share ? inside : outside).push_back(i);
    }
    bags_.push_back(boost(examples, inside, outside, held, 2 * options.epochs, options_, rng));
    progress.update(bag + 1);
  }
}

std::vector<UncertainScore> Boosted::predict(const Lesson& lesson,
                                             std::span<const strategy::Strategy> strategies) const {
  const StrategyFeatures features(*lesson.graph, *lesson.cluster, lesson.calibration);
  std::vector<float> row(static_cast<size_t>(StrategyFeatures::count()));
  std::vector<double> members(bags_.size());
  std::vector<UncertainScore> scores;
  scores.reserve(strategies.size());
  for (const auto& strategy : strategies) {
    features.compute(strategy, row);
    const double start = row[StrategyFeatures::event_feature()];
    for (size_t b = 0; b < bags_.size(); ++b) {
      members[b] = 0;
      for (const Tree& tree : bags_[b]) members[b] += tree.predict(row.data());
    }
    const MeanStd m = mean_std(members);
    scores.push_back({start + m.mean, m.std});
  }
  return scores;
}

std::vector<double> Boosted::score(const Lesson& lesson,
                                   std::span<const strategy::Strategy> strategies) const {
  std::vector<double> scores;
  for (const UncertainScore& p : predict(lesson, strategies)) scores.push_back(p.score);
  return scores;
}

void Boosted::save(const std::filesystem::path& path) const {
  nlohmann::json bags = nlohmann::json::array();
  for (const Booster& booster : bags_) {
    nlohmann::json trees = nlohmann::json::array();
    for (const Tree& tree : booster) trees.push_back(to_json(tree));
    bags.push_back(std::move(trees));
  }
  const auto header = make_header(name(), StrategyFeatures::schema());
  write_file_atomically(path, header.dump() + "\n" + nlohmann::json{{"bags", bags}}.dump() + "\n");
}

std::unique_ptr<Boosted> Boosted::load(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const auto header = read_header(content, path);
  if (header["ranker"] != "boosted") {
    bad_input("{}: ranker is {}, expected boosted", path.string(), header["ranker"].get<std::string>());
  }
  require_schema(header, StrategyFeatures::schema(), path);
  auto ranker = std::make_unique<Boosted>();
  try {
    const auto body = nlohmann::json::parse(content.substr(content.find('\n') + 1));
    for (const auto& trees : body.at("bags")) {
      Booster booster;
      for (const auto& tree : trees) booster.push_back(tree_from(tree));
      ranker->bags_.push_back(std::move(booster));
    }
  } catch (const std::exception& e) {
    bad_input("{}: damaged ranker: {}", path.string(), e.what());
  }
  return ranker;
}

}  // namespace entrain::simulator
