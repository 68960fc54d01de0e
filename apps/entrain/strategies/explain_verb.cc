// entrain explain: why a strategy takes the time it takes; what a shape means.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/shape_file.h"
#include "entrain/tuner/explain.h"
#include "model_outline.h"
#include "strategies/shape_report.h"
#include "strategies/subject.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::explain_verb {
namespace {

using nlohmann::json;
using tuner::Explanation;

constexpr size_t kHostsShown = 8;

struct Command {
  std::string strategy;
  SubjectOptions subject;
  std::string against;
  std::string shape;
  int64_t global_batch = 0;  // 0: by the batch size per rank
  bool json = false;
};

std::string direction(bool sending) { return sending ? "sending" : "receiving"; }

json to_json(const tuner::Amount& amount) {
  return {{"variables", amount.variables},
          {"parts", amount.parts},
          {"bytes", amount.bytes},
          {"share", amount.share}};
}

json to_json(const simulator::Estimate& e) {
  return {{"seconds", e.seconds},         {"compute_s", e.compute},           {"exposed_s", e.exposed},
          {"link_bound_s", e.link_bound}, {"last_arrival_s", e.last_arrival}, {"messages", e.messages},
          {"transfers", e.transfers}};
}

json to_json(const std::vector<simulator::Interval>& intervals) {
  json list = json::array();
  for (const auto& s : intervals) {
    list.push_back({{"track", s.track}, {"name", s.name}, {"begin_s", s.begin}, {"end_s", s.end}});
  }
  return list;
}

json to_json(const tuner::Worth& worth) {
  json j = {{"what", tuner::name_of(worth.difference.aspect)},
            {"variables", worth.difference.variables},
            {"parts", worth.difference.parts},
            {"bytes", worth.difference.bytes},
            {"undone_s", worth.undone_s ? json(*worth.undone_s) : json()},
            {"worth_s", worth.worth_s ? json(*worth.worth_s) : json()}};
  if (!worth.why_not.empty()) j["why_not"] = worth.why_not;
  return j;
}

json to_json(const Explanation& e, const SimulationSubject& subject, std::optional<double> measured_s) {
  const auto address = [&](int host) { return subject.cluster.hosts[host].address; };
  json links = json::array(), hosts = json::array(), differences = json::array();
  for (const auto& use : e.links) {
    links.push_back({{"host", address(use.host)},
                     {"direction", direction(use.sending)},
                     {"bytes", use.bytes},
                     {"seconds", use.seconds},
                     {"share_of_step", use.share},
                     {"binds", use.binds}});
  }
  for (const auto& served : e.served) {
    hosts.push_back({{"host", address(served.host)},
                     {"parts", served.parts},
                     {"bytes", served.bytes},
                     {"share", served.share}});
  }
  for (const auto& worth : e.worths) differences.push_back(to_json(worth));
  const auto& p = e.patterns;
  json j = {{"strategy", e.id},
            {"model", subject.graph.model},
            {"cluster", subject.cluster.name},
            {"calibration", subject.calibrated},
            {"measured_s", measured_s ? json(*measured_s) : json()},
            {"simulated", to_json(e.iteration.estimate)},
            {"shares",
             {{"ps", to_json(e.parameter_server)},
              {"all_reduce", to_json(e.all_reduce)},
              {"all_gather", to_json(e.all_gather)}}},
            {"patterns",
             {{"whole", p.whole},
              {"cut", p.cut},
              {"fewest_shards", p.fewest_shards},
              {"most_shards", p.most_shards},
              {"partition_then_all_reduce", to_json(p.partition_then_all_reduce)},
              {"merge_then_all_reduce", to_json(p.merge_then_all_reduce)},
              {"all_reduce_alone", to_json(p.all_reduce_alone)},
              {"merge_groups", p.merge_groups}}},
            {"placement", hosts},
            {"links", links},
            {"link_bound",
             {{"seconds", e.bound.seconds},
              {"host", address(e.bound.host)},
              {"direction", direction(e.bound.sending)},
              {"best_possible_s", e.best_bound_s}}},
            {"critical_path", to_json(e.iteration.critical_path)},
            {"timeline", to_json(e.iteration.intervals)},
            {"same_as", e.same_as.empty() ? json() : json(e.same_as)},
            {"baseline", json()}};
  if (!e.baseline.empty()) {
    j["baseline"] = {{"name", e.baseline},
                     {"distance", e.distance},
                     {"simulated", to_json(e.baseline_estimate)},
                     {"differences", differences}};
  }
  return j;
}

void print_summary(const Explanation& e, const SimulationSubject& subject, std::optional<double> measured_s) {
  const auto& t = e.iteration.estimate;
  fmt::print("{} on {}, strategy {}{}; calibration: {}\n", subject.graph.model, subject.cluster.name, e.id,
             e.same_as.empty() || e.same_as == e.id ? "" : " (the same as " + e.same_as + ")",
             subject.calibrated);
  fmt::print("  step        {} simulated{}: compute {}, communication not hidden {} ({:.0f}%)\n",
             format_seconds(t.seconds),
             measured_s ? fmt::format(" ({} measured)", format_seconds(*measured_s)) : "",
             format_seconds(t.compute), format_seconds(t.exposed), 100 * t.exposed / t.seconds);
  if (e.bound.seconds <= 0) {
    fmt::print("  link bound  none: all ranks are on one host");
  } else {
    fmt::print("  link bound  {} ({} {}); best possible for its bytes {}: {:.2f}x of it",
               format_seconds(e.bound.seconds), subject.cluster.hosts[e.bound.host].address,
               direction(e.bound.sending), format_seconds(e.best_bound_s), e.bound.seconds / e.best_bound_s);
  }
  fmt::print("\n  bytes      ");
  const auto share = [](const char* name, const tuner::Amount& amount) {
    if (amount.parts == 0) return;
    fmt::print(" {} {:.0f}% ({}, {} parts, {} variables)", name, 100 * amount.share,
               format_bytes(amount.bytes), amount.parts, amount.variables);
  };
  share("PS", e.parameter_server);
  share("all-reduce", e.all_reduce);
  share("all-gather", e.all_gather);
  const auto& p = e.patterns;
  fmt::print("\n  variables   {} whole, {} cut", p.whole, p.cut);
  if (p.cut > 0 && p.fewest_shards == p.most_shards) fmt::print(" into {}", p.most_shards);
  if (p.fewest_shards < p.most_shards) fmt::print(" into {} to {}", p.fewest_shards, p.most_shards);
  fmt::print("\n");
  if (e.all_reduce.parts == 0) return;
  std::vector<std::string> patterns;
  const auto pattern = [&](const char* name, const tuner::Amount& amount, const std::string& more = "") {
    if (amount.parts == 0) return;
    patterns.push_back(fmt::format("{} {} ({}{})", name, amount.variables, format_bytes(amount.bytes), more));
  };
  pattern("partition-then-all-reduce", p.partition_then_all_reduce);
  pattern("merge-then-all-reduce", p.merge_then_all_reduce, fmt::format(", {} groups", p.merge_groups));
  pattern("alone", p.all_reduce_alone);
  fmt::print("  all-reduce  {}\n", fmt::join(patterns, ", "));
}

// Seconds and share of the step, with a star where nothing is busier.
std::string describe(const Explanation& e, int host, bool sending) {
  for (const auto& use : e.links) {
    if (use.host != host || use.sending != sending) continue;
    return fmt::format("{} ({:.0f}%){}", format_seconds(use.seconds), 100 * use.share, use.binds ? "*" : " ");
  }
  return "- ";
}

void print_hosts(const Explanation& e, const cluster::Cluster& cluster) {
  fmt::print("\n  {:<16} {:>12} {:>22} {:>17} {:>17}\n", "host", "link", "serves", "sends ", "receives ");
  std::vector<int> order;  // the busiest, in the cluster's order
  for (const auto& use : e.links) {
    if (std::find(order.begin(), order.end(), use.host) == order.end()) order.push_back(use.host);
  }
  if (order.size() > kHostsShown) order.resize(kHostsShown);
  std::sort(order.begin(), order.end());
  for (const int h : order) {
    const auto& served = e.served[h];
    fmt::print(
        "  {:<16} {:>5g} Gbit/s {:>22} {:>17} {:>17}\n", cluster.hosts[h].address,
        cluster.hosts[h].bandwidth_gbit,
        served.parts > 0 ? fmt::format("{} in {} parts", format_bytes(served.bytes), served.parts) : "-",
        describe(e, h, true), describe(e, h, false));
  }
  if (order.size() < cluster.hosts.size()) {
    fmt::print("  and {} less busy ones\n", cluster.hosts.size() - order.size());
  }
  fmt::print("  * binds; (share of the step that the link is busy)\n");
}

void print_path(const Explanation& e) {
  fmt::print("\n  critical path\n");
  for (const auto& interval : e.iteration.critical_path) {
    fmt::print("    {:>9} {:<9} {}\n", format_seconds(interval.end - interval.begin), interval.track,
               interval.name);
  }
}

std::string change(double seconds, double of) {
  return fmt::format("{}{} ({:+.1f}%)", seconds < 0 ? "-" : "+", format_seconds(std::abs(seconds)),
                     100 * seconds / of);
}

void print_differences(const Explanation& e) {
  if (e.baseline.empty()) return;
  const double own = e.iteration.estimate.seconds, base = e.baseline_estimate.seconds;
  fmt::print("\n  against {} (distance {:.2f}): {} simulated, so this is {:.2f}x {}\n", e.baseline,
             e.distance, format_seconds(base), own <= base ? base / own : own / base,
             own <= base ? "faster" : "slower");
  fmt::print("    {:<33} {:>9} {:>10}   {}\n", "what differs", "variables", "bytes",
             "undone, the step takes");
  for (const auto& worth : e.worths) {
    const auto& d = worth.difference;
    fmt::print("    {:<33} {:>9} {:>10}   {}\n", tuner::name_of(d.aspect), d.variables, format_bytes(d.bytes),
               worth.worth_s ? change(*worth.worth_s, own) : "cannot be undone alone");
  }
  fmt::print("    {:<33} {:>9} {:>10}   {}\n", "all together", "", "", change(base - own, own));
}

bool has_shape(const strategy::Request& request) { return request.stored() && request.stored()->shape; }

void check_model(const strategy::Request& request, const ModelOutline& outline) {
  if (!request.stored()) return;
  for (const auto& variable : request.stored()->variables) {
    const bool known = std::any_of(outline.parameters.begin(), outline.parameters.end(),
                                   [&](const ModelOutline::Parameter& p) { return p.name == variable.name; });
    if (known) continue;
    bad_input("{}: strategy is for another model: it has {}, {} has no such variable", request.text(),
              variable.name, outline.model);
  }
}

// Of a stored G, which knows its layers where the model is a sequence.
ModelOutline outline_of(const graph::Graph& graph) {
  ModelOutline outline{graph.model, {}, {}};
  for (const auto& variable : graph.variables)
    outline.parameters.push_back({variable.name, variable.bytes(), {}});
  for (const auto& layer : graph.layers) {
    for (const int v : layer.variables) {
      outline.parameters[static_cast<size_t>(v)].layers.push_back(static_cast<int>(outline.layers.size()));
    }
    outline.layers.push_back(layer.name);
  }
  if (!outline.layers.empty()) return outline;
  outline.layers.emplace_back("whole");
  for (auto& parameter : outline.parameters) parameter.layers = {0};
  return outline;
}

int run_shape(const Command& command, const strategy::Request& request) {
  const SubjectOptions& subject = command.subject;
  request.check();
  if (!subject.data.empty() || !command.against.empty()) {
    bad_input(
        "--data, --against: not supported with a shape; allowed with it: --model or --graph, --cluster");
  }
  if (subject.profile.model.empty() && subject.graph.empty()) {
    bad_input("a shape is one of a model: give --model NAME or --graph FILE");
  }
  if (subject.cluster.empty()) {
    bad_input("--cluster is missing; allowed: local:4, lab:4x1gbit, a cluster.yml, a hostfile");
  }
  const cluster::Cluster cluster = cluster::parse(subject.cluster);
  const graph::Graph graph = subject.graph.empty() ? graph::Graph() : graph::load(subject.graph);
  const ModelOutline outline =
      subject.graph.empty() ? outline_model(subject.profile.model) : outline_of(graph);
  check_model(request, outline);
  const strategy::Shape shape =
      command.shape.empty() ? *request.stored()->shape
                            : strategy::shape_from(command.shape, static_cast<int>(outline.layers.size()));
  const int64_t examples =
      command.global_batch > 0 ? command.global_batch : subject.profile.batch_size * cluster.workers();
  ShapeReport report = report_shape(outline, request.text(), cluster, shape, examples);
  add_prediction(report, graph, request);
  fmt::print("{}", command.json ? to_json(report).dump(2) + "\n" : to_text(report));
  return 0;
}

int run(const Command& command) {
  const bool is_trial = command.strategy.starts_with("trial:");
  if (!command.shape.empty() && is_trial) {
    bad_input("--shape with {}: allowed: a builder or a strategy file", command.strategy);
  }
  if (!is_trial) {
    const strategy::Request request = command.strategy;
    if (!command.shape.empty() || has_shape(request)) return run_shape(command, request);
  }
  if (command.global_batch > 0) bad_input("--global-batch {}: allowed with --shape", command.global_batch);
  check_subject(command.subject, {command.strategy});
  const SimulationSubject subject = load_subject(command.subject);
  const NamedStrategy found = find_strategy(command.strategy, subject);
  tuner::ExplainOptions options;
  options.calibration = subject.calibration;
  options.against = command.against;
  const Explanation e = tuner::explain(found.strategy, subject.graph, subject.cluster, options);
  if (command.json) {
    fmt::print("{}\n", to_json(e, subject, found.measured_s).dump(2));
    return 0;
  }
  print_summary(e, subject, found.measured_s);
  if (!e.links.empty()) print_hosts(e, subject.cluster);
  print_path(e);
  print_differences(e);
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand(
      "explain",
      "Say why a strategy takes its time: what travels how, links that bind, what is worth what. Or draw a "
      "shape");
  auto c = std::make_shared<Command>();
  verb->add_option("strategy", c->strategy, "Builder, strategy file, or trial:N of --data")->required();
  add_subject_options(*verb, c->subject);
  verb->add_option("--against", c->against, "Builder to compare with (default: the nearest)");
  verb->add_option(
      "--shape", c->shape,
      "Draw this shape (else the strategy file's, if it has one) and say what each rank holds, "
      "computes and synchronizes, and with --graph what an update takes, simulated; nothing is run "
      "(forms: entrain help train)");
  verb->add_option("--global-batch", c->global_batch,
                   "With a shape: examples per update, of all ranks together [batch size x ranks that train]")
      ->check(positive())
      ->excludes(verb->get_option("--batch-size"));
  verb->add_flag("--json", c->json, "One JSON document on stdout, with the timeline");
  verb->footer(
      "Examples:\n"
      "  entrain explain best.json --model vgg16-32 --cluster lab:1x10gbit+3x1gbit\n"
      "  entrain explain trial:17 --data trials.jsonl --against allreduce\n"
      "  entrain explain allreduce --model vgg16 --cluster lab:4x1gbit --shape '0-12@0*.1,1-3*.3 13-15@0 "
      "m=10'");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::explain_verb
