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
      if (trial.ok()) joined.trials.back().seconds = {trial.median()};
    } else if (trial.ok()) {
      Trial& known = joined.trials[at->second];
      if (!known.ok()) known.seconds.clear();
      known.status = Status::kOk;
      known.error.clear();
      known.seconds.push_back(trial.median());
    }
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
