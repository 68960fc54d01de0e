#include "strategies/shape_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "entrain/base/units.h"
#include "entrain/plan/passes.h"
#include "entrain/plan/shape_memory.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::app {
namespace {

using nlohmann::json;

constexpr size_t kRanksShown = 16, kGroupsShown = 12, kColumns = 100;

std::vector<int> holders_of(const ModelOutline::Parameter& parameter, const strategy::Shape& shape,
                            const cluster::Cluster& cluster) {
  if (parameter.layers.empty()) return cluster.worker_ranks();  // no layer uses it: everyone keeps it
  std::set<int> ranks;
  for (const int layer : parameter.layers) {
    const auto holders = shape.holders_of(layer);
    ranks.insert(holders.begin(), holders.end());
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<ShapeReport::Work> work_of(int rank, const strategy::Shape& shape,
                                       const plan::Assignment& assignment) {
  std::vector<ShapeReport::Work> result;
  for (int c = 0; c < assignment.cells(); ++c) {
    const auto& ranks = shape.cells[static_cast<size_t>(c)].ranks;
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) continue;
    ShapeReport::Work work{c, 0, assignment.of_replica(c, static_cast<int>(found - ranks.begin()))};
    for (const int m : work.micro_batches) {
      work.examples += assignment.micro_batches[static_cast<size_t>(m)].count;
    }
    result.push_back(std::move(work));
  }
  return result;
}

// The words behind the bar of a line of plan::draw().
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line.substr(line.find('|') + 1));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "0-2, 5".
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t next = i + 1;
    while (next < numbers.size() && numbers[next] == numbers[next - 1] + 1) ++next;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (next > i + 1) text += fmt::format("-{}", numbers[next - 1]);
    i = next;
  }
  return text;
}

std::string counted(const char* one, const std::vector<int>& numbers) {
  return fmt::format("{}{} {}", one, numbers.size() > 1 ? "s" : "", ranges(numbers));
}

std::string layers_text(const strategy::Cell& cell) {
  if (cell.end == cell.begin + 1) return fmt::format("layer {}", cell.begin);
  return fmt::format("layers {}-{}", cell.begin, cell.end - 1);
}

std::string head_text(const ShapeReport& report) {
  const auto& pieces = report.assignment.micro_batches;
  const auto [least, most] = std::minmax_element(
      pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.count < b.count; });
  return fmt::format("{} on {}, strategy {}: {} examples per update, {} micro-batch{} of {}{}\nshape: {}\n\n",
                     report.model, report.cluster.name, report.strategy, report.assignment.examples,
                     pieces.size(), pieces.size() == 1 ? "" : "es", least->count,
                     most->count > least->count ? fmt::format(" to {}", most->count) : "",
                     strategy::to_text(report.shape));
}

