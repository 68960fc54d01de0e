// Searches: AutoSync's Figures 2 and 3.
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

report::LineSeries line_of(const tuner::Curves& curves, const std::vector<MeanStd>& values) {
  report::LineSeries line{curves.mode, curves.k, {}, {}};
  for (const MeanStd& value : values) {
    line.mean.push_back(value.mean);
    line.std.push_back(value.std);
  }
  return line;
}

Json curve_json(const std::vector<MeanStd>& values) {
  std::vector<double> means, stds;
  for (const MeanStd& value : values) {
    means.push_back(value.mean);
    stds.push_back(value.std);
  }
  return {{"mean", to_json(means)}, {"std", to_json(stds)}};
}

// Where the table looks at the curves: 10, 25, 50, 100, 200, and their end.
std::vector<size_t> milestones(size_t length) {
  std::vector<size_t> at;
  for (const size_t k : {10, 25, 50, 100, 200}) {
    if (k < length) at.push_back(k);
  }
  at.push_back(length);
  return at;
}

std::string search_table(const std::vector<const tuner::Curves*>& modes) {
  size_t longest = 0;
  for (const auto* curves : modes) longest = std::max(longest, curves->k.size());
  std::vector<std::string> columns = {"tunes", "speed-up"};
  const auto at = milestones(longest);
  for (const size_t k : at) columns.push_back(fmt::format("improvement@{}", k));
  for (const size_t k : at) columns.push_back(fmt::format("hit rate@{}", k));
  std::vector<TableRow> rows;
  for (const auto* curves : modes) {
    rows.push_back({curves->mode, {fmt::format("{}", curves->runs), shown(curves->speedup, 2)}});
    for (const auto* values : {&curves->improvement, &curves->hit_rate}) {
      for (const size_t k : at)
        rows.back().cells.push_back(k <= values->size() && k > 0 ? shown((*values)[k - 1], 2) : "-");
    }
  }
  return table("mode", columns, rows);
}

}  // namespace

ExperimentReport search_report(const std::vector<tuner::Curves>& all) {
  ExperimentReport report;
  report.document = {{"experiment", "search"}, {"domains", Json::object()}};
  std::vector<std::string> domains;
  for (const auto& curves : all) domains.push_back(curves.domain);
  for (const auto& domain : distinct(domains)) {
    std::vector<const tuner::Curves*> modes;
    report::LineChart improvement{"Improvement over the best builder: " + domain,
                                  "trials",
                                  "times faster",
                                  {},
                                  {{"best builder", 1}},
                                  {},
                                  {}};
    report::LineChart hits{
        "Hit rate: " + domain, "trials", "share that beats the best builder", {}, {}, 0, 1};
    for (const auto& curves : all) {
      if (curves.domain != domain) continue;
      modes.push_back(&curves);
      improvement.series.push_back(line_of(curves, curves.improvement));
      hits.series.push_back(line_of(curves, curves.hit_rate));
      report.document["domains"][domain][curves.mode] = {{"tunes", curves.runs},
                                                         {"speedup", to_json(curves.speedup)},
                                                         {"trials", to_json(curves.k)},
                                                         {"improvement", curve_json(curves.improvement)},
                                                         {"hit_rate", curve_json(curves.hit_rate)}};
    }
    report.text += domain + "\n" + search_table(modes) + "\n";
    report.pictures.push_back({"improvement-" + file_name(domain), report::line_chart(improvement)});
    report.pictures.push_back({"hit-rate-" + file_name(domain), report::line_chart(hits)});
  }
  return report;
}

}  // namespace entrain::app
