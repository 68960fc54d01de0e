// Transfer: AutoSync's Table 3.
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

struct Matrix {
  std::string title, name;  // of the picture, and of its file
  std::vector<std::string> names;
  std::map<std::string, std::map<std::string, SeedMeans>> cells;  // [source][target]
};

std::string matrix_map(Matrix& matrix) {
  report::HeatMap map;
  map.title = matrix.title;
  map.x_label = "tested on";
  map.y_label = "trained on";
  map.low = 0.5;
  map.rows = map.columns = matrix.names;
  for (const auto& source : matrix.names) {
    map.values.emplace_back();
    map.errors.emplace_back();
    for (const auto& target : matrix.names) {
      const MeanStd value = matrix.cells[source][target].summary();
      map.values.back().push_back(value.mean);
      map.errors.back().push_back(value.std);
    }
  }
  return report::heat_map(map);
}

Json matrix_json(Matrix& matrix) {
  Json json = Json::object();
  for (const auto& source : matrix.names) {
    for (const auto& target : matrix.names) {
      if (!matrix.cells[source][target].empty())
        json[source][target] = to_json(matrix.cells[source][target].summary());
    }
  }
  return json;
}

// Domain by domain, by model (on any clusters), and by cluster (of the same model).
std::vector<Matrix> matrices(const std::vector<simulator::TransferCell>& cells, const dataset::Dataset& data,
                             int target_trials) {
  const std::string trials =
      target_trials == 0 ? "no trials of the target" : fmt::format("{} trials of the target", target_trials);
  const std::string suffix = target_trials == 0 ? "" : "-few";
  Matrix domains{"Transfer between domains, " + trials, "transfer-domains" + suffix, {}, {}};
  Matrix models{"Transfer between models, " + trials, "transfer-models" + suffix, groups(data, model_of), {}};
  Matrix clusters{"Transfer between clusters (same model), " + trials,
                  "transfer-clusters" + suffix,
                  groups(data, cluster_of),
                  {}};
  for (const auto& domain : data.domains) domains.names.push_back(domain.name);
  const auto model = group_by_domain(data, model_of), cluster = group_by_domain(data, cluster_of);
  for (const auto& cell : cells) {
    if (cell.target_trials != target_trials) continue;
    domains.cells[cell.source][cell.target].add(cell.accuracy);
    models.cells[model.at(cell.source)][model.at(cell.target)].add(cell.accuracy);
    if (model.at(cell.source) == model.at(cell.target)) {
      clusters.cells[cluster.at(cell.source)][cluster.at(cell.target)].add(cell.accuracy);
    }
  }
  return {domains, models, clusters};
}

struct Sources {
  std::vector<std::string> names;
  std::vector<int> trials;
  std::map<std::string, std::map<int, SeedMeans>> cells;
};

Sources sum_up(const std::vector<simulator::TransferCell>& cells) {
  Sources sources;
  for (const auto& cell : cells) {
    sources.names.push_back(cell.source);
    if (std::find(sources.trials.begin(), sources.trials.end(), cell.target_trials) == sources.trials.end()) {
      sources.trials.push_back(cell.target_trials);
    }
    sources.cells[cell.source][cell.target_trials].add(cell.accuracy);
  }
  sources.names = distinct(sources.names);
  std::sort(sources.trials.begin(), sources.trials.end());
  return sources;
}

std::string trials_name(int trials) {
  return trials == 0 ? "zero-shot" : fmt::format("{} target trials", trials);
}

std::string sources_chart(Sources& sources) {
  report::BarChart chart;
  chart.title = "Transfer: what a ranker was trained on";
  chart.y_label = "pairs ordered right";
  chart.high = 1;
  chart.references = {{"enough to guide a search", 0.7}};
  chart.groups = sources.names;
  for (const int trials : sources.trials) {
    report::BarSeries series{trials_name(trials), {}, {}};
    for (const auto& name : sources.names) {
      const MeanStd value = sources.cells[name][trials].summary();
      series.values.push_back(value.mean);
      series.errors.push_back(value.std);
    }
    chart.series.push_back(std::move(series));
  }
  return report::bar_chart(chart);
}

}  // namespace

ExperimentReport transfer_report(const std::vector<simulator::TransferCell>& sources,
                                 const std::vector<simulator::TransferCell>& matrix,
                                 const dataset::Dataset& data) {
  ExperimentReport report;
  Sources summed = sum_up(sources);
  std::vector<std::string> columns;
  for (const int trials : summed.trials) columns.push_back(trials_name(trials));
  std::vector<TableRow> rows;
  Json overall = Json::object(), cells = Json::array();
  for (const auto& name : summed.names) {
    rows.push_back({name, {}});
    for (const int trials : summed.trials) {
      rows.back().cells.push_back(shown(summed.cells[name][trials].summary()));
      overall[name][trials_name(trials)] = to_json(summed.cells[name][trials].summary());
    }
  }
  for (const auto& cell : sources) {
    Json entry = {{"source", cell.source},
                  {"target", cell.target},
                  {"target_trials", cell.target_trials},
                  {"by_seed", to_json(cell.accuracy)}};
    entry.update(to_json(cell.summary()));
    cells.push_back(std::move(entry));
  }
  report.text = table("trained on", columns, rows);
  report.document = {{"experiment", "transfer"}, {"overall", overall}, {"cells", cells}};
  report.pictures = {{"transfer", sources_chart(summed)}};
  std::vector<int> trials;
  for (const auto& cell : matrix) {
    if (std::find(trials.begin(), trials.end(), cell.target_trials) == trials.end())
      trials.push_back(cell.target_trials);
  }
  for (const int count : trials) {
    for (Matrix& one : matrices(matrix, data, count)) {
      report.document["matrices"][one.name] = matrix_json(one);
      report.pictures.push_back({one.name, matrix_map(one)});
    }
  }
  return report;
}

}  // namespace entrain::app
