// entrain pipeline reach: the largest model of a family that fits on so many devices (GPipe's Table 1).
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/pipeline/plan/reach.h"
#include "pipelines/pipeline_costs.h"
#include "pipelines/pipeline_verb.h"
#include "usage.h"

namespace entrain::app::pipeline_reach {
namespace {

std::vector<int> range(int first, int last, int step) {
  std::vector<int> values;
  for (int value = first; value <= last; value += step) values.push_back(value);
  return values;
}

// GPipe's models, in sizes around those of its table.
const std::vector<pipeline::Family>& families() {
  static const std::vector<pipeline::Family> list = {
      {"unet", range(64, 320, 32), 1, 96},
      {"amoebanet-d", range(128, 768, 64), 3, 192},  // three stages
      {"transformer", {512, 1024, 2048, 4096, 8192}, 1, 512}};
  return list;
}

struct Command {
  std::string family;
  std::string memory;
  std::vector<int> devices = {1, 2, 4, 8};
  std::vector<std::string> sizes;
  int batch_size = 32;
  std::string optimizer = "sgd";
  bool json = false;
};

// Estimated: nothing is run, and devices are alike.
pipeline::Member member(const std::string& model) {
  CostRequest request;
  request.model = model;
  request.estimate = true;
  request.flops_per_s = 1e12;  // any
  const ModelCosts costs = model_costs(request);
  return {pipeline::request_for(costs), costs.parameters};
}

std::vector<pipeline::Reached> reach(const Command& command) {
  const auto& all = families();
  pipeline::ReachRequest request;
  request.family = *std::find_if(all.begin(), all.end(),
                                 [&](const pipeline::Family& f) { return f.name == command.family; });
  request.sizes = command.sizes;
  request.devices = command.devices;
  request.memory_bytes = parse_bytes("--memory", command.memory);
  request.examples = command.batch_size;
  request.optimizer_slots = optimizer_slots(command.optimizer);
  return pipeline::reach(request, member);
}

void print_json(const Command& command, const std::vector<pipeline::Reached>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const pipeline::Reached& row : rows) {
    list.push_back({{"devices", row.devices},
                    {"naive", row.naive},
                    {"model", row.model},
                    {"parameters", row.parameters},
                    {"peak_bytes", row.peak_bytes}});
  }
  fmt::print("{}\n", nlohmann::json{{"family", command.family},
                                    {"memory_bytes", parse_bytes("--memory", command.memory)},
                                    {"batch_size", command.batch_size},
                                    {"optimizer", command.optimizer},
                                    {"rows", list}}
                         .dump(2));
}

void print_table(const Command& command, const std::vector<pipeline::Reached>& rows) {
  fmt::print("{} in {} per device, batch {}, {}: the most parameters that fit (estimated)\n", command.family,
             command.memory, command.batch_size, command.optimizer);
  fmt::print("{:<14} {:<22} {:>12} {:>8} {:>10}\n", "devices", "model", "parameters", "growth", "peak");
  double first = 0;  // that fits
  for (const pipeline::Reached& row : rows) {
    const std::string devices = row.naive ? "1, no pipeline" : std::to_string(row.devices);
    if (row.model.empty()) {
      fmt::print("{:<14} none of them fits\n", devices);
      continue;
    }
    if (first == 0) first = static_cast<double>(row.parameters);
    const double growth = static_cast<double>(row.parameters) / first;
    fmt::print("{:<14} {:<22} {:>10.1f} M {:>7.1f}x {:>10}\n", devices, row.model,
               static_cast<double>(row.parameters) / 1e6, growth,
               format_bytes(static_cast<double>(row.peak_bytes)));
  }
}

int run(const Command& command) {
  const auto rows = reach(command);
  command.json ? print_json(command, rows) : print_table(command, rows);
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const pipeline::Reached& row) { return !row.model.empty(); });
  return any ? 0 : 1;
}

}  // namespace

void add_pipeline_reach(CLI::App& parent, Action& action) {
  auto* verb =
      parent.add_subcommand("reach", "The largest model of a family that fits on 1, 2, 4, ... devices");
  auto c = std::make_shared<Command>();
  std::vector<std::string> names;
  for (const pipeline::Family& family : families()) names.push_back(family.name);
  verb->add_option("--family", c->family, fmt::format("{}", fmt::join(names, ", ")))
      ->required()
      ->check(CLI::IsMember(names));
  verb->add_option("--memory", c->memory, "Of each device: 22GiB")->required();
  verb->add_option("--devices", c->devices, "Numbers of devices: 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb->add_option("--sizes", c->sizes, "Only these sizes: 6,72 11,128 (default: all widths and depths)");
  verb->add_option("--batch-size", c->batch_size, "Examples per step, each a micro-batch")
      ->check(positive())
      ->check(examples())
      ->capture_default_str();
  verb->add_option("--optimizer", c->optimizer, "sgd, momentum, adam")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}))
      ->capture_default_str();
  add_json_option(*verb, c->json);
  verb->footer("Example:\n  entrain pipeline reach --family unet --memory 22GiB --devices 1,2,4,8");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::pipeline_reach
