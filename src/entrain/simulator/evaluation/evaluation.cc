#include "entrain/simulator/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/published_terms.h"

namespace entrain::simulator {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<strategy::Strategy> strategies_of(const Lesson& lesson) {
  std::vector<strategy::Strategy> strategies;
  for (const auto* trial : lesson.trials) strategies.push_back(trial->strategy);
  return strategies;
}

double accuracy_of(const std::vector<double>& scores, const Lesson& lesson, double margin) {
  std::vector<double> seconds;
  for (const auto* trial : lesson.trials) seconds.push_back(trial->step_s());
  return pair_accuracy(scores, seconds, margin);
}

// Even steps against odd ones.
double repeats_accuracy(const Lesson& lesson, double margin) {
  std::vector<double> scores, seconds;
  for (const auto* trial : lesson.trials) {
    std::vector<double> halves[2];
    for (size_t i = 0; i < trial->seconds.size(); ++i) halves[i % 2].push_back(trial->seconds[i]);
    if (halves[1].empty()) continue;
    scores.push_back(mean_std(halves[0]).mean);
    seconds.push_back(mean_std(halves[1]).mean);
  }
  return pair_accuracy(scores, seconds, margin);
}

MeanStd summary_of(const std::vector<double>& values) {
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known),
               [](double v) { return !std::isnan(v); });
  return known.empty() ? MeanStd{std::nan(""), 0} : mean_std(known);
}

struct Lessons {
  Lesson training, validation, test;
};

Lessons split_lessons(const PreparedDomain& domain, uint64_t seed) {
  const Split parts = domain.split(seed);
  return {domain.pick(parts.training), domain.pick(parts.validation), domain.pick(parts.test)};
}

// Trains the rankers of one evaluation.
class RankerTraining {
 public:
  RankerTraining(const std::vector<PreparedDomain>& domains, const EvaluationOptions& options)
      : domains_(domains), options_(options) {}

  // A ranker of this domain's training trials; or, named "RANKER+others", the one of all domains'.
  std::shared_ptr<const Ranker> ranker(const std::string& name, const Lessons& own, uint64_t seed) {
    const size_t plus = name.find(kWithOthers);
    if (plus == std::string::npos) return trained(name, {own.training}, {own.validation}, seed);
    auto& common = common_[{name, seed}];
    if (!common) {
      std::vector<Lesson> training, validation;
      for (const PreparedDomain& domain : domains_) {
        Lessons lessons = split_lessons(domain, seed);
        training.push_back(std::move(lessons.training));
        validation.push_back(std::move(lessons.validation));
      }
      common = trained(name.substr(0, plus), training, validation, seed);
    }
    return common;
  }

 private:
  std::shared_ptr<const Ranker> trained(const std::string& name, const std::vector<Lesson>& training,
                                        const std::vector<Lesson>& validation, uint64_t seed) const {
    LearnOptions learn = options_.learn;
    learn.seed = seed;
    std::shared_ptr<Ranker> ranker = options_.make_ranker(name);
    ranker->learn(training, validation, learn);
    return ranker;
  }

  const std::vector<PreparedDomain>& domains_;
  const EvaluationOptions& options_;
  std::map<std::pair<std::string, uint64_t>, std::shared_ptr<const Ranker>> common_;
};

double accuracy_in_domain(const std::string& name, const Lessons& lessons, uint64_t seed, double margin,
                          RankerTraining& training) {
  if (name == "repeats") return repeats_accuracy(lessons.test, margin);
  const auto asked = strategies_of(lessons.test);
  if (const auto simulator =
          make_simulator(name, *lessons.test.graph, *lessons.test.cluster, lessons.test.calibration)) {
    return accuracy_of(simulator->score(asked), lessons.test, margin);
  }
  return accuracy_of(training.ranker(name, lessons, seed)->score(lessons.test, asked), lessons.test, margin);
}

