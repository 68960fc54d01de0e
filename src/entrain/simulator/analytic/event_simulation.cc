#include "entrain/simulator/analytic/event_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/plan/link_bound.h"
#include "entrain/plan/plan.h"
#include "entrain/simulator/analytic/network.h"
#include "entrain/simulator/analytic/routes.h"
#include "entrain/simulator/analytic/shaped_simulation.h"
#include "entrain/simulator/analytic/shipments.h"

namespace entrain::simulator {
namespace {

// What moves as one on a link: fine enough for a small model, and for a large one as many pieces as for a
// small.
constexpr double kLeastGrain = 16 << 10;
constexpr double kGrains = 24;  // of a model

}  // namespace

// What does not depend on the strategy.
struct EventSimulation::Model {
  Model(const graph::Graph& g, const cluster::Cluster& c, const Calibration& k, int64_t n, int exact_ranks)
      : graph(g), cluster(c), calibration(k), planner(graph, cluster), routes(graph), network(cluster, k) {
    double slowest = 1;
    for (const auto& host : cluster.hosts) {
      if (!host.server_only()) slowest = std::min(slowest, host.speed);
    }
    scale = k.compute_scale / slowest;
    // Emulated hosts compute at once, on the same cores.
    const bool shared = cluster.kind != cluster::Kind::kHosts && k.cores > 0;
    if (shared) scale *= std::max(1.0, cluster.workers() / k.cores);
    std::vector<int> order(graph.variables.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return graph.variables[a].ready_order < graph.variables[b].ready_order;
    });
    ready.resize(order.size());
    for (const int v : order) ready[v] = backward += graph.variables[v].backward_s * scale;
    for (const auto& v : graph.variables) {
      forward.push_back(v.forward_s * scale);
      const double bytes = v.sparse && v.shape[0] > 0
                               ? static_cast<double>(v.bytes()) / static_cast<double>(v.shape[0]) *
                                     static_cast<double>(v.rows_per_step)
                               : static_cast<double>(v.bytes());
      update.push_back(bytes / k.update_bytes_per_s);
      compute += forward.back() + update.back();
      grain += bytes / kGrains;
    }
    compute += backward;
    grain = std::max(grain, kLeastGrain);
    const bool profiled =
        std::none_of(graph.layers.begin(), graph.layers.end(), [](const auto& l) { return l.times.empty(); });
    const int64_t examples = n > 0 ? n : graph.batch_size * cluster.workers();
    if (!graph.layers.empty() && profiled && examples > 0) {
      shaped.emplace(graph, cluster, calibration, network, update, examples, exact_ranks);
    }
  }

  // Throws InputError where it is not known what layers cost.
  const ShapedSimulation& of_shapes() const {
    if (shaped) return *shaped;
    bad_input(
        "graph {}: `layers` with `times` and `batch_size` are needed to simulate a shape (a profile of the "
        "layers)",
        graph.model);
  }

  graph::Graph graph;
  cluster::Cluster cluster;
  Calibration calibration;
  plan::Planner planner;
  Routes routes;
  Network network;
  std::vector<double> ready, forward, update;  // by variable, in seconds
  double scale = 1;                            // seconds of the slowest worker by profiled second
  double backward = 0;
  double compute = 0;
  double grain = 0;                        // bytes
  std::optional<ShapedSimulation> shaped;  // where layers are profiled
};

// One run of the model; kept between calls for its memory.
struct EventSimulation::Iteration {
  plan::Plan plan;
  std::vector<Shipment> shipments;  // by message
  std::vector<double> available;    // by variable
  std::vector<int> last_message;    // by variable: the one it waits for
  std::vector<double> busy;         // by host's link sending, receiving, and engines, in seconds
  double end = 0;

  void run(const Model& m, const strategy::Strategy& strategy, bool describe);
  Estimate summary(const Model& m) const;
};

void EventSimulation::Iteration::run(const Model& m, const strategy::Strategy& strategy, bool describe) {
  plan = m.planner.plan(strategy, describe);
  shipments.clear();
  for (const auto& message : plan.messages) {
    double ready = 0;
    for (const auto& slice : message.slices) ready = std::max(ready, m.ready[slice.variable]);
    shipments.push_back(shipment_of(message, m.graph, m.routes, m.calibration, ready));
  }
  m.network.run(shipments, plan.workers, m.grain, busy);
  available.assign(m.graph.variables.size(), 0.0);
  last_message.assign(m.graph.variables.size(), -1);
  for (size_t i = 0; i < shipments.size(); ++i) {
    shipments[i].ended += after_arrival(plan.messages[i], *shipments[i].route, m.calibration);
    for (const auto& slice : plan.messages[i].slices) {
      if (shipments[i].ended < available[slice.variable]) continue;
      available[slice.variable] = shipments[i].ended;
      last_message[slice.variable] = static_cast<int>(i);
    }
  }
  end = m.backward;
  for (size_t v = 0; v < available.size(); ++v) {
    end = std::max(end, available[v]) + m.update[v] + m.forward[v];
  }
}

