// Which strategies to try next, given those tried: Algorithm 1 as ask and tell.
//
//   repeat: propose many; score; drop bad ones; pick a batch, good and diverse; run it; learn from it
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/ranker.h"
#include "entrain/simulator/simulator.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/tuner/batch.h"
#include "entrain/tuner/correction.h"
#include "entrain/tuner/embedding.h"
#include "entrain/tuner/evolve.h"

namespace entrain::tuner {

enum class Mode {
  kOwn,              // evolution in the event simulation, corrected by what the trials taught
  kPublished,        // AutoSync: 2,000 draws of its space, ranked by a ranker that learns after each batch
  kRandom,           // AutoSync(-s): draws of our space, no simulator
  kRandomPublished,  // the same in AutoSync's space
};
Mode mode_from(std::string_view name);  // own, published, random, random-published; throws InputError
std::string_view to_string(Mode mode);

// What judges strategies. Pointers may be null where said; the caller owns all, and they outlive the search.
struct Guide {
  // Own mode: scores above 0, proportional to seconds. Null: only the trials judge.
  const simulator::Simulator* simulator = nullptr;
  // Own mode: makes a better one of the ok trials told so far, before each batch (see recalibrate.h).
  // Requires: the same trials, the same simulator. Empty: `simulator` stays as it is.
  std::function<std::shared_ptr<const simulator::Simulator>(const std::vector<const dataset::Trial*>&)>
      remake;
  // Published mode: required. Own mode: a second opinion on the best candidates, or null.
  simulator::Ranker* ranker = nullptr;
  bool ranker_ready = false;           // it has been trained elsewhere: own mode then uses it as it is
  simulator::Calibration calibration;  // for the ranker's lessons
  simulator::LearnOptions learn;
  std::vector<simulator::Lesson> other_lessons;  // of other domains, learnt along
};

struct SearchOptions {
  Mode mode = Mode::kOwn;
  uint64_t seed = 0;
  BatchOptions batch;
  int proposals = 2000;              // published
  int evaluations = 0;               // own: simulated strategies per batch; 0: about half a second's
  int population = 250;              // own
  double ranker_weight = 0.5;        // own: how far the second opinion counts, in spreads of the first
  int learn_from = 8;                // trials before a ranker is trained on them
  strategy::SamplerOptions sampler;  // its space is the mode's
};

struct Proposal {
  strategy::Strategy strategy;
  std::string origin;  // "random", "mutation", "crossover"
};

// What ask() returns follows from the seed and the trials told so far, and from nothing else: a search that
// is told a log goes on as the one that wrote it. Not thread-safe. `graph` and `cluster` outlive it.
class Search {
 public:
  // Throws Error when the mode needs a judge that is missing.
  Search(const graph::Graph& graph, const cluster::Cluster& cluster, Guide guide, SearchOptions options);

  // The next batch; never a strategy that was told. Fewer than a batch, or none, when the space is that
  // small.
  std::vector<Proposal> ask();
  // Also failed trials: they are not proposed again. A strategy may be told more than once.
  void tell(const dataset::Trial& trial);

  bool tried(const strategy::Strategy& strategy) const;

 private:
  // One strategy and all that was measured of it.
  struct Known {
    strategy::Strategy strategy;  // canonical
    Vector embedding;
    double log_simulated = 0;
    std::vector<double> measured;  // seconds; empty: it failed

    double seconds() const;  // Requires: measured
  };

  std::vector<Proposal> ask_random(strategy::Rng& rng) const;
  std::vector<Proposal> ask_published(strategy::Rng& rng);
  std::vector<Proposal> ask_own(strategy::Rng& rng);

  void remake_simulator();
  std::vector<double> log_simulated(const std::vector<strategy::Strategy>& strategies) const;
  std::vector<strategy::Strategy> best_known(size_t count) const;
  Correction learn_correction() const;
  bool learn_ranker();  // false: there is none, or too little to learn from
  std::vector<double> ranked(const std::vector<strategy::Strategy>& strategies) const;

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  Guide guide_;
  SearchOptions options_;
  strategy::Sampler sampler_;
  Embedder embedder_;
  std::shared_ptr<const simulator::Simulator> remade_;  // instead of the guide's
  std::deque<dataset::Trial> told_;                     // the ranker's lessons point here
  std::vector<Known> known_;                            // in the order told
  std::unordered_map<uint64_t, size_t> index_;
  std::unordered_set<uint64_t> keys_;  // of known_
};

}  // namespace entrain::tuner
