#include "entrain/tuner/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "entrain/base/error.h"
#include "entrain/plan/link_bound.h"
#include "entrain/simulator/parts.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/validate.h"

namespace entrain::tuner {
namespace {

using simulator::PartKind;
using simulator::PartView;
using strategy::Strategy;

// Parts come variable by variable, so a variable is new when it is not the last one.
class Tally {
 public:
  void add(Amount& amount, const PartView& view) {
    ++amount.parts;
    amount.bytes += view.bytes;
    const auto [last, added] = last_.try_emplace(&amount, view.variable);
    if (added || last->second != view.variable) ++amount.variables;
    last->second = view.variable;
  }
  void finish(double total) {
    for (auto& [amount, last] : last_) amount->share = total > 0 ? amount->bytes / total : 0;
  }

 private:
  std::map<Amount*, int> last_;
};

void count_parts(Explanation& e, const Strategy& strategy, const graph::Graph& graph,
                 const cluster::Cluster& cluster) {
  const simulator::PartWalk walk(graph, cluster);
  std::map<int, std::set<int>> groups;  // all-reduce: variables by group
  std::vector<int> parts_of(graph.variables.size());
  walk.each(strategy, [&](const PartView& view) {
    ++parts_of[view.variable];
    if (view.kind == PartKind::kAllReduce) groups[view.group].insert(view.variable);
  });
  for (const int parts : parts_of) {
    ++(parts > 1 ? e.patterns.cut : e.patterns.whole);
    if (parts <= 1) continue;
    e.patterns.most_shards = std::max(e.patterns.most_shards, parts);
    e.patterns.fewest_shards =
        e.patterns.fewest_shards == 0 ? parts : std::min(e.patterns.fewest_shards, parts);
  }
  for (const auto& [group, variables] : groups) e.patterns.merge_groups += variables.size() > 1 ? 1 : 0;

  for (size_t h = 0; h < cluster.hosts.size(); ++h) e.served.push_back({static_cast<int>(h)});
  Tally tally;
  walk.each(strategy, [&](const PartView& view) {
    if (view.host >= 0) {
      tally.add(e.parameter_server, view);
      ++e.served[view.host].parts;
      e.served[view.host].bytes += view.bytes;
    } else if (view.kind == PartKind::kAllGather) {
      tally.add(e.all_gather, view);
    } else {
      tally.add(e.all_reduce, view);
      Patterns& p = e.patterns;
      tally.add(parts_of[view.variable] > 1        ? p.partition_then_all_reduce
                : groups.at(view.group).size() > 1 ? p.merge_then_all_reduce
                                                   : p.all_reduce_alone,
                view);
    }
  });
  tally.finish(walk.total_bytes());
  for (Served& served : e.served) {
    if (served.bytes > 0) served.share = served.bytes / e.parameter_server.bytes;
  }
}

void measure_links(Explanation& e, const Strategy& strategy, const graph::Graph& graph,
                   const cluster::Cluster& cluster, const simulator::Calibration& calibration) {
  const plan::Plan plan = plan::make_plan(strategy, graph, cluster);
  e.bound = plan::link_bound(plan, graph, cluster);
  e.best_bound_s = plan::best_link_bound(plan, graph, cluster);
  const auto [sent, received] = plan::link_bytes(plan, graph, cluster);
  for (const bool sending : {true, false}) {
    for (size_t h = 0; h < cluster.hosts.size(); ++h) {
      LinkUse use;
      use.host = static_cast<int>(h);
      use.sending = sending;
      use.bytes = (sending ? sent : received)[h];
      if (use.bytes <= 0) continue;
      use.seconds = use.bytes * 8 / (cluster.hosts[h].bandwidth_gbit * 1e9);
      use.share = use.seconds / calibration.link_efficiency / e.iteration.estimate.seconds;
      e.links.push_back(use);
    }
  }
  std::stable_sort(e.links.begin(), e.links.end(),
                   [](const LinkUse& a, const LinkUse& b) { return a.seconds > b.seconds; });
  for (LinkUse& use : e.links) use.binds = use.seconds >= 0.99 * e.links.front().seconds;
}

// Ties go to the builder listed first.
Strategy find_baseline(Explanation& e, const Strategy& strategy, const graph::Graph& graph,
                       const cluster::Cluster& cluster, const std::string& against) {
  Strategy nearest;
  for (const std::string& name : strategy::names()) {
    Strategy built = strategy::build(name, graph, cluster);
    const double distance = PartComparison(strategy, built, graph, cluster).distance();
    const bool same = distance == 0;
    if (same && (e.same_as.empty() || name == strategy.id)) e.same_as = name;
    const bool wanted =
        against.empty() ? !same && (e.baseline.empty() || distance < e.distance) : name == against;
    if (!wanted) continue;
    e.baseline = name;
    e.distance = distance;
    nearest = std::move(built);
  }
  if (!against.empty() && e.baseline.empty()) strategy::build(against, graph, cluster);  // throws
  return nearest;
}

Worth worth_of(const Difference& difference, const PartComparison& comparison, double seconds,
               const simulator::EventSimulation& simulation, const graph::Graph& graph,
               const cluster::Cluster& cluster) {
  Worth worth{difference, {}, {}, {}};
  const Strategy undone = comparison.undone(difference.aspect);
  try {
    strategy::validate(undone, graph, cluster);
  } catch (const InputError& error) {
    worth.why_not = error.what();
    return worth;
  }
  worth.undone_s = simulation.estimate(undone).seconds;
  worth.worth_s = *worth.undone_s - seconds;
  return worth;
}

}  // namespace

Explanation explain(const Strategy& strategy, const graph::Graph& graph, const cluster::Cluster& cluster,
                    const ExplainOptions& options) {
  const simulator::EventSimulation simulation(graph, cluster, options.calibration);
  Explanation e;
  e.id = strategy.id;
  e.iteration = simulation.simulate(strategy);
  count_parts(e, strategy, graph, cluster);
  measure_links(e, strategy, graph, cluster, options.calibration);

  const Strategy baseline = find_baseline(e, strategy, graph, cluster, options.against);
  if (e.baseline.empty()) return e;  // every builder makes this one: a tiny model
  e.baseline_estimate = simulation.estimate(baseline);
  const PartComparison comparison(strategy, baseline, graph, cluster);
  for (const Difference& difference : comparison.differences()) {
    e.worths.push_back(
        worth_of(difference, comparison, e.iteration.estimate.seconds, simulation, graph, cluster));
  }
  std::stable_sort(e.worths.begin(), e.worths.end(), [](const Worth& a, const Worth& b) {
    return std::abs(a.worth_s.value_or(0)) > std::abs(b.worth_s.value_or(0));
  });
  return e;
}

}  // namespace entrain::tuner
