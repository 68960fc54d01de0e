// Ranking accuracy in every domain, and transfer between domains: tables, JSON, plots.
#include "experiments/simulator_experiments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/report/svg.h"
#include "entrain/simulator/evaluation/evaluation.h"
#include "entrain/simulator/learned/registry.h"
#include "experiments/evaluation_setup.h"

namespace entrain::app {
namespace {

using nlohmann::json;
using simulator::MeanStd;

std::string shown(const MeanStd& m) {
  return std::isnan(m.mean) ? "-" : fmt::format("{:.3f} ±{:.3f}", m.mean, m.std);
}

json number(double value) { return std::isnan(value) ? json() : json(value); }

json to_json(const MeanStd& m) { return {{"mean", number(m.mean)}, {"std", number(m.std)}}; }

json numbers(const std::vector<double>& values) {
  json list = json::array();
  for (const double v : values) list.push_back(number(v));
  return list;
}

// With --out: NAME.json and NAME.svg in that folder.
void write_out(const SimulatorCommand& command, const std::string& name, const json& document,
               const std::string& svg) {
  if (command.json_output) fmt::print("{}\n", document.dump(2));
  if (command.out.empty()) return;
  make_folders(command.out);
  const std::filesystem::path folder = command.out;
  write_file_atomically(folder / (name + ".json"), document.dump(2) + "\n");
  write_file_atomically(folder / (name + ".svg"), svg);
  fmt::print(stderr, "written to {}/{}.json and .svg\n", command.out, name);
}

// A table whose first column is as wide as its longest name.
void print_table(const std::string& corner, const std::vector<std::string>& columns,
                 const std::vector<std::pair<std::string, std::vector<std::string>>>& rows) {
  size_t first = corner.size(), width = 12;
  for (const auto& [name, cells] : rows) {
    first = std::max(first, name.size());
    for (const auto& cell : cells) width = std::max(width, cell.size());
  }
  for (const auto& column : columns) width = std::max(width, column.size());
  fmt::print("{:<{}}", corner, first);
  for (const auto& column : columns) fmt::print("  {:>{}}", column, width);
  fmt::print("\n");
  for (const auto& [name, cells] : rows) {
    fmt::print("{:<{}}", name, first);
    for (const auto& cell : cells) fmt::print("  {:>{}}", cell, width);
    fmt::print("\n");
  }
}

std::string accuracy_chart(const simulator::Evaluation& evaluation,
                           const std::vector<std::string>& simulators, const dataset::Dataset& data) {
  report::BarChart chart;
  chart.title = "Ranking accuracy on test pairs";
  chart.y_label = "pairs ordered right";
  chart.low = 0.4;
  chart.high = 1;
  chart.references = {{"untrained target", 0.85}, {"trained target", 0.90}};
  for (const auto& domain : data.domains) chart.groups.push_back(domain.name);
  chart.groups.emplace_back("mean");
  for (const auto& name : simulators) {
    report::BarSeries series{name, {}, {}};
    for (const auto& cell : evaluation.cells) {
      if (cell.simulator != name) continue;
      series.values.push_back(cell.summary().mean);
      series.errors.push_back(cell.summary().std);
    }
    series.values.push_back(evaluation.overall(name).mean);
    series.errors.push_back(evaluation.overall(name).std);
    chart.series.push_back(std::move(series));
  }
  return report::bar_chart(chart);
}

// Rows are targets, columns sources; `trials` of the target.
std::string transfer_map(const std::vector<simulator::TransferCell>& cells, int trials,
                         const std::string& title) {
  report::HeatMap map;
  map.title = title;
  map.x_label = "trained on";
  map.y_label = "tested on";
  map.low = 0.5;
  for (const auto& cell : cells) {
    if (cell.target_trials != trials) continue;
    if (std::find(map.rows.begin(), map.rows.end(), cell.target) == map.rows.end())
      map.rows.push_back(cell.target);
    if (std::find(map.columns.begin(), map.columns.end(), cell.source) == map.columns.end()) {
      map.columns.push_back(cell.source);
    }
  }
  map.values.assign(map.rows.size(), std::vector<double>(map.columns.size(), std::nan("")));
  for (const auto& cell : cells) {
    if (cell.target_trials != trials) continue;
    const auto row = std::find(map.rows.begin(), map.rows.end(), cell.target) - map.rows.begin();
    const auto column = std::find(map.columns.begin(), map.columns.end(), cell.source) - map.columns.begin();
    map.values[static_cast<size_t>(row)][static_cast<size_t>(column)] = cell.summary().mean;
  }
  return report::heat_map(map);
}

}  // namespace

dataset::Dataset load_data(const SimulatorCommand& command) {
  dataset::Dataset data = chosen_domains(dataset::load(command.data), command.only);
  if (data.domains.empty()) {
    bad_input("--data {}{}: no domain in it", command.data,
              command.only.empty() ? "" : fmt::format(" with --only {}", fmt::join(command.only, ",")));
  }
  return data;
}

void check_ranker_names(const std::vector<std::string>& names, const std::vector<std::string>& allowed) {
  for (const auto& name : names) {
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      bad_input("--ranker {}; allowed: {}", name, fmt::join(allowed, ", "));
    }
  }
}

std::vector<std::string> learning_rankers() {
  const auto names = simulator::ranker_names();
  return {names.begin(), names.end()};
}

