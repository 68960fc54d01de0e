#include "strategies/what_if_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "entrain/base/units.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::app {
namespace {

using nlohmann::json;
using tuner::Choice;
using tuner::WhatIf;
using tuner::WhatIfPoint;
using tuner::WhatIfStep;

constexpr double kNoticeable = 1.02;  // smaller differences are the simulation's
constexpr size_t kShapeShown = 36;

std::string rate_text(double gbit) {
  return gbit < 1 ? fmt::format("{:g} Mbit/s", 1000 * gbit) : fmt::format("{:g} Gbit/s", gbit);
}

std::string link_text(const cluster::Cluster& cluster) {
  const double slowest = tuner::slowest_link_gbit(cluster);
  double fastest = slowest;
  for (const auto& host : cluster.hosts) {
    if (!host.server_only()) fastest = std::max(fastest, host.bandwidth_gbit);
  }
  return fastest > slowest ? fmt::format("{:g} to {:g} Gbit/s", slowest, fastest) : rate_text(slowest);
}

std::string hosts_text(int hosts) { return fmt::format("{} host{}", hosts, hosts == 1 ? "" : "s"); }

// "allreduce" of "@0-3 allreduce".
std::string builder_of(const Choice& choice) {
  const size_t space = choice.strategy.id.rfind(' ');
  return space == std::string::npos ? choice.strategy.id : choice.strategy.id.substr(space + 1);
}

std::string shortened(const std::string& shape) {
  return shape.size() <= kShapeShown ? shape : shape.substr(0, kShapeShown - 3) + "...";
}

std::string binding(planner::Bound::Part part) {
  return part == planner::Bound::Part::kCompute ? "compute"
         : part == planner::Bound::Part::kChain ? "chain"
                                                : "links";
}

std::string row_text(const WhatIfPoint& point) {
  std::string row = fmt::format("{:>5}  {:>18}  {:>8}", tuner::training_hosts(point.cluster),
                                link_text(point.cluster), point.setting.examples);
  if (!point.best) return row + "  no shape that was found fits in memory\n";
  const double rate = point.examples_per_s(*point.best);
  const auto seconds = [](const std::optional<Choice>& choice) {
    return choice ? format_seconds(choice->seconds) : "-";
  };
  return row + fmt::format("  {:>9} {:>10}  {:>9}  {:>9}  {:>9} {:>5.2f}x  {}\n", seconds(point.best),
                           rate < 100 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate),
                           seconds(point.alone), seconds(point.data_parallel),
                           format_seconds(point.bound.seconds), point.best->seconds / point.bound.seconds,
                           shortened(strategy::to_text(*point.best->strategy.shape)));
}

json to_json(const std::optional<Choice>& choice, const WhatIfPoint& point) {
  if (!choice) return nullptr;
  json j = {{"shape", strategy::to_text(*choice->strategy.shape)},
            {"seconds", choice->seconds},
            {"examples_per_s", point.examples_per_s(*choice)},
            {"hosts_used", choice->hosts}};
  // Ranks that share no layer synchronize nothing.
  j["synchronized_by"] = choice->strategy.shape->most_replicas() > 1 ? json(builder_of(*choice)) : json();
  return j;
}

json to_json(const WhatIfPoint& point) {
  json j = {{"hosts", tuner::training_hosts(point.cluster)},
            {"ranks", point.cluster.workers()},
            {"slowest_link_gbit", tuner::slowest_link_gbit(point.cluster)},
            {"global_batch", point.setting.examples},
            {"best", to_json(point.best, point)},
            {"one_host", to_json(point.alone, point)},
            {"data_parallel", to_json(point.data_parallel, point)},
            {"bound_s", point.bound.seconds},
            {"binds", binding(point.bound.binds)},
            {"ratio", point.best ? json(point.best->seconds / point.bound.seconds) : json()}};
  j["vs_one_host"] = point.best && point.alone ? json(point.alone->seconds / point.best->seconds) : json();
  return j;
}

json to_json(const std::optional<WhatIfStep>& step) {
  if (!step) return nullptr;
  return {{"hosts", step->hosts}, {"slowest_link_gbit", step->gbit}, {"speedup", step->speedup}};
}

