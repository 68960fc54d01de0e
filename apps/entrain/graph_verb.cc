// entrain graph: G of a model, profiled here.
#include "graph_verb.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/graph/profile.h"
#include "entrain/models/registry.h"
#include "entrain/pipeline/profile/graph_layers.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app {

graph::Graph profile_model(const ProfileRequest& request) {
  const torch::Device device(request.device);
  if (device.is_cuda() && !torch::cuda::is_available()) {
    bad_input("--device {}: libtorch sees no GPU here; allowed: cpu", request.device);
  }
  const auto model = models::make_model(request.model, request.seed);
  model->to(device);
  auto generator = at::detail::createCPUGenerator(request.seed);
  const models::Batch batch = model->synthetic(request.batch_size, generator).to(device);
  graph::ProfileOptions options;
  options.repeats = request.repeats;
  graph::Graph g = graph::profile(
      *model, [&] { return model->loss(batch); }, options);
  g.model = request.model;
  g.batch_size = request.batch_size;
  const layers::Sequence sequence = model->sequence();
  if (!sequence.layers.empty() && device.is_cpu()) {
    pipeline::add_layers(g, *model, sequence, batch.input, batch.target,
                         pipeline::profiled_sizes(request.batch_size), {.repeats = request.repeats});
  }
  return g;
}

}  // namespace entrain::app

namespace entrain::app::graph_verb {
namespace {

struct Command : ProfileRequest {
  std::string profile_out;
  bool json = false;
  bool list = false;
};

int list_models(bool json) {
  auto document = nlohmann::json::array();
  for (const auto& model : models::zoo()) {
    if (!json) fmt::print("{:<18} {}\n", model.name, model.description);
    document.push_back({{"name", model.name}, {"description", model.description}});
  }
  if (json) fmt::print("{}\n", document.dump(2));
  return 0;
}

void print_table(const graph::Graph& g) {
  fmt::print("{}, batch {}: {} variables, {}, compute {} (forward and backward)\n", g.model, g.batch_size,
             g.variables.size(), format_bytes(static_cast<double>(g.bytes())), format_seconds(g.compute_s()));
  size_t width = 8;
  for (const auto& v : g.variables) width = std::max(width, v.name.size());
  fmt::print("{:<{}} {:>20} {:>10} {:>6} {:>6} {:>9} {:>9} {:>10}\n", "variable", width, "shape", "bytes",
             "sparse", "ready", "forward", "backward", "GFLOP");
  for (const auto& v : g.variables) {
    const std::string shape = fmt::format("{}", fmt::join(v.shape, "x"));
    fmt::print("{:<{}} {:>20} {:>10} {:>6} {:>6} {:>9} {:>9} {:>10.3f}\n", v.name, width, shape,
               format_bytes(static_cast<double>(v.bytes())), v.sparse ? "yes" : "no", v.ready_order,
               format_seconds(v.forward_s), format_seconds(v.backward_s), v.flops / 1e9);
  }
  fmt::print("{} data-flow edges (--json lists them)\n", g.edges.size());
}

int run(const Command& command) {
  if (command.list) return list_models(command.json);
  if (command.model.empty()) bad_input("--model is required; entrain graph --list shows the models");
  const graph::Graph g = profile_model(command);
  if (!command.profile_out.empty()) {
    graph::save(g, command.profile_out);
    fmt::print(stderr, "written to {}; for --compute replay:{} or --graph {}\n", command.profile_out,
               command.profile_out, command.profile_out);
  }
  if (command.json) {
    fmt::print("{}\n", graph::to_json(g));
  } else {
    print_table(g);
  }
  return 0;
}

}  // namespace

void add_graph(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("graph", "Show G of a model: variables, order, times, FLOPs, data flow");
  auto c = std::make_shared<Command>();
  add_model_option(*verb, c->model, Models::kZooOrScript);
  verb->add_option("--batch-size", c->batch_size, "Examples in the profiled batch")
      ->check(positive())
      ->check(examples())
      ->capture_default_str();
  verb->add_option("--repeats", c->repeats, "Profiled runs; medians are taken")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->seed, "Seed of parameters and data");
  verb->add_option("--device", c->device, "Profile there")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--profile-out", c->profile_out, "Also save G there (.json, or binary)");
  verb->add_flag("--list", c->list, "List the models");
  add_json_option(*verb, c->json);
  verb->footer(
      "Examples:\n  entrain graph --list\n  entrain graph --model bert-small --json\n"
      "  entrain graph --model bert-large --device cuda --profile-out gpu.json   # for --compute replay:");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::graph_verb
