// entrain demo: an uneven cluster in a lab, one model, every builder, and which one wins and why.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/models/blueprint.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trainer/compare.h"
#include "entrain/trainer/train.h"
#include "rank_verb.h"
#include "verbs.h"

namespace entrain::app {
namespace {

struct Command {
  std::string cluster = "lab:1x10gbit+3x1gbit";
  CompareOptions compare;
  bool json = false;
};

struct Row {
  std::string name;
  double median, p10, p90;
  plan::LinkBound bound;
};

std::vector<Row> rows_of(const Comparison& comparison) {
  std::vector<Row> rows;
  for (const auto& c : comparison.rows) {
    rows.push_back({c.strategy.id, median(c.step_times), quantile(c.step_times, 0.1),
                    quantile(c.step_times, 0.9), c.link_bound});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.median < b.median; });
  return rows;
}

std::string link_name(const plan::LinkBound& bound, const cluster::Cluster& cluster) {
  return fmt::format("{} {}", cluster.hosts[bound.host].address, bound.sending ? "sends" : "receives");
}

// "198.18.0.2 sends 134.6 MB a step at 1 Gbit/s: at least 1.08 s"
std::string explain(const plan::LinkBound& bound, const cluster::Cluster& cluster) {
  const double gbit = cluster.hosts[bound.host].bandwidth_gbit;
  return fmt::format("{} {} a step at {:g} Gbit/s: at least {}", link_name(bound, cluster),
                     format_bytes(bound.seconds * gbit * 1e9 / 8), gbit, format_seconds(bound.seconds));
}

// The bytes that cross the binding link explain the order: time >= bytes / bandwidth.
void print_reason(const std::vector<Row>& rows, const cluster::Cluster& cluster, double best_bound) {
  const Row& best = rows.front();
  fmt::print("\nThis cluster prefers {}: {} a step. Its busiest link: {}.\n", best.name,
             format_seconds(best.median), explain(best.bound, cluster));
  const auto reference =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.name == "allreduce"; });
  if (reference != rows.end() && reference->name != best.name) {
    fmt::print("All-reduce, the fixed choice of DDP and Horovod, takes {:.2f}x as long: {}.\n",
               reference->median / best.median, explain(reference->bound, cluster));
  }
  fmt::print("No strategy can be faster than {} on these links without compressing gradients.\n",
             format_seconds(best_bound));
}

void print_table(const Comparison& comparison, const cluster::Cluster& cluster) {
  const auto rows = rows_of(comparison);
  const double slowest = rows.back().median;
  fmt::print("\n{:<23} {:>9}   {:<17} {:>8} {:>10}  {}\n", "strategy", "step", "p10 .. p90", "speed-up",
             "link bound", "busiest link");
  for (const Row& row : rows) {
    fmt::print("{:<23} {:>9}   {:<17} {:>7.2f}x {:>10}  {}\n", row.name, format_seconds(row.median),
               fmt::format("{} .. {}", format_seconds(row.p10), format_seconds(row.p90)),
               slowest / row.median, format_seconds(row.bound.seconds), link_name(row.bound, cluster));
  }
  print_reason(rows, cluster, comparison.link_bound_best);
}

void print_json(const Comparison& comparison, const Command& command) {
  nlohmann::json json = {{"model", command.compare.model},
                         {"cluster", command.cluster},
                         {"link_bound_best_s", comparison.link_bound_best},
                         {"strategies", nlohmann::json::array()}};
  for (const Row& row : rows_of(comparison)) {
    json["strategies"].push_back({{"strategy", row.name},
                                  {"step_time_median_s", row.median},
                                  {"step_time_p10_s", row.p10},
                                  {"step_time_p90_s", row.p90},
                                  {"link_bound_s", row.bound.seconds}});
  }
  fmt::print("{}\n", json.dump(2));
}

int run(const Command& command) {
  if (!started_by_entrain()) {
    models::make_blueprint(command.compare.model);
    for (const auto& name : command.compare.strategies) strategy::check_name(name);
  }
  return run_on_ranks(command.cluster, 120, [&](Context& context) {
    CompareOptions options = command.compare;
    if (options.strategies.empty()) options.strategies = strategy::names();
    if (context.rank() == 0 && !command.json) {
      fmt::print(
          "{} (batch {} a rank) on {}: {} emulated hosts on this machine, every strategy in one running "
          "job.\n",
          options.model, options.batch_size, command.cluster, context.cluster.hosts.size());
      std::fflush(stdout);
    }
    const Comparison comparison = compare(context, options);
    if (context.rank() != 0) return 0;
    if (command.json) {
      print_json(comparison, command);
    } else {
      print_table(comparison, context.cluster);
    }
    return 0;
  });
}

}  // namespace

void add_demo(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("demo", "Compare every strategy on an emulated uneven cluster");
  auto c = std::make_shared<Command>();
  c->compare.model = "vgg16-32";
  verb->add_option("--cluster", c->cluster, "Another cluster")->capture_default_str();
  verb->add_option("--model", c->compare.model, "Another model of the zoo")->capture_default_str();
  verb->add_option("--strategy", c->compare.strategies, "Only these builders or files (may be repeated)");
  verb->add_option("--batch-size", c->compare.batch_size, "Examples a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--steps", c->compare.steps, "Measured steps of each strategy")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--seed", c->compare.seed, "Seed of parameters, data and strategies that draw");
  verb->add_flag("--json", c->json, "One JSON document on stdout");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app