double event_error(const PreparedDomain& domain) {
  const Lesson lesson = domain.lesson(domain.trials);
  const auto predicted = make_simulator("event", *lesson.graph, *lesson.cluster, lesson.calibration)
                             ->score(strategies_of(lesson));
  std::vector<double> errors;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const double measured = lesson.trials[i]->step_s();
    errors.push_back(std::abs(predicted[i] - measured) / measured);
  }
  return median_of(errors);
}

}  // namespace

std::vector<PreparedDomain> prepared_domains(const dataset::Dataset& data) {
  std::vector<PreparedDomain> result;
  for (const auto& domain : data.domains) {
    const auto runs = calibration_runs(domain.trials);
    PreparedDomain prepared{&domain, calibrate(domain), {}};
    for (const auto& trial : domain.trials) {
      const bool spent = std::find(runs.begin(), runs.end(), &trial) != runs.end();
      if (trial.ok() && trial.origin != "repeat" && !spent) prepared.trials.push_back(&trial);
    }
    result.push_back(std::move(prepared));
  }
  return result;
}

Lesson PreparedDomain::lesson(std::vector<const dataset::Trial*> some) const {
  return {&domain->graph, &domain->cluster, calibration, std::move(some)};
}

// Collections propose alike in every domain: split by the seed alone, the test trials of all domains would be
// of the same kind, and three seeds three draws, not three times as many as there are domains.
Split PreparedDomain::split(uint64_t seed) const {
  uint64_t mixed = seed ^ 0xcbf29ce484222325;  // FNV-1a
  for (const char c : domain->name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return simulator::split(static_cast<int>(trials.size()), mixed);
}

Lesson PreparedDomain::pick(const std::vector<int>& indices) const {
  std::vector<const dataset::Trial*> some;
  for (const int i : indices) some.push_back(trials[static_cast<size_t>(i)]);
  return lesson(std::move(some));
}

std::unique_ptr<Simulator> make_simulator(const std::string& name, const graph::Graph& graph,
                                          const cluster::Cluster& cluster, const Calibration& calibration) {
  using Total = PublishedSimulator::Total;
  if (name == "published-sum") return std::make_unique<PublishedSimulator>(graph, cluster, Total::kSum);
  if (name == "published-max") return std::make_unique<PublishedSimulator>(graph, cluster, Total::kMax);
  if (name == "event") return std::make_unique<EventSimulation>(graph, cluster, calibration);
  return nullptr;
}

MeanStd DomainAccuracy::summary() const { return summary_of(accuracy); }
MeanStd TransferCell::summary() const { return summary_of(accuracy); }

MeanStd Evaluation::overall(const std::string& simulator) const {
  std::map<size_t, std::vector<double>> by_seed;
  for (const DomainAccuracy& cell : cells) {
    if (cell.simulator != simulator) continue;
    for (size_t s = 0; s < cell.accuracy.size(); ++s) by_seed[s].push_back(cell.accuracy[s]);
  }
  std::vector<double> means;
  for (const auto& [seed, values] : by_seed) means.push_back(summary_of(values).mean);
  return summary_of(means);
}

Evaluation evaluate(const std::vector<PreparedDomain>& domains, const std::vector<std::string>& simulators,
                    const EvaluationOptions& options) {
  Evaluation evaluation;
  RankerTraining training(domains, options);
  const int total = static_cast<int>(domains.size() * simulators.size()) * options.seeds;
  int done = 0;
  for (const PreparedDomain& domain : domains) {
    const std::string& domain_name = domain.domain->name;
    for (const auto& name : simulators) {
      DomainAccuracy cell{name, domain_name, {}};
      for (int s = 0; s < options.seeds; ++s) {
        const uint64_t seed = options.seed + static_cast<uint64_t>(s);
        cell.accuracy.push_back(
            accuracy_in_domain(name, split_lessons(domain, seed), seed, options.margin, training));
        options.progress(++done, total, fmt::format("{} {}", name, domain_name));
      }
      evaluation.cells.push_back(std::move(cell));
    }
    evaluation.event_error.emplace_back(domain_name, event_error(domain));
  }
  return evaluation;
}

}  // namespace entrain::simulator
