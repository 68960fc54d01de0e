#include "entrain/dataset/visits.h"

#include <unordered_map>

#include "entrain/dataset/stats.h"

namespace entrain::dataset {
namespace {

Domain join_visits(const Domain& domain) {
  Domain joined = domain;
  joined.trials.clear();
  std::unordered_map<std::string, size_t> place;  // by strategy, in joined.trials
  for (const Trial& trial : domain.trials) {
    const auto [at, first] = place.try_emplace(strategy_key(trial.strategy), joined.trials.size());
    if (first) {
      joined.trials.push_back(trial);
      continue;
    }
    if (!trial.ok()) continue;
    Trial& known = joined.trials[at->second];
    if (!known.ok()) known.seconds.clear();
    known.seconds.insert(known.seconds.end(), trial.seconds.begin(), trial.seconds.end());
    known.status = Status::kOk;
    known.error.clear();
  }
  return joined;
}

}  // namespace

Dataset join_visits(const Dataset& dataset) {
  Dataset joined;
  for (const Domain& domain : dataset.domains) joined.domains.push_back(join_visits(domain));
  return joined;
}

}  // namespace entrain::dataset
