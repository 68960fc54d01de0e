#include "entrain/api/strategies.h"

#include <torch/torch.h>

#include "entrain/api/context.h"
#include "entrain/graph/profile.h"
#include "entrain/job/context.h"
#include "entrain/plan/link_bound.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain {

Graph::Graph(graph::Graph inner) : inner_(std::make_shared<const graph::Graph>(std::move(inner))) {}
Graph Graph::of(const torch::nn::Module& module, const std::function<torch::Tensor()>& loss) {
  return Graph(graph::profile(module, loss));
}
Graph Graph::load(const std::filesystem::path& path) { return Graph(graph::load(path)); }
void Graph::save(const std::filesystem::path& path) const { graph::save(*inner_, path); }
int64_t Graph::bytes() const { return inner_->bytes(); }
double Graph::compute_s() const { return inner_->compute_s(); }

std::vector<std::string> Graph::variables() const {
  std::vector<std::string> names;
  for (const auto& variable : inner_->variables) names.push_back(variable.name);
  return names;
}

Cluster::Cluster(cluster::Cluster inner)
    : inner_(std::make_shared<const cluster::Cluster>(std::move(inner))) {}
Cluster Cluster::parse(const std::string& text_or_path) { return Cluster(cluster::parse(text_or_path)); }
Cluster Cluster::of(Context& context) { return Cluster(context.inner().cluster); }
std::string Cluster::name() const { return inner_->name; }
int Cluster::hosts() const { return static_cast<int>(inner_->hosts.size()); }
int Cluster::workers() const { return inner_->workers(); }

Strategy::Strategy(strategy::Strategy inner)
    : inner_(std::make_shared<const strategy::Strategy>(std::move(inner))) {}
Strategy Strategy::build(const std::string& name_or_file, const Graph& graph, const Cluster& cluster,
                         uint64_t seed) {
  return Strategy(strategy::load_or_build(name_or_file, graph.inner(), cluster.inner(), seed));
}
std::vector<std::string> Strategy::builders() { return strategy::names(); }
Strategy Strategy::load(const std::filesystem::path& path) { return Strategy(strategy::load(path)); }
Strategy Strategy::from_json(const std::string& text) { return Strategy(strategy::from_json(text)); }
void Strategy::save(const std::filesystem::path& path) const { strategy::save(*inner_, path); }
std::string Strategy::to_json() const { return strategy::to_json(*inner_); }
std::string Strategy::name() const { return inner_->id; }

void Strategy::validate(const Graph& graph, const Cluster& cluster) const {
  strategy::validate(*inner_, graph.inner(), cluster.inner());
}

Simulated simulate(const Strategy& strategy, const Graph& graph, const Cluster& cluster) {
  strategy.validate(graph, cluster);
  strategy::check_parts(strategy.inner(), "simulate()");
  const simulator::EventSimulation simulation(graph.inner(), cluster.inner(), simulator::Calibration{});
  const auto estimate = simulation.estimate(strategy.inner());
  const auto plan = plan::make_plan(strategy.inner(), graph.inner(), cluster.inner());
  return {estimate.seconds, estimate.compute, plan::link_bound(plan, graph.inner(), cluster.inner()).seconds};
}

}  // namespace entrain
