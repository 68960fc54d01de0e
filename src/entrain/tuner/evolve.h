// Evolution in the simulator: fresh draws and the best measured strategies are mutated and crossed, the best
// children live on.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "entrain/strategy/sampler/sampler.h"
#include "entrain/tuner/embedding.h"

namespace entrain::tuner {

struct Candidate {
  strategy::Strategy strategy;
  std::string origin;  // "random", "mutation", "crossover"
  uint64_t key = 0;    // fingerprint
  Vector embedding;
  int niche = 0;
  double log_simulated = 0;
  double score = 0;  // lower is better
};

// Fills embedding, niche, log_simulated and score.
using Judge = std::function<void(std::vector<Candidate>&)>;

struct EvolveOptions {
  int population = 250;
  int evaluations = 10000;  // strategies judged in all
  double fresh = 0.15;      // share of each generation that is drawn anew
  double crossover = 0.25;  // of the rest, the share with two parents
};

// One kind of strategy (niche) holds at most an eighth of the population: the simulator may be wrong about
// it. `parents` (measured ones) may have children but are not returned. Nothing of `known` is. The result is
// the last population, best first.
std::vector<Candidate> evolve(const strategy::Sampler& sampler,
                              const std::vector<strategy::Strategy>& parents,
                              const std::unordered_set<uint64_t>& known, const Judge& judge,
                              const EvolveOptions& options, strategy::Rng& rng);

}  // namespace entrain::tuner
