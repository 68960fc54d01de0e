// How well simulators rank measured trials: within a domain, and across domains.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/ranker.h"
#include "entrain/simulator/ranking.h"

namespace entrain::simulator {

// Those that learn nothing: "published-sum", "published-max", "event". Null when it is another name.
std::unique_ptr<Simulator> make_simulator(const std::string& name, const graph::Graph& graph,
                                          const cluster::Cluster& cluster, const Calibration& calibration);

// make_ranker() of learned/registry.h, handed in so that there is no torch here.
using MakeRanker = std::function<std::unique_ptr<Ranker>(const std::string& name)>;

// A domain made ready: calibrated by a few runs (calibrate.h), which are then not among its trials; nor are
// failed and repeated ones. Points into the data set.
struct PreparedDomain {
  const dataset::Domain* domain;
  Calibration calibration;
  std::vector<const dataset::Trial*> trials;

  Lesson lesson(std::vector<const dataset::Trial*> some) const;
  Lesson pick(const std::vector<int>& indices) const;  // of `trials`
  Split split(uint64_t seed) const;                    // of `trials`, 70/15/15, another one in each domain
};
std::vector<PreparedDomain> prepared_domains(const dataset::Dataset& data);

struct EvaluationOptions {
  int seeds = 3;
  uint64_t seed = 0;  // the first
  double margin = 0;  // of pair_accuracy
  LearnOptions learn;
  MakeRanker make_ranker;
  std::function<void(int done, int total, const std::string& what)> progress = [](int, int, const auto&) {};
};

// Accuracy of one simulator in one domain, by seed; nan where the domain has too few trials.
struct DomainAccuracy {
  std::string simulator;
  std::string domain;
  std::vector<double> accuracy;
  MeanStd summary() const;
};

struct Evaluation {
  std::vector<DomainAccuracy> cells;
  // |predicted - measured| / measured of the event simulation's seconds: median over a domain's trials.
  std::vector<std::pair<std::string, double>> event_error;

  // Over the seeds, of the mean over domains.
  MeanStd overall(const std::string& simulator) const;
};

// "boosted+others" learns from the training trials of all domains: one ranker for all of them.
inline constexpr std::string_view kWithOthers = "+others";
// Of a lesson about the domain that will be asked about, beside lessons of others.
inline constexpr double kOwnWeight = 3;

// Trials of each domain are split 70/15/15 by the seed; rankers learn from the domain's own training trials
// and all are asked about its test trials. "repeats" among the names stands for the measurement itself: how
// well one half of a trial's steps orders the other half, the most that a simulator can be expected to do.
// Throws InputError for an unknown name.
Evaluation evaluate(const std::vector<PreparedDomain>& domains, const std::vector<std::string>& simulators,
                    const EvaluationOptions& options);

// What a ranker was trained on, as seen from the target domain.
enum class Source {
  kNothing,        // the event simulation, untrained
  kOtherClusters,  // the same model elsewhere
  kOtherModels,    // other models on the same cluster
  kOthers,         // every domain but the target
};
std::string_view name_of(Source source);

struct TransferCell {
  std::string source;  // name_of(), or a domain's name in the matrix
  std::string target;
  int target_trials = 0;
  std::vector<double> accuracy;  // by seed
  MeanStd summary() const;
};

// For each target domain and source: zero-shot, and with `target_trials` trials of the target when they are
// more than 0. Both are asked about the same trials: all but those few.
std::vector<TransferCell> transfer(const std::vector<PreparedDomain>& domains, const std::string& ranker,
                                   const std::vector<Source>& sources, int target_trials,
                                   const EvaluationOptions& options);

// Trained on each domain, tested on each other one.
std::vector<TransferCell> transfer_matrix(const std::vector<PreparedDomain>& domains,
                                          const std::string& ranker, int target_trials,
                                          const EvaluationOptions& options);

}  // namespace entrain::simulator
