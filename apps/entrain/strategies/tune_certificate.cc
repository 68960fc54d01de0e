#include "strategies/tune_certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "entrain/base/units.h"
#include "entrain/planner/bound.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::app {
namespace {

using nlohmann::json;

std::string binding(const planner::Bound& bound, const cluster::Cluster& cluster) {
  switch (bound.binds) {
    case planner::Bound::Part::kCompute:
      return "computing, with all ranks busy, binds";
    case planner::Bound::Part::kChain:
      return "one micro-batch's way through all layers binds";
    case planner::Bound::Part::kLinks:
      break;
  }
  if (bound.host < 0) return "links and computing together bind";
  return fmt::format("the link of {} binds", cluster.hosts[static_cast<size_t>(bound.host)].address);
}

// The layers were timed once, maybe while the machine did something else, too. One host that was faster than
// the sum of its passes shows by how much their times are too long: measured over profiled, at most 1.
double overstated(const tuner::TuneResult& result, const dataset::Domain& domain, int64_t examples) {
  simulator::Calibration only_passes;
  only_passes.message_s = 0;
  only_passes.update_bytes_per_s = 1e15;
  double least = 1;
  for (const dataset::Trial& trial : domain.trials) {
    if (trial.origin != tuner::kAloneOrigin) continue;
    const auto* alone = result.find(trial.strategy.id);
    if (alone == nullptr) continue;
    const simulator::EventSimulation simulation(domain.graph, domain.cluster, only_passes, examples);
    least = std::min(least, alone->fastest_s / simulation.estimate(trial.strategy).seconds);
  }
  return least;
}

graph::Graph scaled(graph::Graph graph, double factor) {
  for (graph::Layer& layer : graph.layers) {
    for (graph::LayerTime& time : layer.times) {
      time.forward_s *= factor;
      time.backward_s *= factor;
    }
  }
  return graph;
}

}  // namespace

json certificate_of(const tuner::TuneResult& result, const dataset::Domain& domain, double shared_cores) {
  const int64_t examples = domain.settings.batch_size * domain.cluster.workers();
  const double scale = overstated(result, domain, examples);
  const planner::Bound bound = planner::lower_bound(scaled(domain.graph, scale), domain.cluster, examples,
                                                    {.shared_speed = shared_cores});
  std::set<int> hosts;
  const auto ranks = result.best.shape ? result.best.shape->ranks() : domain.cluster.worker_ranks();
  for (const int rank : ranks) hosts.insert(domain.cluster.host_of(rank));
  json certificate = {{"step_time_s", result.best_s},
                      {"bound_s", bound.seconds},
                      {"ratio", result.best_s / bound.seconds},
                      {"binds", binding(bound, domain.cluster)},
                      {"compute_s", bound.compute_s},
                      {"chain_s", bound.chain_s},
                      {"links_s", bound.links_s},
                      {"times_scaled_by", scale},
                      {"hosts_used", hosts.size()}};
  if (result.best.shape) certificate["shape"] = strategy::to_text(*result.best.shape);
  const auto* alone = result.fastest(tuner::kAloneOrigin);
  if (alone == nullptr || domain.cluster.hosts.size() < 2) return certificate;
  certificate["one_host_s"] = alone->seconds;
  certificate["vs_one_host"] = alone->seconds / result.best_s;
  return certificate;
}

std::string certificate_text(const json& certificate) {
  std::string text;
  const auto seconds = [&](const char* field) { return format_seconds(certificate[field].get<double>()); };
  if (certificate.contains("one_host_s")) {
    const auto hosts = certificate["hosts_used"].get<size_t>();
    text = hosts == 1
               ? fmt::format("Use one host: nothing that was tried on more of them is faster than {}.\n",
                             seconds("step_time_s"))
               : fmt::format("{} hosts: {:.2f}x one host alone, which takes {}.\n", hosts,
                             certificate["vs_one_host"].get<double>(), seconds("one_host_s"));
  }
  return text +
         fmt::format(
             "Certificate: {} per update. No shape without compression takes less than {} here ({}), so "
             "at most {:.2f}x is left.\n",
             seconds("step_time_s"), seconds("bound_s"), certificate["binds"].get<std::string>(),
             std::max(1.0, certificate["ratio"].get<double>()));
}

}  // namespace entrain::app
