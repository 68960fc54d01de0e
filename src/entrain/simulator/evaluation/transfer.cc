#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "entrain/simulator/evaluation/evaluation.h"

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

Target cut(const PreparedDomain& domain, int few, uint64_t seed) {
  auto trials = domain.trials;
  std::mt19937_64 rng(seed);
  for (size_t i = trials.size(); i > 1; --i) std::swap(trials[i - 1], trials[rng() % i]);
  const auto middle =
      trials.begin() + std::min<std::ptrdiff_t>(few, static_cast<std::ptrdiff_t>(trials.size()));
  return {domain.lesson({trials.begin(), middle}), domain.lesson({middle, trials.end()})};
}

double accuracy_on(const Lesson& lesson,
                   const std::function<std::vector<double>(std::span<const strategy::Strategy>)>& score,
                   double margin) {
  std::vector<strategy::Strategy> strategies;
  std::vector<double> seconds;
  for (const auto* trial : lesson.trials) {
    strategies.push_back(trial->strategy);
    seconds.push_back(trial->step_s());
  }
  return pair_accuracy(score(strategies), seconds, margin);
}

// Teaches a ranker the sources (85% to learn, 15% to know when to stop) and the target's few trials.
std::unique_ptr<Ranker> trained(const std::string& name, const std::vector<const PreparedDomain*>& sources,
                                const Lesson* few, uint64_t seed, const EvaluationOptions& options) {
  std::vector<Lesson> training, validation;
  for (const PreparedDomain* domain : sources) {
    Split parts = domain->split(seed);
    parts.training.insert(parts.training.end(), parts.test.begin(), parts.test.end());
    training.push_back(domain->pick(parts.training));
    validation.push_back(domain->pick(parts.validation));
  }
  if (few) {
    training.push_back(*few);
    training.back().weight = kOwnWeight;
  }
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

std::vector<TransferCell> transfer(const std::vector<PreparedDomain>& domains, const std::string& ranker,
                                   const std::vector<Source>& sources, int target_trials,
                                   const EvaluationOptions& options) {
  std::vector<TransferCell> cells;
  int done = 0;
  const int total = static_cast<int>(domains.size() * sources.size()) * options.seeds;
  for (const PreparedDomain& target : domains) {
    for (const Source source : sources) {
      std::vector<const PreparedDomain*> from;
      for (const PreparedDomain& domain : domains) {
        if (belongs(source, *domain.domain, *target.domain)) from.push_back(&domain);
      }
      const std::string from_name(name_of(source));
      TransferCell zero{from_name, target.domain->name, 0, {}};
      TransferCell few{from_name, target.domain->name, target_trials, {}};
      for (int s = 0; s < options.seeds; ++s) {
        const uint64_t seed = options.seed + static_cast<uint64_t>(s);
        const Target parts = cut(target, target_trials, seed);
        options.progress(++done, total, fmt::format("{} -> {}", from_name, target.domain->name));
        if (source == Source::kNothing) {
          const auto event =
              make_simulator("event", target.domain->graph, target.domain->cluster, parts.asked.calibration);
          zero.accuracy.push_back(accuracy_on(
              parts.asked, [&](auto strategies) { return event->score(strategies); }, options.margin));
        } else if (!from.empty()) {
          zero.accuracy.push_back(
              ask(*trained(ranker, from, nullptr, seed, options), parts.asked, options.margin));
        }
        if (target_trials > 0 && (source == Source::kNothing || !from.empty())) {
          few.accuracy.push_back(
              ask(*trained(ranker, from, &parts.few, seed, options), parts.asked, options.margin));
        }
      }
      cells.push_back(std::move(zero));
      if (target_trials > 0) cells.push_back(std::move(few));
    }
  }
  return cells;
}

std::vector<TransferCell> transfer_matrix(const std::vector<PreparedDomain>& domains,
                                          const std::string& ranker, int target_trials,
                                          const EvaluationOptions& options) {
  std::vector<TransferCell> cells;
  int done = 0;
  const int total = static_cast<int>(domains.size()) * options.seeds;
  for (const PreparedDomain& source : domains) {
    const size_t first = cells.size();
    for (const PreparedDomain& target : domains) {
      cells.push_back({source.domain->name, target.domain->name, 0, {}});
      if (target_trials > 0) cells.push_back({source.domain->name, target.domain->name, target_trials, {}});
    }
    for (int s = 0; s < options.seeds; ++s) {
      const uint64_t seed = options.seed + static_cast<uint64_t>(s);
      const auto plain = trained(ranker, {&source}, nullptr, seed, options);
      size_t at = first;
      for (const PreparedDomain& target : domains) {
        // On itself the diagonal would be asked what it learnt: `evaluate` has that number.
        const bool itself = &target == &source;
        const Target parts = cut(target, target_trials, seed);
        cells[at++].accuracy.push_back(itself ? std::nan("") : ask(*plain, parts.asked, options.margin));
        if (target_trials == 0) continue;
        cells[at++].accuracy.push_back(itself ? std::nan("")
                                              : ask(*trained(ranker, {&source}, &parts.few, seed, options),
                                                    parts.asked, options.margin));
      }
      options.progress(++done, total, source.domain->name);
    }
  }
  return cells;
}

}  // namespace entrain::simulator