Estimate EventSimulation::Iteration::summary(const Model& m) const {
  Estimate e;
  e.seconds = end;
  e.compute = m.compute;
  e.exposed = e.seconds - e.compute;
  const size_t hosts = m.cluster.hosts.size();
  for (size_t r = 0; r < busy.size(); ++r) {
    if (r < 2 * hosts) e.link_bound = std::max(e.link_bound, busy[r] * m.calibration.link_efficiency);
    if (busy[r] <= e.busiest_s) continue;
    e.busiest_s = busy[r];
    e.busiest_host = static_cast<int>(r % hosts);
    e.busiest_kind = static_cast<Estimate::Kind>(r / hosts);
  }
  for (const Shipment& shipment : shipments) {
    e.last_arrival = std::max(e.last_arrival, shipment.ended);
    e.latency += shipment.route->depth * m.calibration.latency_s;
    e.transfers += static_cast<double>(shipment.route->hops.size());
  }
  e.messages = static_cast<double>(shipments.size());
  return e;
}

EventSimulation::EventSimulation(const graph::Graph& graph, const cluster::Cluster& cluster,
                                 const Calibration& calibration, int64_t examples, int exact_ranks)
    : model_(std::make_unique<const Model>(graph, cluster, calibration, examples, exact_ranks)) {}
EventSimulation::~EventSimulation() = default;

Estimate EventSimulation::estimate(const strategy::Strategy& strategy) const {
  if (strategy.shape) return model_->of_shapes().estimate(strategy);
  thread_local Iteration iteration;
  iteration.run(*model_, strategy, false);
  return iteration.summary(*model_);
}

std::vector<double> EventSimulation::score(std::span<const strategy::Strategy> strategies) const {
  std::vector<double> scores;
  scores.reserve(strategies.size());
  for (const auto& strategy : strategies) scores.push_back(estimate(strategy).seconds);
  return scores;
}

SimulatedIteration EventSimulation::simulate(const strategy::Strategy& strategy) const {
  const Model& m = *model_;
  if (strategy.shape) return m.of_shapes().simulate(strategy);
  Iteration run;
  run.run(m, strategy, true);
  SimulatedIteration t{run.summary(m), {}, {}};
  const auto& variables = m.graph.variables;
  for (size_t v = 0; v < variables.size(); ++v) {
    const double backward = variables[v].backward_s * m.scale;
    t.intervals.push_back({"backward", variables[v].name, m.ready[v] - backward, m.ready[v]});
  }
  for (size_t i = 0; i < run.shipments.size(); ++i) {
    const Shipment& s = run.shipments[i];
    t.intervals.push_back(
        {fmt::format("route {}", s.route->number), run.plan.messages[i].what, s.begun, s.ended});
  }
  // Forward, and the last variable it had to wait for: what came after that was only computing.
  double now = m.backward;
  int waited_for = -1;
  double wait_end = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (run.available[v] > now) {
      t.intervals.push_back({"forward", "waits for " + variables[v].name, now, run.available[v]});
      now = wait_end = run.available[v];
      waited_for = static_cast<int>(v);
    }
    const double end = now + m.update[v] + m.forward[v];
    t.intervals.push_back({"forward", variables[v].name, now, end});
    now = end;
  }
  auto& path = t.critical_path;
  if (waited_for < 0) {
    path = {{"backward", "backward", 0, m.backward}, {"forward", "forward", m.backward, now}};
    return t;
  }
  const int message = run.last_message[waited_for];
  const Shipment& s = run.shipments[message];
  path.push_back({"backward", "until the message's gradients are there", 0, s.ready});
  if (s.begun > s.ready) path.push_back({"queue", "behind other messages", s.ready, s.begun});
  path.push_back({"message", run.plan.messages[message].what, s.begun, wait_end});
  path.push_back({"forward", "from " + variables[waited_for].name + " on", wait_end, now});
  return t;
}

}  // namespace entrain::simulator