bool one_host_is_best(const WhatIfPoint& point) {
  return tuner::training_hosts(point.cluster) > 1 && point.best && point.best->hosts == 1;
}

const char* verdict(const WhatIfStep& links, const WhatIfStep& hosts) {
  if (std::max(links.speedup, hosts.speedup) < kNoticeable) return "neither helps";
  if (links.speedup > kNoticeable * hosts.speedup) return "faster links are the better buy";
  if (hosts.speedup > kNoticeable * links.speedup) return "more hosts are the better buy";
  return "both help equally";
}

}  // namespace

std::string better_buy(const WhatIf& found) {
  const auto& [links, hosts] = std::tie(found.faster_links, found.more_hosts);
  if (!links && !hosts) return "";
  std::string text = fmt::format(
      "from {} on {}, {} examples per update: ", hosts_text(tuner::training_hosts(found.base.cluster)),
      link_text(found.base.cluster), found.base.setting.examples);
  if (links) text += fmt::format("links of {} give {:.1f}x", rate_text(links->gbit), links->speedup);
  if (hosts) {
    text += fmt::format("{}{}{} {:.1f}x", links ? ", " : "", hosts_text(hosts->hosts), links ? "" : " give",
                        hosts->speedup);
  }
  return links && hosts ? fmt::format("{}: {}", text, verdict(*links, *hosts)) : text;
}

std::string where_one_host_is_best(const WhatIf& found) {
  using Place = std::tuple<int64_t, double, std::string>;  // examples, slowest link, as text
  std::map<Place, std::vector<int>> hosts;
  bool several_hosts = false, several_batches = false;
  for (const WhatIfPoint& point : found.points) {
    several_hosts = several_hosts || tuner::training_hosts(point.cluster) > 1;
    several_batches = several_batches || point.setting.examples != found.points.front().setting.examples;
    if (!one_host_is_best(point)) continue;
    const Place place{point.setting.examples, tuner::slowest_link_gbit(point.cluster),
                      link_text(point.cluster)};
    hosts[place].push_back(tuner::training_hosts(point.cluster));
  }
  if (!several_hosts) return "";
  if (hosts.empty()) return "one host alone is best nowhere here";
  std::vector<std::string> places;
  for (const auto& [place, counts] : hosts) {
    const auto& [examples, gbit, link] = place;
    places.push_back(fmt::format("{} with {} hosts{}", link, fmt::join(counts, ", "),
                                 several_batches ? fmt::format(" and {} examples", examples) : ""));
  }
  return fmt::format("one host alone is best on {}", fmt::join(places, "; on "));
}

std::string to_text(const WhatIfReport& report) {
  std::string text = fmt::format("{}, from {}: simulated; calibration: {}\n", report.model, report.cluster,
                                 report.calibration);
  text += fmt::format("{:>5}  {:>18}  {:>8}  {:>9} {:>10}  {:>9}  {:>9}  {:>9} {:>6}  {}\n", "hosts", "link",
                      "examples", "update", "examples/s", "one host", "data par.", "bound", "ratio",
                      "best shape");
  for (const WhatIfPoint& point : report.found.points) text += row_text(point);
  std::string conclusions;
  for (const std::string& sentence : {better_buy(report.found), where_one_host_is_best(report.found)}) {
    if (!sentence.empty()) conclusions += sentence + "\n";
  }
  return text + (conclusions.empty() ? "" : "\n" + conclusions);
}

json to_json(const WhatIfReport& report) {
  const WhatIf& found = report.found;
  json points = json::array(), one_host_best = json::array();
  for (const WhatIfPoint& point : found.points) {
    points.push_back(to_json(point));
    if (!one_host_is_best(point)) continue;
    one_host_best.push_back({{"hosts", tuner::training_hosts(point.cluster)},
                             {"slowest_link_gbit", tuner::slowest_link_gbit(point.cluster)},
                             {"global_batch", point.setting.examples}});
  }
  return {{"model", report.model},
          {"cluster", report.cluster},
          {"calibration", report.calibration},
          {"points", points},
          {"base", to_json(found.base)},
          {"faster_links", to_json(found.faster_links)},
          {"more_hosts", to_json(found.more_hosts)},
          {"better_buy", better_buy(found)},
          {"one_host_best", one_host_best}};
}

}  // namespace entrain::app
