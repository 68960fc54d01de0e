#include "entrain/dataset/stats.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "entrain/base/quantile.h"
#include "entrain/dataset/record.h"
#include "entrain/strategy/stored.h"

namespace entrain::dataset {
namespace {

constexpr size_t kStepsForSpread = 3;

struct Spreads {
  std::vector<double> within, between, between_std;

  void add(const Spreads& other) {
    within.insert(within.end(), other.within.begin(), other.within.end());
    between.insert(between.end(), other.between.begin(), other.between.end());
    between_std.insert(between_std.end(), other.between_std.begin(), other.between_std.end());
  }
  Noise noise() const {
    const auto middle = [](const std::vector<double>& v) { return v.empty() ? 0 : median(v); };
    return {within.size(), middle(within), between.size(), middle(between), middle(between_std)};
  }
};

void add_repeats(const std::vector<double>& steps, Spreads& spreads) {
  if (steps.size() < 2) return;
  const auto [least, largest] = std::minmax_element(steps.begin(), steps.end());
  double mean = 0, squares = 0;
  for (const double m : steps) mean += m / static_cast<double>(steps.size());
  for (const double m : steps) squares += (m - mean) * (m - mean);
  spreads.between.push_back((*largest - *least) / mean);
  spreads.between_std.push_back(std::sqrt(squares / static_cast<double>(steps.size() - 1)) / mean);
}

DomainStats describe(const Domain& domain, Spreads& spreads) {
  DomainStats result;
  result.name = domain.name;
  result.model = domain.graph.model;
  result.cluster = domain.cluster.name;
  result.hosts = static_cast<int>(domain.cluster.hosts.size());
  result.workers = domain.cluster.workers();
  result.variables = static_cast<int>(domain.graph.variables.size());
  result.records = domain.trials.size();
  std::map<std::string, std::vector<double>> by_strategy;
  std::vector<double> steps;
  for (const Trial& trial : domain.trials) {
    ++result.statuses[std::string(name_of(trial.status))];
    if (!trial.origin.empty()) ++result.origins[trial.origin];
    std::vector<double>& repeats = by_strategy[strategy_key(trial.strategy)];
    if (!trial.ok()) continue;
    steps.push_back(trial.step_s());
    repeats.push_back(steps.back());
    if (trial.seconds.size() >= kStepsForSpread) {
      const double p10 = quantile(trial.seconds, 0.1), p90 = quantile(trial.seconds, 0.9);
      spreads.within.push_back((p90 - p10) / steps.back());
    }
  }
  for (const auto& [key, repeats] : by_strategy) add_repeats(repeats, spreads);
  result.strategies = by_strategy.size();
  if (!steps.empty()) {
    result.least_s = quantile(steps, 0);
    result.median_s = median(steps);
    result.largest_s = quantile(steps, 1);
  }
  result.noise = spreads.noise();
  return result;
}

}  // namespace

std::string strategy_key(const strategy::Strategy& strategy) {
  strategy::Strategy nameless = strategy;
  nameless.id.clear();
  return strategy::to_binary(nameless);
}

Stats stats(const Dataset& dataset) {
  Stats result;
  result.records = dataset.records();
  std::set<std::string> models, clusters;
  Spreads all;
  for (const Domain& domain : dataset.domains) {
    Spreads spreads;
    result.domains.push_back(describe(domain, spreads));
    all.add(spreads);
    models.insert(result.domains.back().model);
    clusters.insert(result.domains.back().cluster);
    for (const auto& [status, count] : result.domains.back().statuses) result.statuses[status] += count;
  }
  result.models.assign(models.begin(), models.end());
  result.clusters.assign(clusters.begin(), clusters.end());
  result.noise = all.noise();
  return result;
}

}  // namespace entrain::dataset
