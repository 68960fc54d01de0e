// entrain simulate: strategies side by side in the event simulation, and their timelines as a trace.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/units.h"
#include "entrain/plan/link_bound.h"
#include "entrain/planner/costs.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/simulation_trace.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/shape_file.h"
#include "strategies/subject.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::simulate_verb {
namespace {

using nlohmann::json;

struct Command {
  std::vector<std::string> strategies;
  SubjectOptions subject;
  std::string trace;
  std::string shape;         // text or file; empty: that of each strategy, if it has one
  int64_t global_batch = 0;  // with a shape: examples per update; 0: the profiled batch on each rank
  bool json = false;
};

struct Row {
  std::string name;
  simulator::SimulatedIteration iteration;
  double link_bound_s;
  std::optional<double> measured_s;
};

std::string busiest(const simulator::Estimate& e, const cluster::Cluster& cluster) {
  static constexpr const char* kKinds[] = {"link, sending", "link, receiving", "engine"};
  if (e.busiest_s <= 0) return "none";
  return fmt::format("{} {}", cluster.hosts[e.busiest_host].address,
                     kKinds[static_cast<int>(e.busiest_kind)]);
}

// Of the whole update: what the passes compute, send and sum.
Row in_shape(const std::string& name, const NamedStrategy& found, int64_t examples,
             const SimulationSubject& subject, const simulator::EventSimulation& simulation) {
  planner::require_profile(subject.graph);
  const int layers = static_cast<int>(subject.graph.layers.size());
  strategy::validate(*found.strategy.shape, layers, subject.cluster, examples);
  auto iteration = simulation.simulate(found.strategy);
  const double link_bound_s = iteration.estimate.link_bound;
  return {name, std::move(iteration), link_bound_s, found.measured_s};
}

int64_t examples_of(const Command& command, const SimulationSubject& subject) {
  return command.global_batch > 0 ? command.global_batch
                                  : subject.graph.batch_size * subject.cluster.workers();
}

std::vector<Row> simulate(const Command& command, const SimulationSubject& subject) {
  const int64_t examples = examples_of(command, subject);
  const simulator::EventSimulation simulation(subject.graph, subject.cluster, subject.calibration, examples);
  std::vector<Row> rows;
  for (const std::string& text : command.strategies) {
    NamedStrategy found = find_strategy(text, subject);
    strategy::check_parts(found.strategy, text, strategy::Parts::kVariablesAndShape);
    if (!command.shape.empty()) {
      found.strategy.shape =
          strategy::shape_from(command.shape, static_cast<int>(subject.graph.layers.size()));
      found.measured_s.reset();  // in another shape
    }
    if (found.strategy.shape) {
      rows.push_back(in_shape(text, found, examples, subject, simulation));
      continue;
    }
    const auto plan = plan::make_plan(found.strategy, subject.graph, subject.cluster);
    rows.push_back({text, simulation.simulate(found.strategy),
                    plan::link_bound(plan, subject.graph, subject.cluster).seconds, found.measured_s});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.iteration.estimate.seconds < b.iteration.estimate.seconds;
  });
  return rows;
}

json to_json(const std::vector<Row>& rows, const SimulationSubject& subject, const Command& command,
             double best_bound) {
  json list = json::array();
  for (const Row& row : rows) {
    const auto& e = row.iteration.estimate;
    list.push_back({{"strategy", row.name},
                    {"seconds", e.seconds},
                    {"compute_s", e.compute},
                    {"exposed_s", e.exposed},
                    {"link_bound_s", row.link_bound_s},
                    {"busiest", busiest(e, subject.cluster)},
                    {"busiest_s", e.busiest_s},
                    {"messages", e.messages},
                    {"measured_s", row.measured_s ? json(*row.measured_s) : json()}});
  }
  return {{"model", subject.graph.model},
          {"cluster", subject.cluster.name},
          {"calibration", subject.calibrated},
          {"global_batch", examples_of(command, subject)},
          {"shape", command.shape.empty() ? json() : json(command.shape)},
          {"link_bound_best_s", best_bound},
          {"strategies", list}};
}

