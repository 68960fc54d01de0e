// Ranking accuracy: AutoSync's Tables 1 and 2.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "entrain/report/svg.h"
#include "experiments/experiment_report.h"
#include "experiments/experiment_table.h"

namespace entrain::app {
namespace {

using Json = nlohmann::ordered_json;
using simulator::MeanStd;

// Accuracy by group (models, or clusters) and simulator.
struct Grouped {
  std::vector<std::string> groups;
  std::map<std::string, std::map<std::string, MeanStd>> cells;  // [group][simulator]
};

Grouped grouped(const simulator::Evaluation& evaluation, const dataset::Dataset& data, GroupOf group_of) {
  const auto group_name = group_by_domain(data, group_of);
  std::map<std::string, std::map<std::string, SeedMeans>> sums;
  for (const auto& cell : evaluation.cells)
    sums[group_name.at(cell.domain)][cell.simulator].add(cell.accuracy);
  Grouped result{groups(data, group_of), {}};
  for (const auto& [group, by_simulator] : sums) {
    for (const auto& [name, means] : by_simulator) result.cells[group][name] = means.summary();
  }
  return result;
}

std::string grouped_table(const std::string& corner, Grouped& table_of,
                          const std::vector<std::string>& simulators) {
  std::vector<TableRow> rows;
  for (const auto& group : table_of.groups) {
    rows.push_back({group, {}});
    for (const auto& name : simulators) rows.back().cells.push_back(shown(table_of.cells[group][name]));
  }
  return table(corner, simulators, rows);
}

Json grouped_json(Grouped& table_of, const std::vector<std::string>& simulators) {
  Json json = Json::object();
  for (const auto& group : table_of.groups) {
    for (const auto& name : simulators) json[group][name] = to_json(table_of.cells[group][name]);
  }
  return json;
}

std::string grouped_chart(const std::string& title, Grouped& table_of,
                          const std::vector<std::string>& simulators,
                          const simulator::Evaluation& evaluation) {
  report::BarChart chart;
  chart.title = title;
  chart.y_label = "pairs ordered right";
  chart.high = 1;
  chart.references = {{"guessing", 0.5}};
  chart.groups = table_of.groups;
  chart.groups.emplace_back("all");
  for (const auto& name : simulators) {
    report::BarSeries series{name, {}, {}};
    for (const auto& group : table_of.groups) {
      series.values.push_back(table_of.cells[group][name].mean);
      series.errors.push_back(table_of.cells[group][name].std);
    }
    series.values.push_back(evaluation.overall(name).mean);
    series.errors.push_back(evaluation.overall(name).std);
    chart.series.push_back(std::move(series));
  }
  return report::bar_chart(chart);
}

std::string domains_map(const simulator::Evaluation& evaluation, const dataset::Dataset& data,
                        const std::vector<std::string>& simulators) {
  report::HeatMap map;
  map.title = "Ranking accuracy in every domain";
  map.x_label = "simulator";
  map.y_label = "domain";
  map.columns = simulators;
  map.low = 0.5;
  for (const auto& domain : data.domains) map.rows.push_back(domain.name);
  map.values.assign(map.rows.size(), std::vector<double>(simulators.size(), NAN));
  map.errors = map.values;
  for (const auto& cell : evaluation.cells) {
    const auto row =
        static_cast<size_t>(std::find(map.rows.begin(), map.rows.end(), cell.domain) - map.rows.begin());
    const auto column = static_cast<size_t>(std::find(simulators.begin(), simulators.end(), cell.simulator) -
                                            simulators.begin());
    map.values.at(row).at(column) = cell.summary().mean;
    map.errors.at(row).at(column) = cell.summary().std;
  }
  return report::heat_map(map);
}

}  // namespace

ExperimentReport ranking_report(const simulator::Evaluation& evaluation, const dataset::Dataset& data,
                                const std::vector<std::string>& simulators) {
  Grouped models = grouped(evaluation, data, model_of), clusters = grouped(evaluation, data, cluster_of);
  ExperimentReport report;
  std::vector<TableRow> overall = {{"all domains", {}}};
  Json cells = Json::array(), errors = Json::array(), means = Json::object();
  for (const auto& name : simulators) {
    overall[0].cells.push_back(shown(evaluation.overall(name)));
    means[name] = to_json(evaluation.overall(name));
  }
  for (const auto& cell : evaluation.cells) {
    Json entry = {
        {"simulator", cell.simulator}, {"domain", cell.domain}, {"by_seed", to_json(cell.accuracy)}};
    entry.update(to_json(cell.summary()));
    cells.push_back(std::move(entry));
  }
  std::vector<double> known;
  for (const auto& [domain, error] : evaluation.event_error) {
    errors.push_back({{"domain", domain}, {"median_relative_error", error}});
    if (std::isfinite(error)) known.push_back(error);
  }
  const double error = known.empty() ? NAN : simulator::mean_std(known).mean;
  report.text =
      grouped_table("model", models, simulators) + "\n" + grouped_table("cluster", clusters, simulators) +
      "\n" + table("", simulators, overall) +
      fmt::format("event simulation's step time: off by {:.1f}% (median of a domain, mean of domains)\n",
                  100 * error);
  report.document = {{"experiment", "ranking"},
                     {"overall", means},
                     {"models", grouped_json(models, simulators)},
                     {"clusters", grouped_json(clusters, simulators)},
                     {"domains", cells},
                     {"event_error", errors}};
  report.pictures = {
      {"ranking-models", grouped_chart("Ranking accuracy by model", models, simulators, evaluation)},
      {"ranking-clusters", grouped_chart("Ranking accuracy by cluster", clusters, simulators, evaluation)},
      {"ranking-domains", domains_map(evaluation, data, simulators)}};
  return report;
}

}  // namespace entrain::app
