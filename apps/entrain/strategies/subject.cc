#include "strategies/subject.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/validate.h"
#include "usage.h"

namespace entrain::app {
namespace {

constexpr std::string_view kTrial = "trial:";

int trial_number(const std::string& text) {
  int number = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + kTrial.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) {
    bad_input("strategy is \"{}\", allowed: trial:N with N a trial's number in --data", text);
  }
  return number;
}

// The one that --domain names, else the only one that fits what else is known.
const dataset::Domain& choose_domain(const dataset::Dataset& data, const SubjectOptions& options,
                                     const std::string& model) {
  std::vector<std::string> names;
  std::vector<const dataset::Domain*> fitting;
  for (const auto& domain : data.domains) {
    names.push_back(domain.name);
    const bool fits = options.domain.empty()
                          ? (model.empty() || domain.graph.model == model) &&
                                (options.cluster.empty() || domain.cluster.name == options.cluster)
                          : domain.name == options.domain;
    if (fits) fitting.push_back(&domain);
  }
  if (fitting.size() == 1) return *fitting.front();
  if (!options.domain.empty()) {
    bad_input("--domain is {}, {} has: {}", options.domain, options.data, fmt::join(names, ", "));
  }
  bad_input("{}: {} domains fit; say which with --domain, allowed: {}", options.data, fitting.size(),
            fmt::join(names, ", "));
}

}  // namespace

void add_subject_options(CLI::App& verb, SubjectOptions& options) {
  auto* model = add_model_option(verb, options.profile.model, Models::kZooOrScript);
  verb.add_option("--batch-size", options.profile.batch_size, "Examples per rank in the profiled batch")
      ->check(positive())
      ->check(examples())
      ->needs(model)
      ->capture_default_str();
  verb.add_option("--graph", options.graph, "Or a stored G (entrain graph --profile-out)")->excludes(model);
  auto* data = verb.add_option("--data", options.data,
                               "Or a domain of a data set or trial log. Its trials calibrate the simulation");
  verb.add_option("--domain", options.domain, "Which one, when several fit")->needs(data);
  verb.add_option("--cluster", options.cluster,
                  "local:4, lab:4x1gbit, cluster.yml, hostfile (default: the domain's)");
}

void check_subject(const SubjectOptions& options, const std::vector<std::string>& strategies) {
  for (const std::string& text : strategies) {
    if (!text.starts_with(kTrial)) {
      strategy::Request(text).check();
    } else if (trial_number(text) >= 0 && options.data.empty()) {
      bad_input("strategy is \"{}\": --data must say of which trials", text);
    }
  }
  if (options.profile.model.empty() && options.graph.empty() && options.data.empty()) {
    bad_input("the model is missing; allowed: --model NAME, --graph FILE or --data FILE");
  }
  if (options.cluster.empty() && options.data.empty()) {
    bad_input("--cluster is missing; allowed: local:4, lab:4x1gbit, a cluster.yml, a hostfile");
  }
}

SimulationSubject load_subject(const SubjectOptions& options, int least_ranks) {
  SimulationSubject subject;
  if (!options.cluster.empty()) subject.cluster = cluster::parse(options.cluster);  // before the slow part
  std::string model = options.profile.model;
  if (!options.graph.empty()) {
    subject.graph = graph::load(options.graph);
    model = subject.graph.model;
  }
  subject.calibrated = "defaults";
  if (!options.data.empty()) {
    subject.domain = choose_domain(dataset::load(options.data), options, model);
    const dataset::Domain& domain = *subject.domain;
    const auto runs = simulator::calibration_runs(domain.trials);
    if (!runs.empty()) {
      subject.calibration = simulator::calibrate(domain);
      subject.calibrated = fmt::format("{} measured builders of {}", runs.size(), domain.name);
    }
    if (model.empty()) subject.graph = domain.graph;
    if (options.cluster.empty()) subject.cluster = domain.cluster;
  }
  if (subject.cluster.workers() < least_ranks) {
    bad_input("--cluster {} has {} rank that trains: nothing is synchronized there; allowed: 2 or more",
              subject.cluster.name, subject.cluster.workers());
  }
  if (!options.profile.model.empty()) subject.graph = profile_model(options.profile);
  return subject;
}

NamedStrategy find_strategy(const std::string& text, const SimulationSubject& subject) {
  if (!text.starts_with(kTrial)) {
    return {strategy::load_or_build(text, subject.graph, subject.cluster), std::nullopt};
  }
  const int number = trial_number(text);
  const auto& trials = subject.domain->trials;
  const auto found = std::find_if(trials.begin(), trials.end(),
                                  [&](const dataset::Trial& trial) { return trial.number == number; });
  if (found == trials.end()) {
    bad_input("strategy is \"{}\", {} has {} trials", text, subject.domain->name, trials.size());
  }
  try {
    strategy::validate(found->strategy, subject.graph, subject.cluster);
  } catch (const InputError& error) {
    bad_input("{}: {}", text, error.what());
  }
  return {found->strategy, found->ok() ? std::optional(found->step_s()) : std::nullopt};
}

}  // namespace entrain::app