// Ranks of one host have no link to wait for.
std::string bound_text(double seconds) { return seconds > 0 ? format_seconds(seconds) : "none"; }

void print_table(const std::vector<Row>& rows, const SimulationSubject& subject, const Command& command,
                 double best_bound) {
  const std::string batch = command.shape.empty() ? fmt::format("batch {} per rank", subject.graph.batch_size)
                                                  : fmt::format("{} examples per update in shape {}",
                                                                examples_of(command, subject), command.shape);
  fmt::print(
      "{} on {}, {}: simulated, best first; compute {}, best link bound uncompressed{} {}; "
      "calibration: {}\n",
      subject.graph.model, subject.cluster.name, batch,
      format_seconds(rows.front().iteration.estimate.compute),
      command.shape.empty() ? "" : ", without a shape,", bound_text(best_bound), subject.calibrated);
  size_t width = 8;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  fmt::print("{:<{}} {:>10} {:>10} {:>10} {:>8}  {}\n", "strategy", width, "step", "exposed", "link bound",
             "messages", "busiest");
  for (const Row& row : rows) {
    const auto& e = row.iteration.estimate;
    fmt::print("{:<{}} {:>10} {:>10} {:>10} {:>8}  {} ({}){}\n", row.name, width, format_seconds(e.seconds),
               format_seconds(e.exposed), bound_text(row.link_bound_s), e.messages,
               busiest(e, subject.cluster), format_seconds(e.busiest_s),
               row.measured_s ? fmt::format(", measured {}", format_seconds(*row.measured_s)) : "");
  }
}

int run(Command& command) {
  if (command.strategies.empty()) command.strategies = strategy::names();
  check_subject(command.subject, command.strategies);
  if (command.global_batch > 0 && command.shape.empty()) {
    bad_input("--global-batch {}: allowed with --shape", command.global_batch);
  }
  const SimulationSubject subject = load_subject(command.subject);
  const std::vector<Row> rows = simulate(command, subject);
  if (!command.trace.empty()) {
    simulator::SimulationTrace trace;
    for (const Row& row : rows) trace.add(row.name, row.iteration);
    write_file_atomically(command.trace, trace.document());
    fmt::print(stderr, "written to {}; open it in Perfetto (ui.perfetto.dev) or chrome://tracing\n",
               command.trace);
  }
  const double best_bound = plan::best_link_bound(subject.graph, subject.cluster);
  if (command.json) {
    fmt::print("{}\n", to_json(rows, subject, command, best_bound).dump(2));
  } else {
    print_table(rows, subject, command, best_bound);
  }
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("simulate", "Simulate a step under several strategies, without running it");
  auto c = std::make_shared<Command>();
  verb->add_option("strategy", c->strategies,
                   "Builders, strategy files, or trial:N of --data (default: all builders)");
  add_subject_options(*verb, c->subject);
  verb->add_option(
      "--shape", c->shape,
      "Simulate an update in this shape: which ranks hold which layers (forms: entrain help train)");
  verb->add_option(
          "--global-batch", c->global_batch,
          "With a shape: examples per update, of all ranks together [profiled batch x ranks that train]")
      ->check(positive());
  verb->add_option("--trace", c->trace, "Write the timelines there, for Perfetto or chrome://tracing");
  add_json_option(*verb, c->json);
  verb->footer(
      "Examples:\n"
      "  entrain simulate --model vgg16-32 --cluster lab:1x10gbit+3x1gbit\n"
      "  entrain simulate allreduce ps --model vgg16-32 --cluster lab:4x1gbit --shape '0-12@0-3 13-15@0 "
      "m=8'\n"
      "  entrain simulate ps best.json --graph g.json --cluster cluster.yml --trace trace.json");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::simulate_verb