int evaluate_simulators(const SimulatorCommand& command) {
  const auto simulators = command.rankers.empty() ? all_simulators() : command.rankers;
  check_ranker_names(simulators, all_simulators());
  const auto data = load_data(command);
  const auto prepared = simulator::prepared_domains(data);
  const auto evaluation = simulator::evaluate(prepared, simulators, evaluation_options(command, "simulator"));
  json document = {{"experiment", "ranking accuracy"}, {"data", command.data},
                   {"records", data.records()},        {"seeds", command.seeds},
                   {"margin", command.margin},         {"epochs", command.learn.epochs},
                   {"overall", json::object()},        {"domains", json::array()}};
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  std::vector<std::string> columns = simulators;
  columns.emplace_back("event error");
  for (size_t d = 0; d < data.domains.size(); ++d) {
    rows.push_back({data.domains[d].name, {}});
    json entry = {{"domain", data.domains[d].name},
                  {"trials", prepared[d].trials.size()},
                  {"event_median_error", number(evaluation.event_error[d].second)},
                  {"accuracy", json::object()}};
    for (const auto& cell : evaluation.cells) {
      if (cell.domain != data.domains[d].name) continue;
      rows.back().second.push_back(shown(cell.summary()));
      entry["accuracy"][cell.simulator] = to_json(cell.summary());
      entry["accuracy"][cell.simulator]["by_seed"] = numbers(cell.accuracy);
    }
    rows.back().second.push_back(fmt::format("{:.1f}%", 100 * evaluation.event_error[d].second));
    document["domains"].push_back(std::move(entry));
  }
  rows.push_back({"mean of all", {}});
  for (const auto& name : simulators) {
    rows.back().second.push_back(shown(evaluation.overall(name)));
    document["overall"][name] = to_json(evaluation.overall(name));
  }
  std::vector<double> errors;
  for (const auto& [domain, error] : evaluation.event_error) {
    if (!std::isnan(error)) errors.push_back(error);
  }
  document["event_median_error"] = number(simulator::mean_std(errors).mean);
  rows.back().second.push_back(fmt::format("{:.1f}%", 100 * simulator::mean_std(errors).mean));
  if (!command.json_output) print_table("domain", columns, rows);
  write_out(command, "ranking_accuracy", document, accuracy_chart(evaluation, simulators, data));
  return 0;
}

int transfer_rankers(const SimulatorCommand& command) {
  check_ranker_names(command.rankers, learning_rankers());
  if (command.rankers.size() != 1)
    bad_input("--ranker names {} rankers; allowed: one", command.rankers.size());
  const auto data = load_data(command);
  const auto prepared = simulator::prepared_domains(data);
  if (data.domains.size() < 2) bad_input("--data {}: one domain only; allowed: two or more", command.data);
  const std::string& name = command.rankers.front();
  auto options = evaluation_options(command, "simulator");
  using simulator::Source;
  const auto cells =
      command.matrix ? simulator::transfer_matrix(prepared, name, command.target_trials, options)
                     : simulator::transfer(
                           prepared, name,
                           {Source::kNothing, Source::kOtherClusters, Source::kOtherModels, Source::kOthers},
                           command.target_trials, options);
  options.progress = nullptr;  // ends the bar
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  std::map<std::string, std::vector<double>> by_column;
  json document = {{"experiment", "transfer"},  {"ranker", name},
                   {"data", command.data},      {"seeds", command.seeds},
                   {"margin", command.margin},  {"target_trials", command.target_trials},
                   {"overall", json::object()}, {"cells", json::array()}};
  const auto column_of = [](const simulator::TransferCell& cell) {
    return cell.target_trials > 0 ? fmt::format("{} +{}", cell.source, cell.target_trials) : cell.source;
  };
  for (const auto& domain : data.domains) {
    rows.push_back({domain.name, {}});
    for (const auto& cell : cells) {
      if (cell.target != domain.name) continue;
      const std::string column = column_of(cell);
      if (rows.size() == 1) columns.push_back(column);
      rows.back().second.push_back(shown(cell.summary()));
      if (!std::isnan(cell.summary().mean)) by_column[column].push_back(cell.summary().mean);
      document["cells"].push_back({{"source", cell.source},
                                   {"target", cell.target},
                                   {"target_trials", cell.target_trials},
                                   {"accuracy", to_json(cell.summary())},
                                   {"by_seed", numbers(cell.accuracy)}});
    }
  }
  rows.push_back({"mean (± over domains)", {}});
  for (const auto& column : columns) {
    const bool known = !by_column[column].empty();
    const MeanStd m = known ? simulator::mean_std(by_column[column]) : MeanStd{std::nan(""), 0};
    rows.back().second.push_back(shown(m));
    document["overall"][column] = to_json(m);
  }
  if (!command.json_output) print_table("tested on", columns, rows);
  write_out(command, command.matrix ? "transfer_matrix" : "transfer", document,
            transfer_map(cells, 0, fmt::format("Transfer of {}, no target trials", name)));
  if (command.target_trials > 0 && !command.out.empty()) {
    write_file_atomically(
        std::filesystem::path(command.out) / "transfer_few.svg",
        transfer_map(cells, command.target_trials,
                     fmt::format("Transfer of {}, {} target trials", name, command.target_trials)));
  }
  return 0;
}

}  // namespace entrain::app
