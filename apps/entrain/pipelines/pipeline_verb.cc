// entrain pipeline plan: how many devices and micro-batches a model needs, and which choice is fastest.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/pipeline/plan/partition.h"
#include "entrain/pipeline/plan/schedule.h"
#include "pipelines/pipeline_costs.h"
#include "pipelines/pipeline_verb.h"
#include "usage.h"

namespace entrain::app::pipeline_verb {
namespace {

using nlohmann::json;
using pipeline::Fit;
using pipeline::FitPlan;
using pipeline::FitRequest;

constexpr double kOverhead = 1e-4;        // seconds a pass takes beside its layers: hand-over between threads
constexpr double kLinkLatency = 1e-4;     // seconds, with --link
constexpr int kProfiledMicroBatches = 8;  // the batch is cut so for the profile, unless the user said how

struct Command {
  CostRequest costs;
  int devices = 1;
  std::vector<double> speeds;
  std::vector<std::string> memory;
  int batch_size = 32;
  int micro_batches = 0;
  int pipeline = 0;
  std::vector<std::string> schedules;
  std::vector<std::string> remats;
  std::string balance;
  int chunks = 2;
  std::string link;
  std::string optimizer = "sgd";
  bool layers = false;
  bool json = false;
};

std::vector<pipeline::Device> parse_devices(const Command& command) {
  const auto count = static_cast<size_t>(command.devices);
  if (!command.speeds.empty() && command.speeds.size() != count) {
    bad_input("--speeds {}: wanted are {}, one per device", fmt::join(command.speeds, ","), count);
  }
  if (command.memory.size() > 1 && command.memory.size() != count) {
    bad_input("--memory {}: wanted is one amount, or {}, one per device", fmt::join(command.memory, ","),
              count);
  }
  std::vector<pipeline::Device> devices(count);
  for (size_t k = 0; k < count; ++k) {
    if (!command.speeds.empty()) devices[k].speed = command.speeds[k];
    if (!command.memory.empty()) {
      devices[k].memory_bytes = parse_bytes("--memory", command.memory[command.memory.size() == 1 ? 0 : k]);
    }
  }
  return devices;
}

// What can be told before the model is looked at.
void check(const Command& command) {
  if (command.micro_batches > command.batch_size) {
    bad_input("--micro-batches {}: must be in 1..{}, the batch size", command.micro_batches,
              command.batch_size);
  }
  if (command.pipeline > command.devices) {
    bad_input("--pipeline {}: must be in 1..{}, the devices", command.pipeline, command.devices);
  }
  parse_devices(command);
  if (!command.link.empty()) parse_rate("--link", command.link);
}

void set_balance(const Command& command, FitRequest* request) {
  if (command.balance.empty()) return;
  const int cells = 1 + static_cast<int>(std::count(command.balance.begin(), command.balance.end(), ','));
  request->balance =
      pipeline::parse_balance(command.balance, static_cast<int>(request->layers.size()), cells);
  const bool interleaved = request->schedules == std::vector<std::string>{"interleaved"};
  const int devices = interleaved ? cells / command.chunks : cells;
  if (devices < 1 || devices > command.devices || (interleaved && cells % command.chunks != 0)) {
    bad_input("--balance {}: {} cells do not go on {} devices{}", command.balance, cells, command.devices,
              interleaved ? fmt::format(", {} each", command.chunks) : "");
  }
  if (request->pipeline > 0 && request->pipeline != devices) {
    bad_input("--balance {}: is for {} devices; --pipeline says {}", command.balance, devices,
              request->pipeline);
  }
  request->pipeline = devices;
}

FitRequest make_request(const Command& command, const ModelCosts& costs) {
  FitRequest request = pipeline::request_for(costs);
  request.batch = command.batch_size;
  request.devices = parse_devices(command);
  request.optimizer_slots = optimizer_slots(command.optimizer);
  request.overhead_s = kOverhead;
  if (!command.link.empty()) {
    request.link_s_per_byte = 1 / parse_rate("--link", command.link);
    request.link_latency_s = kLinkLatency;
  }
  if (!command.schedules.empty()) request.schedules = command.schedules;
  if (!command.remats.empty()) {
    request.remats.clear();
    for (const std::string& name : command.remats) request.remats.push_back(pipeline::parse_remat(name));
  }
  if (command.micro_batches > 0) request.micro_batches = {command.micro_batches};
  request.chunks = command.chunks;
  request.pipeline = command.pipeline;
  const int layers = static_cast<int>(request.layers.size());
  if (request.pipeline > layers) {
    bad_input("--pipeline {}: more cells than layers; {} has {}", request.pipeline, command.costs.model,
              layers);
  }
  set_balance(command, &request);
  return request;
}

json to_json(const FitPlan& plan, const FitRequest& request) {
  json memory = json::array();
  for (size_t k = 0; k < plan.memory.size(); ++k) {
    memory.push_back({{"device", k},
                      {"parameter_bytes", plan.memory[k].parameter_bytes},
                      {"activation_bytes", plan.memory[k].activation_bytes},
                      {"peak_bytes", plan.memory[k].total()},
                      {"limit_bytes", request.devices[k].memory_bytes}});
  }
  const auto& c = plan.choice;
  return {{"devices", c.devices},
          {"micro_batches", c.micro_batches},
          {"schedule", c.schedule},
          {"chunks", c.chunks},
          {"remat", pipeline::remat_name(c.remat)},
          {"balance", c.balance},
          {"step_s", plan.step_s},
          {"bubble_share", plan.bubble_share},
          {"imbalance_share", plan.imbalance_share},
          {"transfer_share", plan.transfer_share},
          {"shortfall_bytes", plan.shortfall_bytes},
          {"shortfall_device", plan.shortfall_device},
          {"memory", memory}};
}

json to_json(const Command& command, const ModelCosts& costs, const FitRequest& request, const Fit& result) {
  json layers = json::array();
  for (const auto& layer : costs.layers) {
    layers.push_back({{"name", layer.name},
                      {"forward_s", layer.forward_s},
                      {"backward_s", layer.backward_s},
                      {"flops", layer.flops},
                      {"parameter_bytes", layer.parameter_bytes},
                      {"output_bytes", layer.output_bytes},
                      {"internal_bytes", layer.internal_bytes}});
  }
  const bool fits = !result.plans.empty();
  return {{"model", command.costs.model},
          {"parameters", costs.parameters},
          {"batch_size", command.batch_size},
          {"costs", costs.kind},
          {"costs_batch", costs.batch},
          {"why_estimated", costs.why},
          {"layers", layers},
          {"fits", fits},
          {"plans", result.plans.size()},
          {"smallest", fits ? to_json(result.plans.front(), request) : json()},
          {"fastest", fits ? to_json(result.plans[result.fastest], request) : json()},
          {"nearest", result.nearest ? to_json(*result.nearest, request) : json()}};
}

std::string bytes(int64_t count) { return format_bytes(static_cast<double>(count)); }

void print_layers(const ModelCosts& costs) {
  fmt::print("{:<20} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10}\n", "layer", "forward", "backward", "GFLOP",
             "parameters", "output", "kept");
  for (const auto& layer : costs.layers) {
    fmt::print("{:<20} {:>10} {:>10} {:>10.3f} {:>11} {:>10} {:>10}\n", layer.name,
               format_seconds(layer.forward_s), format_seconds(layer.backward_s), layer.flops / 1e9,
               bytes(layer.parameter_bytes), bytes(layer.output_bytes), bytes(layer.internal_bytes));
  }
}

void print_devices(const FitPlan& plan, const FitRequest& request) {
  fmt::print("{:<7} {:>8} {:>12} {:>12} {:>10} {:>10}  {}\n", "device", "layers", "parameters", "activations",
             "peak", "limit", "holds");
  for (int k = 0; k < plan.choice.devices; ++k) {
    const auto& memory = plan.memory[static_cast<size_t>(k)];
    std::vector<std::string> cells;
    int layers = 0, first = 0;
    for (size_t c = 0; c < plan.choice.balance.size(); ++c) {
      const int count = plan.choice.balance[c];
      if (static_cast<int>(c) % plan.choice.devices == k) {
        layers += count;
        cells.push_back(request.layers[first].name +
                        (count > 1 ? " .. " + request.layers[first + count - 1].name : ""));
      }
      first += count;
    }
    const int64_t limit = request.devices[static_cast<size_t>(k)].memory_bytes;
    fmt::print("{:<7} {:>8} {:>12} {:>12} {:>10} {:>10}  {}\n", k, layers, bytes(memory.parameter_bytes),
               bytes(memory.activation_bytes), bytes(memory.total()), limit > 0 ? bytes(limit) : "none",
               fmt::join(cells, ", "));
  }
}

void print_table(const Command& command, const ModelCosts& costs, const FitRequest& request,
                 const Fit& result) {
  fmt::print("{}: {} layers, {:.1f} M parameters ({}); costs {} with {} example{}{}\n", command.costs.model,
             costs.layers.size(), static_cast<double>(costs.parameters) / 1e6, bytes(costs.parameter_bytes()),
             costs.kind, costs.batch, costs.batch == 1 ? "" : "s", costs.why.empty() ? "" : ": " + costs.why);
  if (command.layers) print_layers(costs);
  fmt::print("{}", describe(result));
  if (result.plans.empty()) {
    if (result.nearest) print_devices(*result.nearest, request);
    return;
  }
  fmt::print("the fastest, by device (weights, gradients and {} slot{} of {}):\n", request.optimizer_slots,
             request.optimizer_slots == 1 ? "" : "s", command.optimizer);
  print_devices(result.plans[result.fastest], request);
}

int run(Command& command) {
  check(command);
  const int micro_batches =
      command.micro_batches > 0 ? command.micro_batches : std::min(command.batch_size, kProfiledMicroBatches);
  command.costs.batch = (command.batch_size + micro_batches - 1) / micro_batches;
  const ModelCosts costs = model_costs(command.costs);
  const FitRequest request = make_request(command, costs);
  const Fit result = pipeline::fit(request);
  if (result.plans.empty() && !result.nearest) {
    bad_input("--schedule {}: {} cells per device are more cells than the {} layers of {}",
              fmt::join(request.schedules, ","), command.chunks, request.layers.size(), command.costs.model);
  }
  if (command.json) {
    fmt::print("{}\n", to_json(command, costs, request, result).dump(2));
  } else {
    print_table(command, costs, request, result);
  }
  return result.plans.empty() ? 1 : 0;
}

void add_plan(CLI::App& parent, Action& action) {
  auto* verb =
      parent.add_subcommand("plan", "The fewest devices and micro-batches that fit, and the fastest plan");
  auto c = std::make_shared<Command>();
  add_model_option(*verb, c->costs.model, Models::kZoo)->required();
  verb->add_option("--devices", c->devices, "Devices there are")->required()->check(CLI::Range(1, 4096));
  verb->add_option("--speeds", c->speeds, "Of each device, beside the one the profile is of: 1,1,0.5")
      ->delimiter(',')
      ->check(positive());
  verb->add_option("--memory", c->memory, "Of each device: 16GiB, or one per device: 16GiB,8GiB")
      ->delimiter(',');
  verb->add_option("--batch-size", c->batch_size, "Examples per step")
      ->check(positive())
      ->check(examples())
      ->capture_default_str();
  verb->add_option("--micro-batches", c->micro_batches, "Only this many (M)")->check(positive());
  verb->add_option("--pipeline", c->pipeline, "Only this many devices (K)")->check(positive());
  verb->add_option("--schedule", c->schedules, "gpipe, 1f1b, interleaved (default: gpipe,1f1b)")
      ->delimiter(',')
      ->check(CLI::IsMember(pipeline::schedule_names()));
  verb->add_option("--remat", c->remats, "never, except-last, always (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(pipeline::remat_names()));
  verb->add_option("--balance", c->balance, "Layers of each cell, instead of the best: 3,5,4");
  verb->add_option("--chunks", c->chunks, "Cells per device, for interleaved")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--link", c->link, "Rate between devices, as 1gbit (default: transfers are free)");
  verb->add_option("--optimizer", c->optimizer,
                   "What it holds for each weight: sgd 0, momentum 1, adam 2 numbers")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}))
      ->capture_default_str();
  verb->add_flag("--estimate", c->costs.estimate, "Work the costs out from shapes; run nothing");
  verb->add_option("--flops", c->costs.flops_per_s,
                   "FLOP/s of a device, for estimates (default: measured here)")
      ->check(positive());
  verb->add_option("--seed", c->costs.seed, "Seed of parameters and data");
  verb->add_flag("--layers", c->layers, "Also list each layer's costs");
  add_json_option(*verb, c->json);
  verb->footer(
      "Exit code 1: does not fit, and by how much.\n"
      "Examples:\n"
      "  entrain pipeline plan --model transformer-32 --devices 4 --memory 512MiB --batch-size 32\n"
      "  entrain pipeline plan --model unet:24,160 --devices 4 --memory 22GiB --estimate --flops 10e12");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace

void add_pipeline(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("pipeline", "Plan pipelines: what fits, how fast it is");
  verb->require_subcommand(1);
  add_plan(*verb, action);
  pipeline_partition::add_pipeline_partition(*verb, action);
  pipeline_reach::add_pipeline_reach(*verb, action);
}

}  // namespace entrain::app::pipeline_verb
