// A small world for the tuner's tests: a model, a cluster, a formula for the time of a step, and a ranker
// that writes down what it was taught.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/simulator/parts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/tuner/search.h"
#include "entrain/tuner/trial_runner.h"

namespace entrain::tuner::testing {

inline graph::Graph model() {
  graph::Graph g;
  g.model = "hand-made";
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"conv1", {64, 3, 3, 3}}, {"bias1", {64}},      {"conv2", {512, 256, 3, 3}}, {"bias2", {512}},
      {"fc1", {2048, 2048}},    {"fc1.bias", {2048}}, {"fc2", {1000, 2048}},       {"fc2.bias", {1000}}};
  for (const auto& [name, shape] : shapes) {
    graph::Variable v;
    v.name = name;
    v.shape = shape;
    v.ready_order = static_cast<int>(shapes.size() - 1 - g.variables.size());
    g.variables.push_back(v);
  }
  return g;
}

inline dataset::Domain domain(const std::string& cluster = "lab:1x10gbit+3x1gbit") {
  dataset::Domain d;
  d.name = "hand-made@" + cluster;
  d.graph = model();
  d.cluster = cluster::parse(cluster);
  return d;
}

// Seconds: the busiest link, a cost per message, and half the largest message, which nothing overlaps.
class Formula {
 public:
  Formula(const dataset::Domain& d, double message_s, double reduce_factor)
      : cluster_(d.cluster),
        walk_(d.graph, d.cluster),
        message_s_(message_s),
        reduce_factor_(reduce_factor) {}

  double operator()(const strategy::Strategy& s) const {
    std::vector<double> links(cluster_.hosts.size());
    std::map<int, double> groups;
    double messages = 0, largest = 0;
    const double n = static_cast<double>(links.size());
    walk_.each(s, [&](const simulator::PartView& part) {
      if (part.host < 0) {
        groups[part.group] += part.bytes;
        for (double& link : links) link += reduce_factor_ * 2 * (n - 1) / n * part.bytes;
        return;
      }
      messages += 1;
      largest = std::max(largest, part.bytes);
      for (double& link : links) link += part.bytes;
      links[part.host] += (n - 2) * part.bytes;
    });
    for (const auto& [group, bytes] : groups) largest = std::max(largest, bytes);
    messages += static_cast<double>(groups.size());
    double busiest = 0;
    for (size_t h = 0; h < links.size(); ++h) {
      busiest = std::max(busiest, links[h] * 8e-9 / cluster_.hosts[h].bandwidth_gbit);
    }
    return 0.1 + busiest + message_s_ * messages + largest * 4e-9;
  }

 private:
  cluster::Cluster cluster_;
  simulator::PartWalk walk_;
  double message_s_, reduce_factor_;
};

// What is true here, and a simulator that is wrong about it.
inline Formula truth(const dataset::Domain& d) { return {d, 2e-3, 1.0}; }
class WrongSimulator final : public simulator::Simulator {
 public:
  explicit WrongSimulator(const dataset::Domain& d) : formula_(d, 0.2e-3, 0.7) {}
  std::string name() const override { return "wrong"; }
  std::vector<double> score(std::span<const strategy::Strategy> strategies) const override {
    std::vector<double> scores;
    for (const strategy::Strategy& s : strategies) scores.push_back(formula_(s));
    return scores;
  }

 private:
  Formula formula_;
};

// The truth with noise. Fails, throws or breaks where told, by count of runs from 0.
class FakeRunner final : public TrialRunner {
 public:
  explicit FakeRunner(const dataset::Domain& d, double noise = 0.02) : formula_(truth(d)), noise_(noise) {}

  Measured run(const strategy::Strategy& strategy, double) override {
    const int now = runs++;
    if (broken.count(now)) throw PeerError(2, "rank 2 is dead");
    if (throwing.count(now)) throw Error("out of memory");
    if (late.count(now)) return {{}, dataset::Status::kDeadline, "took too long"};
    // Noise by strategy and run, so that a resumed tune sees what the first would have.
    strategy::Rng rng(fingerprint(strategy) + static_cast<uint64_t>(seen_[fingerprint(strategy)]++));
    Measured measured;
    for (int i = 0; i < 3; ++i) {
      const double z = strategy::sampling::unit(rng) + strategy::sampling::unit(rng) - 1;
      measured.seconds.push_back(formula_(strategy) * (1 + noise_ * z));
    }
    return measured;
  }

  std::set<int> broken, throwing, late;
  int runs = 0;

 private:
  Formula formula_;
  double noise_;
  std::map<uint64_t, int> seen_;
};

// Knows the truth once it was taught something.
class FakeRanker final : public simulator::Ranker {
 public:
  explicit FakeRanker(const dataset::Domain& d) : formula_(truth(d)) {}
  std::string name() const override { return "fake"; }
  void learn(const std::vector<simulator::Lesson>& training, const std::vector<simulator::Lesson>&,
             const simulator::LearnOptions&) override {
    lessons.push_back(static_cast<int>(training.back().trials.size()));
  }
  std::vector<double> score(const simulator::Lesson&,
                            std::span<const strategy::Strategy> strategies) const override {
    scored.push_back(static_cast<int>(strategies.size()));
    std::vector<double> scores;
    for (const strategy::Strategy& s : strategies) scores.push_back(formula_(s));
    return scores;
  }
  void save(const std::filesystem::path&) const override {}

  std::vector<int> lessons;         // trials in the last lesson of each learn()
  mutable std::vector<int> scored;  // strategies of each score()

 private:
  Formula formula_;
};

}  // namespace entrain::tuner::testing
