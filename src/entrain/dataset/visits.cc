#include "entrain/dataset/visits.h"

#include <unordered_map>

#include "entrain/dataset/stats.h"

namespace entrain::dataset {
namespace {

Domain join_visits(const Domain& domain) {
  Domain joined = domain;
  joined.trials.clear();
  std::unordered_map<std::string, size_t> place;  // by strategy, in joined.trials
  std::vector<int> visits;                        // by place there: ok() ones
  for (const Trial& trial : domain.trials) {
    const auto [at, first] = place.try_emplace(strategy_key(trial.strategy), joined.trials.size());
    if (first) {
      joined.trials.push_back(trial);
      visits.push_back(trial.ok() ? 1 : 0);
      continue;
    }
    if (!trial.ok()) continue;
    Trial& known = joined.trials[at->second];
    int& count = visits[at->second];
    if (count == 0) {
      known.seconds = trial.seconds;
      known.status = Status::kOk;
      known.error.clear();
    } else {
      if (count == 1) known.seconds = {known.median()};
      known.seconds.push_back(trial.median());
    }
    ++count;
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