std::string work_text(const ShapeReport::Rank& rank, const strategy::Shape& shape) {
  if (rank.work.empty()) return "nothing: the shape does not use it";
  std::vector<std::string> parts;
  for (const auto& work : rank.work) {
    const size_t count = work.micro_batches.size();
    parts.push_back(fmt::format("{}: {} example{} in {} micro-batch{}",
                                layers_text(shape.cells[static_cast<size_t>(work.cell)]), work.examples,
                                work.examples == 1 ? "" : "s", count, count == 1 ? "" : "es"));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string passes_text(const ShapeReport::Rank& rank) {
  std::string line = fmt::format("  {:>4} |", rank.rank);
  for (size_t i = 0; i < rank.passes.size(); ++i) {
    if (line.size() + rank.passes[i].size() > kColumns) {
      return line + fmt::format(" ... {} more", rank.passes.size() - i);
    }
    line += " " + rank.passes[i];
  }
  return line;
}

std::string group_text(const ShapeReport::Group& group) {
  const std::string what = fmt::format(
      "{} ({}, {} variable{})", group.layers.empty() ? "no layer's" : counted("layer", group.layers),
      format_bytes(static_cast<double>(group.bytes)), group.variables, group.variables == 1 ? "" : "s");
  if (group.ranks.size() > 1) return fmt::format("  {}: {}\n", what, counted("rank", group.ranks));
  return fmt::format("  {}: {} alone, nothing is synchronized\n", what, counted("rank", group.ranks));
}

// As many as fit a screen; `what` is left out.
std::string and_more(size_t count, size_t shown, const char* what) {
  return count > shown ? fmt::format("  and {} more {} (--json has all)\n", count - shown, what) : "";
}

json micro_batches_json(const plan::Assignment& assignment) {
  json list = json::array();
  for (const auto& m : assignment.micro_batches) list.push_back({{"begin", m.begin}, {"examples", m.count}});
  return list;
}

json rank_json(const ShapeReport::Rank& rank, const ShapeReport& report) {
  json work = json::array();
  for (const auto& w : rank.work) {
    const strategy::Cell& cell = report.shape.cells[static_cast<size_t>(w.cell)];
    work.push_back({{"cell", w.cell},
                    {"begin", cell.begin},
                    {"end", cell.end},
                    {"examples", w.examples},
                    {"micro_batches", w.micro_batches}});
  }
  return {{"rank", rank.rank},
          {"host", report.cluster.hosts[report.cluster.host_of(rank.rank)].address},
          {"parameter_bytes", rank.parameter_bytes},
          {"cells", work},
          {"passes", rank.passes}};
}

std::string prediction_text(const ShapeReport& report) {
  if (!report.predicted) return "\n  no step time: --graph FILE with times of the layers is needed\n";
  const auto& e = *report.predicted;
  return fmt::format(
      "\n  simulated: {} per update ({} of it exposed), busiest rank computes {}; default calibration\n",
      format_seconds(e.seconds), format_seconds(e.exposed), format_seconds(e.compute));
}

json prediction_json(const ShapeReport& report) {
  if (!report.predicted) return nullptr;
  const auto& e = *report.predicted;
  return {{"seconds", e.seconds},
          {"compute_s", e.compute},
          {"exposed_s", e.exposed},
          {"link_bound_s", e.link_bound},
          {"messages", e.messages}};
}

}  // namespace

void add_prediction(ShapeReport& report, const graph::Graph& graph, const strategy::Request& strategy) {
  const bool profiled = std::none_of(graph.layers.begin(), graph.layers.end(),
                                     [](const auto& layer) { return layer.times.empty(); });
  if (graph.layers.empty() || !profiled) return;
  const int64_t examples = report.assignment.examples;
  auto whole = strategy.made_for(graph, report.cluster);
  whole.shape = report.shape;
  report.predicted = simulator::EventSimulation(graph, report.cluster, {}, examples).estimate(whole);
  report.missing_memory = plan::missing_memory(report.shape, graph, report.cluster, examples, 0);
}

ShapeReport report_shape(const ModelOutline& outline, const std::string& strategy,
                         const cluster::Cluster& cluster, const strategy::Shape& shape, int64_t examples) {
  strategy::validate(shape, static_cast<int>(outline.layers.size()), cluster, examples);
  ShapeReport report{
      outline.model, strategy, cluster, shape, plan::assign(shape, examples), {}, {}, {}, {}, {}};
  for (const std::string& name : outline.layers) report.layers.push_back({name, 0});
  std::istringstream drawn(plan::draw(plan::make_passes(shape, report.assignment)));
  std::vector<std::vector<std::string>> passes;
  for (std::string line; std::getline(drawn, line);) passes.push_back(words_of(line));
  for (const int rank : cluster.worker_ranks()) {
    const auto place = static_cast<size_t>(rank);
    report.ranks.push_back({rank, 0, work_of(rank, shape, report.assignment),
                            place < passes.size() ? passes[place] : std::vector<std::string>()});
  }
  std::map<std::vector<int>, size_t> group_of;
  for (const auto& parameter : outline.parameters) {
    const auto ranks = holders_of(parameter, shape, cluster);
    const auto [found, is_new] = group_of.emplace(ranks, report.groups.size());
    if (is_new) report.groups.push_back({ranks, {}, 0, 0});
    ShapeReport::Group& group = report.groups[found->second];
    group.layers.insert(group.layers.end(), parameter.layers.begin(), parameter.layers.end());
    ++group.variables;
    group.bytes += parameter.bytes;
    for (const int layer : parameter.layers) {
      report.layers[static_cast<size_t>(layer)].parameter_bytes += parameter.bytes;
    }
    for (auto& rank : report.ranks) {
      if (std::binary_search(ranks.begin(), ranks.end(), rank.rank)) rank.parameter_bytes += parameter.bytes;
    }
  }
  for (auto& group : report.groups) {
    std::sort(group.layers.begin(), group.layers.end());
    group.layers.erase(std::unique(group.layers.begin(), group.layers.end()), group.layers.end());
  }
  return report;
}

std::string to_text(const ShapeReport& report) {
  std::string text = head_text(report);
  std::istringstream drawn(strategy::draw(report.shape, report.cluster));
  size_t lines = 0;
  for (std::string line; std::getline(drawn, line);) {
    if (lines++ <= kRanksShown) text += "  " + line + "\n";
  }
  text += and_more(report.ranks.size(), kRanksShown, "ranks");
  const auto shown = std::min(report.ranks.size(), kRanksShown);
  text += fmt::format("\n  {:>4}  {:>10}  computes per update\n", "rank", "parameters");
  for (size_t i = 0; i < shown; ++i) {
    const auto& rank = report.ranks[i];
    text +=
        fmt::format("  {:>4}  {:>10}  {}\n", rank.rank,
                    format_bytes(static_cast<double>(rank.parameter_bytes)), work_text(rank, report.shape));
  }
  text +=
      "\n  passes (F0/1: forward of micro-batch 0 through cell 1; B: backward; R: backward that "
      "recomputes)\n";
  for (size_t i = 0; i < shown; ++i) {
    if (!report.ranks[i].passes.empty()) text += passes_text(report.ranks[i]) + "\n";
  }
  text += "\n  gradients are synchronized\n";
  for (size_t i = 0; i < std::min(report.groups.size(), kGroupsShown); ++i) {
    text += group_text(report.groups[i]);
  }
  text += and_more(report.groups.size(), kGroupsShown, "groups of ranks");
  text += prediction_text(report);
  if (!report.missing_memory.empty()) text += fmt::format("  too little memory: {}\n", report.missing_memory);
  return text;
}

json to_json(const ShapeReport& report) {
  json layers = json::array(), ranks = json::array(), groups = json::array();
  for (const auto& layer : report.layers) {
    layers.push_back({{"name", layer.name}, {"parameter_bytes", layer.parameter_bytes}});
  }
  for (const auto& rank : report.ranks) ranks.push_back(rank_json(rank, report));
  for (const auto& group : report.groups) {
    groups.push_back({{"ranks", group.ranks},
                      {"layers", group.layers},
                      {"variables", group.variables},
                      {"bytes", group.bytes}});
  }
  return {{"strategy", report.strategy},
          {"model", report.model},
          {"cluster", report.cluster.name},
          {"shape", strategy::to_text(report.shape)},
          {"layers", layers},
          {"global_batch", report.assignment.examples},
          {"micro_batches", micro_batches_json(report.assignment)},
          {"ranks", ranks},
          {"synchronized", groups},
          {"simulated", prediction_json(report)},
          {"missing_memory", report.missing_memory.empty() ? json() : json(report.missing_memory)}};
}

}  // namespace entrain::app
