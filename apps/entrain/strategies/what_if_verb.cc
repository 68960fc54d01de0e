// entrain what-if: what other links, more hosts or other batches would be worth.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/progress.h"
#include "strategies/subject.h"
#include "strategies/vary.h"
#include "strategies/what_if_report.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::what_if_verb {
namespace {

constexpr size_t kMostPoints = 400;

struct Command {
  SubjectOptions subject;
  std::vector<std::string> vary;
  int64_t global_batch = 0;  // 0: the first that is varied, else the profiled batch on each rank
  tuner::WhatIfOptions options;
  bool json = false;
};

void check_layers(const graph::Graph& graph) {
  if (graph.layers.empty()) {
    bad_input(
        "{} is not a sequence of layers, so there are no shapes to compare; `simulate` compares strategies",
        graph.model);
  }
  for (const auto& layer : graph.layers) {
    if (!layer.times.empty()) continue;
    bad_input("{}: layer {} has no times; allowed: a graph of `entrain graph --profile-out FILE`",
              graph.model, layer.name);
  }
}

int64_t examples_of(const Command& command, const tuner::Axes& axes, const SimulationSubject& subject) {
  if (command.global_batch > 0) return command.global_batch;
  if (!axes.examples.empty()) return axes.examples.front();
  return std::max<int64_t>(1, subject.graph.batch_size) * subject.cluster.workers();
}

int run(const Command& command) {
  const tuner::Axes axes = axes_of(command.vary);
  const size_t points = tuner::product(axes, 1).size();
  if (points > kMostPoints) bad_input("--vary: {} points, allowed: at most {}", points, kMostPoints);
  check_subject(command.subject, {});
  const SimulationSubject subject = load_subject(command.subject, 1);
  check_layers(subject.graph);
  tuner::WhatIfOptions options = command.options;
  const double cores = options.calibration.cores;
  options.calibration = subject.calibration;
  options.calibration.cores = cores;
  std::unique_ptr<Progress> progress;
  const auto report_progress = [&](int done, int total) {
    if (!progress) progress = std::make_unique<Progress>("points", total);
    progress->update(done);
  };
  WhatIfReport report{subject.graph.model, subject.cluster.name, subject.calibrated,
                      tuner::what_if(subject.graph, subject.cluster, axes,
                                     examples_of(command, axes, subject), options, report_progress)};
  progress.reset();
  fmt::print("{}", command.json ? to_json(report).dump(2) + "\n" : to_text(report));
  return 0;
}

}  // namespace

void add_what_if(CLI::App& app, Action& action) {
  auto* verb =
      app.add_subcommand("what-if", "Say what faster links or more hosts would be worth, without running it");
  auto c = std::make_shared<Command>();
  add_subject_options(*verb, c->subject);
  verb->add_option(
          "--vary", c->vary,
          fmt::format("What to vary: link=RATES (of every host), hosts=NUMBERS (hosts like the first), "
                      "batch=NUMBERS (examples per update, of all ranks together). Numbers: 1,2,4 or 1..16; "
                      "ranges of more than 4 go in powers of 2. May be repeated [{}]",
                      kDefaultVary))
      ->allow_extra_args(false);
  verb->add_option(
          "--global-batch", c->global_batch,
          "Examples per update where they are not varied, of all ranks together, however many hosts [the "
          "profiled batch x ranks of --cluster]")
      ->check(positive());
  verb->add_option("--evaluations", c->options.evaluations, "Shapes that the search simulates, per point")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--cores", c->options.calibration.cores,
                   "Cores that all hosts of a lab share; 0: each host has its own")
      ->check(not_negative())
      ->capture_default_str();
  add_json_option(*verb, c->json);
  verb->footer(
      "For each point: the best shape found, one host alone, the best data parallelism, and the lower "
      "bound.\n"
      "Time: less than a second per point up to 16 hosts, 4 s for 64 and 15 s for 256, and a profile of the "
      "model.\n"
      "Examples:\n"
      "  entrain what-if --model vgg16-32 --cluster lab:4x1gbit\n"
      "  entrain what-if --graph g.json --cluster cluster.yml --vary link=1gbit,10gbit --vary batch=64..512");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::what_if_verb
