#include "entrain/tuner/what_if/what_if.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "entrain/planner/costs.h"
#include "entrain/tuner/shape_rivals.h"
#include "entrain/tuner/what_if/whole_model.h"

namespace entrain::tuner {
namespace {

using strategy::Shape;

// Of shapes that take about as long, data parallelism is preferred, and to that one host alone.
constexpr double kSimpler = 1.005;

// Profiled times as this cluster's hosts take them, so that the bound is of what is simulated.
graph::Graph calibrated_times(graph::Graph graph, double scale) {
  for (auto& layer : graph.layers) {
    for (auto& time : layer.times) {
      time.forward_s *= scale;
      time.backward_s *= scale;
    }
  }
  return graph;
}

bool shares_cores(const cluster::Cluster& cluster) { return cluster.kind != cluster::Kind::kHosts; }

class Explorer {
 public:
  Explorer(const graph::Graph& graph, const cluster::Cluster& cluster, const WhatIfOptions& options)
      : graph_(graph),
        scaled_(calibrated_times(graph, options.calibration.compute_scale)),
        cluster_(cluster),
        options_(options) {}

  const WhatIfPoint& at(const Setting& setting) {
    const auto found = points_.find(setting);
    return found != points_.end() ? found->second : points_.emplace(setting, explore(setting)).first->second;
  }

 private:
  WhatIfPoint explore(const Setting& setting) {
    WhatIfPoint point{setting, cluster_of(setting, cluster_), {}, {}, {}, {}};
    const cluster::Cluster& cluster = point.cluster;
    PricerOptions pricing;
    pricing.examples = setting.examples;
    pricing.seed = options_.seed;
    pricing.optimizer_slots = options_.optimizer_slots;
    pricing.exact_ranks = options_.exact_ranks;
    const ShapePricer pricer(graph_, cluster, options_.calibration, pricing);
    point.data_parallel =
        choice_of(price_whole_model(graph_, cluster, options_.calibration, pricing), cluster);
    const auto alone = pricer.price(shapes_of_one_host(graph_, cluster, setting.examples));
    if (!alone.empty()) point.alone = choice_of(alone.front(), cluster);

    std::vector<Shape> starts = fitting(best_, cluster, setting.examples);
    for (const Shape& shape : pricer.planned(options_.planned)) starts.push_back(shape);
    if (!alone.empty()) starts.push_back(*alone.front().strategy.shape);
    std::vector<Shape> shapes = pricer.improved(starts, options_.evaluations, options_.seed);
    for (const Shape& shape : fitting(best_, cluster, setting.examples)) shapes.push_back(shape);
    const auto priced = pricer.price(shapes);
    if (!priced.empty()) {
      point.best = choice_of(priced.front(), cluster);
      best_.push_back(*point.best->strategy.shape);
    }
    for (const auto& simple : {point.data_parallel, point.alone}) {
      if (simple && (!point.best || simple->seconds < kSimpler * point.best->seconds)) point.best = simple;
    }
    for (const auto& [earlier, other] : points_) {  // the other hosts may stay unused
      if (earlier.examples != setting.examples || !begins_with(cluster, other.cluster) || !other.best)
        continue;
      if (!point.best || other.best->seconds < point.best->seconds) point.best = other.best;
    }
    const double cores = shares_cores(cluster) ? options_.calibration.cores : 0;
    point.bound = planner::lower_bound(scaled_, cluster, setting.examples, {.shared_speed = cores});
    return point;
  }

  static std::optional<Choice> choice_of(std::optional<Priced> priced, const cluster::Cluster& cluster) {
    if (!priced) return std::nullopt;
    std::set<int> hosts;
    for (const int rank : priced->strategy.shape->ranks()) hosts.insert(cluster.host_of(rank));
    return Choice{std::move(priced->strategy), priced->seconds, static_cast<int>(hosts.size())};
  }

  std::vector<Shape> fitting(const std::vector<Shape>& shapes, const cluster::Cluster& cluster,
                             int64_t examples) const {
    std::vector<Shape> result;
    for (const Shape& shape : shapes) {
      const auto ranks = shape.ranks();
      const bool known = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
        return rank < cluster.world() && cluster.is_worker(rank);
      });
      const bool again = std::find(result.begin(), result.end(), shape) != result.end();
      if (known && !again && shape.micro_batches_or_default() <= examples) result.push_back(shape);
    }
    return result;
  }

  const graph::Graph& graph_;
  const graph::Graph scaled_;
  const cluster::Cluster& cluster_;
  const WhatIfOptions& options_;
  std::map<Setting, WhatIfPoint> points_;
  std::vector<Shape> best_;  // of the points so far
};

std::optional<Setting> next_setting(const Setting& base, const std::vector<double>& gbit, double has) {
  const auto next = std::upper_bound(gbit.begin(), gbit.end(), has * (1 + 1e-9));
  if (next == gbit.end()) return std::nullopt;
  return Setting{base.examples, base.hosts, *next};
}

std::optional<Setting> next_setting(const Setting& base, const std::vector<int>& hosts, int has) {
  const auto next = std::upper_bound(hosts.begin(), hosts.end(), has);
  if (next == hosts.end()) return std::nullopt;
  return Setting{base.examples, *next, base.link_gbit};
}

std::optional<WhatIfStep> step_to(const WhatIfPoint& base, const WhatIfPoint& to) {
  if (!base.best || !to.best) return std::nullopt;
  return WhatIfStep{to.setting, slowest_link_gbit(to.cluster), training_hosts(to.cluster),
                    base.best->seconds / to.best->seconds};
}

}  // namespace

WhatIf what_if(const graph::Graph& graph, const cluster::Cluster& cluster, const Axes& axes, int64_t examples,
               const WhatIfOptions& options, const WhatIfProgress& progress) {
  planner::require_profile(graph);
  const Setting base{examples, 0, 0};
  const auto links = next_setting(base, axes.link_gbit, slowest_link_gbit(cluster));
  const auto hosts = next_setting(base, axes.hosts, training_hosts(cluster));
  std::vector<Setting> wanted;
  for (const Setting& setting : product(axes, examples)) wanted.push_back(normal(setting, cluster));
  std::set<Setting> all(wanted.begin(), wanted.end());
  for (const auto& setting : {std::optional(base), links, hosts}) {
    if (setting) all.insert(*setting);
  }
  for (const Setting& setting : all) cluster_of(setting, cluster);  // what cannot be is refused at once

  // The best of fewer hosts and of slower links are where the others start.
  std::vector<Setting> order(all.begin(), all.end());
  std::stable_sort(order.begin(), order.end(), [&](const Setting& a, const Setting& b) {
    const auto a_cluster = cluster_of(a, cluster), b_cluster = cluster_of(b, cluster);
    return std::tuple(a.examples, training_hosts(a_cluster), slowest_link_gbit(a_cluster)) <
           std::tuple(b.examples, training_hosts(b_cluster), slowest_link_gbit(b_cluster));
  });
  Explorer explorer(graph, cluster, options);
  for (size_t i = 0; i < order.size(); ++i) {
    if (progress) progress(static_cast<int>(i), static_cast<int>(order.size()));
    explorer.at(order[i]);
  }
  if (progress) progress(static_cast<int>(order.size()), static_cast<int>(order.size()));

  WhatIf result;
  for (const Setting& setting : wanted) result.points.push_back(explorer.at(setting));
  result.base = explorer.at(base);
  if (links) result.faster_links = step_to(result.base, explorer.at(*links));
  if (hosts) result.more_hosts = step_to(result.base, explorer.at(*hosts));
  return result;
}

}  // namespace entrain::tuner
