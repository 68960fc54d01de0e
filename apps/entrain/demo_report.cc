#include "demo_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/base/quantile.h"
#include "entrain/base/units.h"

namespace entrain::app {
namespace {

struct Row {
  std::string name;
  double median, p10, p90;
  plan::LinkBound bound;
  std::string shape;
};

// Fastest first.
std::vector<Row> sorted(const DemoResult& result) {
  std::vector<Row> rows;
  for (const DemoRow& r : result.rows) {
    rows.push_back({r.name, median(r.step_times), quantile(r.step_times, 0.1), quantile(r.step_times, 0.9),
                    r.bound, r.shape});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.median < b.median; });
  return rows;
}

// The one that the others are compared with.
const Row& reference(const std::vector<Row>& rows, const DemoResult& result) {
  for (const std::string& name : {std::string("ddp"), std::string("allreduce"), result.rows.front().name}) {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
    if (found != rows.end()) return *found;
  }
  return rows.front();
}

// Those that cannot be told from the fastest: their steps overlap, p10 to p90.
std::vector<std::string> within_noise(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].p10 <= rows.front().p90) names.push_back(rows[i].name);
  }
  return names;
}

// "198.18.0.2 sends 134.6 MB per step at 1 Gbit/s: at least 1.08 s"
std::string explain(const plan::LinkBound& bound, const cluster::Cluster& cluster) {
  const double gbit = cluster.hosts[bound.host].bandwidth_gbit;
  return fmt::format("{} {} {} per step at {:g} Gbit/s: at least {}", cluster.hosts[bound.host].address,
                     bound.sending ? "sends" : "receives", format_bytes(bound.seconds * gbit * 1e9 / 8), gbit,
                     format_seconds(bound.seconds));
}

// "1.82 .. 1.88 s": the unit once, where both have the same.
std::string range(double low, double high) {
  std::string first = format_seconds(low);
  const std::string last = format_seconds(high);
  const size_t space = first.rfind(' ');
  if (last.ends_with(first.substr(space)) && first.find(' ') == space) first.resize(space);
  return fmt::format("{} .. {}", first, last);
}

// 80 columns.
std::string table(const std::vector<Row>& rows, const Row& against, bool links,
                  const cluster::Cluster& cluster) {
  const std::string compared = "vs " + against.name;
  const size_t wide = std::max<size_t>(6, compared.size());
  std::string text =
      fmt::format("\n{:<21} {:>8}  {:<16} {:>{}}", "strategy", "step", "p10 .. p90", compared, wide);
  text += links ? fmt::format(" {:>7}  {}\n", "bound", "busiest link") : "\n";
  for (const Row& row : rows) {
    text += fmt::format("{:<21} {:>8}  {:<16} {:>{}}", row.name, format_seconds(row.median),
                        range(row.p10, row.p90), fmt::format("{:.2f}x", against.median / row.median), wide);
    if (links && row.shape.empty()) {
      text += fmt::format(" {:>7}  {} {}", format_seconds(row.bound.seconds),
                          cluster.hosts[row.bound.host].address, row.bound.sending ? "out" : "in");
    }
    text += "\n";
  }
  for (const Row& row : rows) {
    if (!row.shape.empty()) text += fmt::format("{}: shape {}\n", row.name, row.shape);
  }
  text += fmt::format(
      "vs {}: {}'s step time over the strategy's; above 1 is faster.{}\n", against.name, against.name,
      links ? " bound: the least\ntime that the busiest link allows, out of or into its host." : "");
  return text;
}

// The bytes that cross the binding link explain the order: time >= bytes / bandwidth.
std::string reason(const std::vector<Row>& rows, const Row& against, double best_bound_s,
                   const cluster::Cluster& cluster) {
  const Row& best = rows.front();
  const auto near = within_noise(rows);
  std::string text = "\n";
  if (near.empty()) {
    text += fmt::format("This cluster prefers {}: {} per step.", best.name, format_seconds(best.median));
  } else {
    text += fmt::format("No clear winner: {}, {} within noise (spread {:.0f}%).", best.name,
                        fmt::join(near, ", "), 100 * (best.p90 - best.p10) / best.median);
  }
  if (best_bound_s <= 0) {
    return text + "\nAll ranks are on this machine: no link limits them, so this says little of a network.\n";
  }
  text += best.shape.empty()
              ? fmt::format(" Busiest link of {}: {}.\n", best.name, explain(best.bound, cluster))
              : "\nIts layers stay on their hosts, so that few gradients travel, or none.\n";
  const bool loses = near.empty() || std::find(near.begin(), near.end(), against.name) == near.end();
  if (loses && against.name != best.name) {
    text += fmt::format("{} takes {:.2f}x as long: {}.\n", against.name, against.median / best.median,
                        explain(against.bound, cluster));
  }
  return text +
         fmt::format(
             "With all layers on every rank, no strategy can be faster than {} on these links without\n"
             "compressing gradients.\n",
             format_seconds(best_bound_s));
}

}  // namespace

nlohmann::json demo_json(const DemoResult& result, const cluster::Cluster& cluster) {
  nlohmann::json json = {{"model", result.model},
                         {"cluster", cluster.name},
                         {"batch_size", result.batch_size},
                         {"link_bound_best_s", result.best_bound_s},
                         {"interrupted", result.interrupted},
                         {"strategies", nlohmann::json::array()}};
  if (result.rows.empty()) return json;
  const auto rows = sorted(result);
  const Row& against = reference(rows, result);
  json["reference"] = against.name;
  json["within_noise"] = within_noise(rows);
  for (const Row& row : rows) {
    json["strategies"].push_back({{"strategy", row.name},
                                  {"step_time_median_s", row.median},
                                  {"step_time_p10_s", row.p10},
                                  {"step_time_p90_s", row.p90},
                                  {"speed_vs_reference", against.median / row.median},
                                  {"link_bound_s", row.bound.seconds}});
    if (!row.shape.empty()) json["strategies"].back()["shape"] = row.shape;
  }
  return json;
}

std::string demo_text(const DemoResult& result, const cluster::Cluster& cluster) {
  if (result.rows.empty()) return "Interrupted before any step was measured.\n";
  const auto rows = sorted(result);
  const Row& against = reference(rows, result);
  std::string text = table(rows, against, result.best_bound_s > 0, cluster);
  if (rows.size() > 1) text += reason(rows, against, result.best_bound_s, cluster);
  if (result.interrupted) text += "Interrupted: strategies are missing, or have fewer steps.\n";
  const std::string job =
      fmt::format("--model {} --cluster {} --batch-size {}", result.model, cluster.name, result.batch_size);
  const Row& best = rows.front();
  text +=
      fmt::format("\nNext:\n  entrain train {} {}\n", job,
                  best.shape.empty() ? "--strategy " + best.name : fmt::format("--shape '{}'", best.shape));
  return text + fmt::format("  entrain tune {} --out tune   # may find a faster one\n", job);
}

}  // namespace entrain::app
