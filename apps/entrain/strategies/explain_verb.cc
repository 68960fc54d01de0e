// entrain explain: why a strategy takes the time it takes.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/units.h"
#include "entrain/tuner/explain.h"
#include "strategies/subject.h"
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

json to_json(const std::vector<simulator::Span>& spans) {
  json list = json::array();
  for (const auto& s : spans) {
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

json to_json(const Explanation& e, const Subject& subject, std::optional<double> measured_s) {
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
            {"simulated", to_json(e.timeline.estimate)},
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
            {"critical_path", to_json(e.timeline.critical_path)},
            {"timeline", to_json(e.timeline.spans)},
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

void print_summary(const Explanation& e, const Subject& subject, std::optional<double> measured_s) {
  const auto& t = e.timeline.estimate;
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
  for (const auto& span : e.timeline.critical_path) {
    fmt::print("    {:>9} {:<9} {}\n", format_seconds(span.end - span.begin), span.track, span.name);
  }
}

std::string change(double seconds, double of) {
  return fmt::format("{}{} ({:+.1f}%)", seconds < 0 ? "-" : "+", format_seconds(std::abs(seconds)),
                     100 * seconds / of);
}

void print_differences(const Explanation& e) {
  if (e.baseline.empty()) return;
  const double own = e.timeline.estimate.seconds, base = e.baseline_estimate.seconds;
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

int run(const Command& command) {
  check_subject(command.subject, {command.strategy});
  const Subject subject = load_subject(command.subject);
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
      "explain", "Say why a strategy takes its time: what travels how, links that bind, what is worth what");
  auto c = std::make_shared<Command>();
  verb->add_option("strategy", c->strategy, "Builder, strategy file, or trial:N of --data")->required();
  add_subject_options(*verb, c->subject);
  verb->add_option("--against", c->against, "Builder to compare with (default: the nearest)");
  verb->add_flag("--json", c->json, "One JSON document on stdout, with the timeline");
  verb->footer(
      "Examples:\n"
      "  entrain explain best.json --model vgg16-32 --cluster lab:1x10gbit+3x1gbit\n"
      "  entrain explain trial:17 --data trials.jsonl --against allreduce");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::explain_verb
