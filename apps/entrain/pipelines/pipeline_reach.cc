// entrain pipeline reach: the largest model of a family that fits on so many devices (GPipe's Table 1).
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/models/registry.h"
#include "pipelines/pipeline_costs.h"
#include "pipelines/pipeline_verb.h"
#include "usage.h"

namespace entrain::app::pipeline_reach {
namespace {

// What is searched: every width, and the most depth that fits with it.
struct Family {
  std::string name;
  std::vector<int> widths;
  int depth_step;
  int most_depth;
};

std::vector<int> range(int first, int last, int step) {
  std::vector<int> values;
  for (int value = first; value <= last; value += step) values.push_back(value);
  return values;
}

const std::vector<Family>& families() {
  static const std::vector<Family> list = {{"unet", range(64, 320, 32), 1, 96},
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

struct Row {
  int devices;
  bool naive;         // one device, one micro-batch, everything kept: no pipeline
  std::string model;  // empty: none fits
  int64_t parameters = 0;
  int64_t peak_bytes = 0;
};

// Answers whether a model fits; each is looked at once.
class Judge {
 public:
  explicit Judge(const Command& command)
      : command_(command), memory_bytes_(parse_bytes("--memory", command.memory)) {}

  // If it fits, and has more parameters than the row's: becomes the row's.
  bool offer(const std::string& model, Row* row) {
    const ModelCosts& costs = costs_of(model);
    if (static_cast<int>(costs.layers.size()) < row->devices) return true;  // more depth may help
    pipeline::FitRequest request = pipeline::request_for(costs);
    request.batch = command_.batch_size;
    request.devices.assign(static_cast<size_t>(row->devices), {1, memory_bytes_});
    request.pipeline = row->devices;
    request.optimizer_slots = optimizer_slots(command_.optimizer);
    // What takes the least: every example a micro-batch, all recomputed.
    request.schedules = {"gpipe"};
    request.micro_batches = {row->naive ? 1 : command_.batch_size};
    request.remats = {row->naive ? pipeline::Remat::kNever : pipeline::Remat::kAlways};
    const auto result = pipeline::fit(request);
    if (result.plans.empty()) return false;
    if (costs.parameters > row->parameters) {
      row->model = model;
      row->parameters = costs.parameters;
      row->peak_bytes = 0;
      for (const auto& memory : result.plans.front().memory) {
        row->peak_bytes = std::max(row->peak_bytes, memory.total());
      }
    }
    return true;
  }

 private:
  const ModelCosts& costs_of(const std::string& model) {
    const auto found = known_.find(model);
    if (found != known_.end()) return found->second;
    CostRequest request;
    request.model = model;
    request.estimate = true;
    request.flops_per_s = 1e12;  // any: devices are alike
    return known_.emplace(model, model_costs(request)).first->second;
  }

  const Command& command_;
  int64_t memory_bytes_;
  std::map<std::string, ModelCosts> known_;
};

void search(const Family& family, Judge& judge, Row* row) {
  for (const int width : family.widths) {
    int fits = 0, too_much = family.most_depth / family.depth_step + 1;  // in steps
    while (too_much - fits > 1) {
      // Doubled first: the largest blueprints are the slowest.
      const int middle = fits == 0 ? 1 : std::min(2 * fits, (fits + too_much) / 2);
      const auto model = fmt::format("{}:{},{}", family.name, middle * family.depth_step, width);
      (judge.offer(model, row) ? fits : too_much) = middle;
    }
  }
}

std::vector<Row> reach(const Command& command) {
  const auto& all = families();
  const auto family =
      std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == command.family; });
  Judge judge(command);
  std::vector<Row> rows = {{1, true, ""}};
  for (const int devices : command.devices) rows.push_back({devices, false, ""});
  for (Row& row : rows) {
    if (command.sizes.empty()) search(*family, judge, &row);
    for (const std::string& size : command.sizes) judge.offer(command.family + ":" + size, &row);
  }
  return rows;
}

void print_json(const Command& command, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
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

void print_table(const Command& command, const std::vector<Row>& rows) {
  fmt::print("{} in {} per device, batch {}, {}: the most parameters that fit (estimated)\n", command.family,
             command.memory, command.batch_size, command.optimizer);
  fmt::print("{:<14} {:<22} {:>12} {:>8} {:>10}\n", "devices", "model", "parameters", "growth", "peak");
  double first = 0;  // that fits
  for (const Row& row : rows) {
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
  const std::vector<Row> rows = reach(command);
  command.json ? print_json(command, rows) : print_table(command, rows);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.model.empty(); });
  return any ? 0 : 1;
}

}  // namespace

void add_pipeline_reach(CLI::App& parent, Action& action) {
  auto* verb =
      parent.add_subcommand("reach", "The largest model of a family that fits on 1, 2, 4, ... devices");
  auto c = std::make_shared<Command>();
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.name);
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
      ->capture_default_str();
  verb->add_option("--optimizer", c->optimizer, "sgd, momentum, adam")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}))
      ->capture_default_str();
  add_json_option(*verb, c->json);
  verb->footer("Example:\n  entrain pipeline reach --family unet --memory 22GiB --devices 1,2,4,8");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::pipeline_reach
