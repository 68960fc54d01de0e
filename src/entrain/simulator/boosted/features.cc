#include "entrain/simulator/boosted/features.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/error.h"
#include "entrain/plan/link_bound.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/published_terms.h"
#include "entrain/simulator/boosted/tally.h"

namespace entrain::simulator {
namespace {

constexpr int kStrategyVersion = 2;
constexpr std::string_view kEventFeature = "event_log_seconds";

// What does not change with the strategy.
struct DomainFacts {
  double scale = 1;       // seconds: max(compute, best link bound)
  double compute = 1;     // seconds
  double best_bound = 1;  // seconds
  double variables = 1;
  Calibration calibration;
};

struct Facts {
  DomainFacts domain;
  Estimate event;
  double narrow = 1, wide = 1;  // seconds of the event simulation with other windows
  PublishedFeatures published{};
  Tally tally;
};

double log_ratio(double a, double b) { return std::log(std::max(a, 1e-9) / std::max(b, 1e-9)); }

// Nothing here names the domain itself (hosts, ratio of compute to links): trees that split by such features
// know each training domain by heart, and ordered strategies of a new one worse.
// The one list of features: sink(name, value). Names come from it, and values, so they cannot part.
template <typename Sink>
void list(const Facts& facts, Sink&& sink) {
  const DomainFacts& d = facts.domain;
  const Estimate& e = facts.event;
  const Tally& t = facts.tally;
  const double whole = std::max(e.seconds, 1e-9);
  sink(kEventFeature, log_ratio(e.seconds, d.scale));
  // What a stream has on its way differs between kernels and switches: a strategy that minds is a risk.
  sink("event_narrow", log_ratio(facts.narrow, e.seconds));
  sink("event_wide", log_ratio(facts.wide, e.seconds));
  sink("event_exposed", e.exposed / whole);
  sink("event_compute", e.compute / whole);
  sink("event_link_bound", e.link_bound / whole);
  sink("event_busiest", e.busiest_s / whole);
  sink("event_busiest_over_bound", (e.busiest_s - e.link_bound) / d.scale);
  sink("event_busiest_kind", static_cast<double>(e.busiest_kind));
  sink("event_latency", e.latency / d.scale);
  sink("event_last_arrival", e.last_arrival / whole);
  sink("event_messages", e.messages * d.calibration.message_s / d.scale);
  sink("event_transfers", e.transfers * d.calibration.message_s / d.scale);
  sink("event_bound_over_best", log_ratio(e.link_bound, d.best_bound));

  for (int i = 0; i < kPublishedFeatures; ++i) {
    // Overheads and latencies are counts: a count costs about a round's latency.
    const double unit = i % 3 == 0 ? 1 : d.calibration.latency_s;
    sink(published_feature_names()[i], facts.published[i] * unit / d.scale);
  }

  static constexpr std::string_view kKinds[] = {"share_server", "share_proxy", "share_all_reduce",
                                                "share_all_gather"};
  static constexpr std::string_view kTopologies[] = {"share_auto", "share_ring",         "share_halving",
                                                     "share_tree", "share_hierarchical", "share_scatter"};
  for (size_t i = 0; i < t.kinds.size(); ++i) sink(kKinds[i], t.kinds[i]);
  for (size_t i = 0; i < t.topologies.size(); ++i) sink(kTopologies[i], t.topologies[i]);
  sink("share_ring_order", t.ring_ordered);
  sink("parts", t.parts / d.variables);
  sink("messages", t.messages / d.variables);
  sink("message_overhead", t.messages * d.calibration.message_s / d.scale);
  sink("small_messages", t.small_messages / std::max(1.0, t.messages));
  sink("groups", t.groups / d.variables);
  sink("most_parts", t.most_parts);
  sink("cut_variables", t.cut_variables / d.variables);
  sink("largest_message", t.largest_message);
  sink("largest_group", t.largest_group);
  sink("group_waiting", t.waiting);
  sink("late_bytes", t.late);
  sink("prioritised", t.prioritised);
  sink("priority_disorder", t.disorder);
  sink("servers", t.servers);
  sink("served_max", t.served_max);
  sink("served_by_server_only", t.served_only);
  sink("served_bandwidth", t.served_bandwidth);
  sink("send_bound", t.send_bound / d.scale);
  sink("receive_bound", t.receive_bound / d.scale);
  sink("send_over_receive", log_ratio(t.send_bound, t.receive_bound));
  sink("link_spread", t.link_spread);
}

DomainFacts facts_of(const graph::Graph& graph, const cluster::Cluster& cluster,
                     const Calibration& calibration) {
  DomainFacts d;
  d.calibration = calibration;
  d.compute = graph.compute_s() * calibration.compute_scale;
  d.best_bound = plan::best_link_bound(graph, cluster);
  d.scale = std::max({d.compute, d.best_bound, 1e-6});
  d.variables = std::max(1.0, static_cast<double>(graph.variables.size()));
  return d;
}

constexpr double kOtherWindow = 4;

Calibration with_window(Calibration calibration, double factor) {
  calibration.window_bytes *= factor;
  return calibration;
}

}  // namespace

struct StrategyFeatures::Model {
  Model(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration)
      : domain(facts_of(graph, cluster, calibration)),
        event(graph, cluster, calibration),
        narrow(graph, cluster, with_window(calibration, 1 / kOtherWindow)),
        wide(graph, cluster, with_window(calibration, kOtherWindow)),
        published(graph, cluster),
        tallier(graph, cluster) {}

  DomainFacts domain;
  EventSimulation event, narrow, wide;
  PublishedTerms published;
  Tallier tallier;
};

StrategyFeatures::StrategyFeatures(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   const Calibration& calibration)
    : model_(std::make_unique<const Model>(graph, cluster, calibration)) {}

StrategyFeatures::~StrategyFeatures() = default;

const Schema& StrategyFeatures::schema() {
  static const Schema kSchema = [] {
    Schema schema{"strategy", kStrategyVersion, {}};
    list(Facts{}, [&](std::string_view name, double) { schema.features.emplace_back(name); });
    return schema;
  }();
  return kSchema;
}

int StrategyFeatures::event_feature() {
  const auto& names = schema().features;
  return static_cast<int>(std::find(names.begin(), names.end(), kEventFeature) - names.begin());
}

void StrategyFeatures::compute(const strategy::Strategy& strategy, std::span<float> row) const {
  const Facts facts{model_->domain,
                    model_->event.estimate(strategy),
                    model_->narrow.estimate(strategy).seconds,
                    model_->wide.estimate(strategy).seconds,
                    model_->published.features(strategy),
                    model_->tallier.tally(strategy)};
  size_t i = 0;
  list(facts, [&](std::string_view name, double value) {
    if (!std::isfinite(value)) fail("strategy {}: feature {} is {}", strategy.id, name, value);
    row[i++] = static_cast<float>(value);
  });
}

std::vector<float> StrategyFeatures::compute(std::span<const strategy::Strategy> strategies) const {
  const auto width = static_cast<size_t>(count());
  std::vector<float> rows(strategies.size() * width);
  for (size_t i = 0; i < strategies.size(); ++i)
    compute(strategies[i], std::span(rows).subspan(i * width, width));
  return rows;
}

}  // namespace entrain::simulator
