// entrain's own ranker: boosted trees that correct the event simulation's order.
//
// A score is in log seconds (up to a constant of the domain). It starts as the event simulation's and trees
// are added by gradient boosting on pairs (i, j) of one domain,
//   loss = cross-entropy of  q = sigma((s_i - s_j) / tau)  against  p = sigma((log t_i - log t_j) / tau)
// so that pairs closer than the noise tau ask for nothing, far ones for the right order only, and without
// data the event simulation stands. Several such boosters on random shares of the trials (bags) give
// the mean and, by their spread, the uncertainty. Each stops when the held-out pairs get no better.
#pragma once

#include "entrain/simulator/boosted/trees.h"
#include "entrain/simulator/ranker.h"

namespace entrain::simulator {

struct BoostedOptions {
  int bags = 8;
  double bag_share = 0.8;  // of the trials, drawn without replacement
  double rate = 0.15;      // of each tree
  int patience = 50;       // trees without gain before a bag stops
  int partners = 12;       // pairs a trial is in, drawn anew for each tree
  double tau = 0.1;        // relative difference of run-times that counts as one
  TreeOptions tree;
};

// LearnOptions: twice epochs is the most trees of a bag; learning_rate and augment are not looked at.
class Boosted final : public Ranker {
 public:
  explicit Boosted(BoostedOptions options = {}) : options_(options) {}
  // Throws InputError when the file is not a boosted ranker or has other features.
  static std::unique_ptr<Boosted> load(const std::filesystem::path& path);

  std::string name() const override { return "boosted"; }
  // `validation` decides when a bag stops; when it is empty, the trials that are not in the bag do.
  void learn(const std::vector<Lesson>& training, const std::vector<Lesson>& validation,
             const LearnOptions& options) override;
  std::vector<double> score(const Lesson& lesson,
                            std::span<const strategy::Strategy> strategies) const override;
  std::vector<UncertainScore> predict(const Lesson& lesson,
                                      std::span<const strategy::Strategy> strategies) const override;
  void save(const std::filesystem::path& path) const override;

 private:
  using Booster = std::vector<Tree>;  // leaf values hold the rate already

  BoostedOptions options_;
  std::vector<Booster> bags_;
};

}  // namespace entrain::simulator
