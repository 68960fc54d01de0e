// entrain demo: an uneven cluster in a lab, one model, every builder, and which one wins and why.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "demo_report.h"
#include "entrain/models/blueprint.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/trials/compare.h"
#include "host_flags.h"
#include "rank_verb.h"
#include "shape_flag.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::demo_verb {
namespace {

struct Command {
  std::string cluster = "lab:1x10gbit+3x1gbit";
  trials::CompareOptions compare;
  std::vector<std::string> strategies;  // only these
  bool json = false;
  BatchFlags batch;
  RemoteOptions remote;
};

DemoResult result_of(const trials::Comparison& comparison, const trials::CompareOptions& options) {
  DemoResult result{
      options.model, options.batch_size, {}, comparison.link_bound_best, comparison.interrupted};
  for (const auto& row : comparison.rows) {
    const auto& shape = row.strategy.shape;
    result.rows.push_back(
        {row.strategy.id, row.step_times, row.link_bound, shape ? strategy::to_text(*shape) : ""});
  }
  return result;
}

std::string where(const cluster::Cluster& cluster) {
  const size_t hosts = cluster.hosts.size();
  if (cluster.kind == cluster::Kind::kLab) return fmt::format("{} emulated hosts on this machine", hosts);
  if (cluster.kind == cluster::Kind::kLocal) return fmt::format("{} ranks on this machine", cluster.world());
  return fmt::format("{} hosts", hosts);
}

// The one that the others are compared with first: Ctrl-C may leave only a few.
std::vector<std::string> all_builders() {
  std::vector<std::string> names = strategy::names();
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == "ddp"; });
  return names;
}

int run(Command& command) {
  command.compare.batch_size = command.batch.per_rank(command.compare.batch_size, command.cluster);
  if (checks_input(command.cluster)) {
    models::make_blueprint(command.compare.model);
    for (const strategy::Request request : command.strategies) {
      request.check();
      if (request.stored()) strategy::check_parts(*request.stored(), request.text());
    }
  }
  return run_on_ranks(command.cluster, 120, command.remote, [&](job::Context& context) {
    end_on_signals(context);
    trials::CompareOptions options = command.compare;
    const auto names = command.strategies.empty() ? all_builders() : command.strategies;
    options.strategies.assign(names.begin(), names.end());
    options.shapes = command.strategies.empty();
    if (context.rank() == 0 && !command.json) {
      fmt::print(
          "{} on {}: {}, batch {} per rank, {} strategies in one running job{}.\n"
          "Ctrl-C shows what was measured until then.\n",
          options.model, command.cluster, where(context.cluster), options.batch_size,
          options.strategies.size(), options.shapes ? ", then one host alone and other shapes" : "");
      std::fflush(stdout);
    }
    const trials::Comparison comparison = trials::compare(context, options);
    if (context.rank() != 0) return 0;
    const DemoResult result = result_of(comparison, options);
    if (command.json) {
      fmt::print("{}\n", demo_json(result, context.cluster).dump(2));
    } else {
      fmt::print("{}", demo_text(result, context.cluster));
    }
    return 0;
  });
}

}  // namespace

void add_demo(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand(
      "demo",
      "Compare every strategy, one host alone, a pipeline and a planned shape on an emulated uneven cluster");
  auto c = std::make_shared<Command>();
  c->compare.model = "vgg16-32";
  verb->add_option("--cluster", c->cluster, "Another cluster")->capture_default_str();
  add_model_option(*verb, c->compare.model, Models::kZoo);
  verb->add_option("--strategy", c->strategies, "Only these builders or files (may be repeated)");
  add_batch_options(*verb, c->compare.batch_size, c->batch,
                    "Examples per rank; few, so that links decide and not cores");
  verb->add_option("--steps", c->compare.steps, "Measured steps of each strategy")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->compare.seed, "Seed of parameters, data and strategies that draw");
  add_host_options(*verb, c->remote);
  add_json_option(*verb, c->json);
  verb->footer(
      "Time: about 2 minutes on 2 cores; --steps, --strategy and a smaller --model shorten it.\n"
      "Examples:\n"
      "  entrain demo\n"
      "  entrain demo --model bert-small --cluster lab:1x1gbit+3x100mbit --strategy ddp --strategy ps");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::demo_verb
