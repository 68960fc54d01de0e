// Learned rankers: trained on trials of some domains, they order strategies of any.
// No torch at this seam: the tuner learns and asks through it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// (G, D) and its trials as a ranker sees them; the data set keeps them alive.
struct Lesson {
  const graph::Graph* graph;
  const cluster::Cluster* cluster;
  Calibration calibration;
  std::vector<const dataset::Trial*> trials;  // those that are ok()
  // How much its pairs count beside those of other lessons (boosted only).
  double weight = 1;
};

struct LearnOptions {
  int epochs = 200;
  double learning_rate = 1e-3;
  uint64_t seed = 0;
  bool augment = true;
  bool progress = false;
};

struct UncertainScore {
  double score = 0;        // lower is better
  double uncertainty = 0;  // in the score's unit; 0 when the ranker knows none
};

class Ranker {
 public:
  virtual ~Ranker() = default;
  virtual std::string name() const = 0;
  // Pairs are made within a lesson only. `validation` (may be empty) decides when to stop.
  virtual void learn(const std::vector<Lesson>& training, const std::vector<Lesson>& validation,
                     const LearnOptions& options) = 0;
  // Lower is better. Requires: learnt or loaded. `lesson.trials` is not looked at.
  virtual std::vector<double> score(const Lesson& lesson,
                                    std::span<const strategy::Strategy> strategies) const = 0;
  // The scores with what an ensemble's members disagree about.
  virtual std::vector<UncertainScore> predict(const Lesson& lesson,
                                              std::span<const strategy::Strategy> strategies) const {
    std::vector<UncertainScore> scores;
    for (const double value : score(lesson, strategies)) scores.push_back({value, 0});
    return scores;
  }
  virtual void save(const std::filesystem::path& path) const = 0;
};

}  // namespace entrain::simulator
