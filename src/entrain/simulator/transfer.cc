#include <algorithm>
#include <cmath>
#include <random>

#include "entrain/simulator/evaluation.h"

namespace entrain::simulator {
namespace {

bool same_cluster(const dataset::Domain& a, const dataset::Domain& b) {
  return a.cluster.name == b.cluster.name && cluster::to_yaml(a.cluster) == cluster::to_yaml(b.cluster);
}

bool belongs(Source source, const dataset::Domain& candidate, const dataset::Domain& target) {
  if (&candidate == &target) return false;
  const bool model = candidate.graph.model == target.graph.model;
  switch (source) {
    case Source::kNothing:
      return false;
    case Source::kOtherClusters:
      return model && !same_cluster(candidate, target);
    case Source::kOtherModels:
      return !model && same_cluster(candidate, target);
    case Source::kOthers:
      return true;
  }
  return false;
}

// The target's trials in the seed's order: a few to learn from, the rest to be asked about.
struct Target {
  Lesson few, asked;
};

Target cut(const dataset::Domain& domain, int few, uint64_t seed) {
  auto trials = usable_trials(domain);
  std::mt19937_64 rng(seed);
  for (size_t i = trials.size(); i > 1; --i) std::swap(trials[i - 1], trials[rng() % i]);
  const auto middle =
      trials.begin() + std::min<std::ptrdiff_t>(few, static_cast<std::ptrdiff_t>(trials.size()));
  return {make_lesson(domain, {trials.begin(), middle}), make_lesson(domain, {middle, trials.end()})};
}

double accuracy_on(const Lesson& lesson,
                   const std::function<std::vector<double>(std::span<const strategy::Strategy>)>& score,
                   double margin) {
  std::vector<strategy::Strategy> strategies;
  std::vector<double> seconds;
  for (const auto* trial : lesson.trials) {
    strategies.push_back(trial->strategy);
    seconds.push_back(trial->median());
  }
  return pair_accuracy(score(strategies), seconds, margin);
}

// Teaches a ranker the sources (85% to learn, 15% to know when to stop) and the target's few trials.
std::unique_ptr<Ranker> taught(const std::string& name, const std::vector<const dataset::Domain*>& sources,
                               const Lesson* few, uint64_t seed, const EvaluationOptions& options) {
  std::vector<Lesson> training, validation;
  for (const auto* domain : sources) {
    const auto trials = usable_trials(*domain);
    const Split parts = split(static_cast<int>(trials.size()), seed);
    Lesson learn = make_lesson(*domain, {}), stop = learn;
    for (const auto* part : {&parts.training, &parts.test}) {
      for (const int i : *part) learn.trials.push_back(trials[static_cast<size_t>(i)]);
    }
    for (const int i : parts.validation) stop.trials.push_back(trials[static_cast<size_t>(i)]);
    training.push_back(std::move(learn));
    validation.push_back(std::move(stop));
  }
  if (few) training.push_back(*few);
  auto ranker = options.make_ranker(name);
  LearnOptions learn = options.learn;
  learn.seed = seed;
  ranker->learn(training, validation, learn);
  return ranker;
}

double ask(const Ranker& ranker, const Lesson& lesson, double margin) {
  return accuracy_on(
      lesson, [&](auto strategies) { return ranker.score(lesson, strategies); }, margin);
}

}  // namespace

std::string_view name_of(Source source) {
  switch (source) {
    case Source::kNothing:
      return "event (untrained)";
    case Source::kOtherClusters:
      return "other clusters";
    case Source::kOtherModels:
      return "other models";
    case Source::kOthers:
      return "all others";
  }
  return "";
}

std::vector<TransferCell> transfer(const dataset::Dataset& data, const std::string& ranker,
                                   const std::vector<Source>& sources, int target_trials,
                                   const EvaluationOptions& options) {
  std::vector<TransferCell> cells;
  int done = 0;
  const int total = static_cast<int>(data.domains.size() * sources.size()) * options.seeds;
  for (const auto& target : data.domains) {
    for (const Source source : sources) {
      std::vector<const dataset::Domain*> from;
      for (const auto& domain : data.domains) {
        if (belongs(source, domain, target)) from.push_back(&domain);
      }
      TransferCell zero{std::string(name_of(source)), target.name, 0, {}}, few = zero;
      few.target_trials = target_trials;
      for (int s = 0; s < options.seeds; ++s) {
        const uint64_t seed = options.seed + static_cast<uint64_t>(s);
        const Target parts = cut(target, target_trials, seed);
        options.progress(++done, total, zero.source + " -> " + target.name);
        if (source == Source::kNothing) {
          const auto event = make_simulator("event", target.graph, target.cluster, parts.asked.calibration);
          zero.accuracy.push_back(accuracy_on(
              parts.asked, [&](auto strategies) { return event->score(strategies); }, options.margin));
        } else if (!from.empty()) {
          zero.accuracy.push_back(
              ask(*taught(ranker, from, nullptr, seed, options), parts.asked, options.margin));
        }
        if (target_trials > 0 && (source == Source::kNothing || !from.empty())) {
          few.accuracy.push_back(
              ask(*taught(ranker, from, &parts.few, seed, options), parts.asked, options.margin));
        }
      }
      cells.push_back(std::move(zero));
      if (target_trials > 0) cells.push_back(std::move(few));
    }
  }
  return cells;
}

std::vector<TransferCell> transfer_matrix(const dataset::Dataset& data, const std::string& ranker,
                                          int target_trials, const EvaluationOptions& options) {
  std::vector<TransferCell> cells;
  int done = 0;
  const int total = static_cast<int>(data.domains.size()) * options.seeds;
  for (const auto& source : data.domains) {
    const size_t first = cells.size();
    for (const auto& target : data.domains) {
      cells.push_back({source.name, target.name, 0, {}});
      if (target_trials > 0) cells.push_back({source.name, target.name, target_trials, {}});
    }
    for (int s = 0; s < options.seeds; ++s) {
      const uint64_t seed = options.seed + static_cast<uint64_t>(s);
      const auto plain = taught(ranker, {&source}, nullptr, seed, options);
      size_t at = first;
      for (const auto& target : data.domains) {
        // On itself the diagonal would be asked what it learnt: `evaluate` has that number.
        const bool itself = &target == &source;
        const Target parts = cut(target, target_trials, seed);
        cells[at++].accuracy.push_back(itself ? std::nan("") : ask(*plain, parts.asked, options.margin));
        if (target_trials == 0) continue;
        cells[at++].accuracy.push_back(
            itself ? std::nan("")
                   : ask(*taught(ranker, {&source}, &parts.few, seed, options), parts.asked, options.margin));
      }
      options.progress(++done, total, source.name);
    }
  }
  return cells;
}

}  // namespace entrain::simulator
