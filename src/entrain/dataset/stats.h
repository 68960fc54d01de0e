// What is in a data set, and how noisy its measurements are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

// Two trials repeat each other when this is the same: everything but the id.
std::string strategy_key(const strategy::Strategy& strategy);

// Relative spreads; a median over trials or strategies, so that one disturbed trial does not show.
struct Noise {
  size_t trials = 0;       // with at least 3 measured steps
  double within = 0;       // (p90 - p10) / step time of a trial
  size_t repeated = 0;     // strategies with more than one ok() trial in their domain
  double between = 0;      // (largest - least) / mean of such a strategy's trials
  double between_std = 0;  // their standard deviation / mean
};

struct DomainStats {
  std::string name, model, cluster;
  int hosts = 0, workers = 0, variables = 0;
  size_t records = 0;
  std::map<std::string, size_t> statuses, origins;
  size_t strategies = 0;                               // different ones
  std::optional<double> least_s, median_s, largest_s;  // of ok() trials
  Noise noise;
};

struct Stats {
  size_t records = 0;
  std::vector<std::string> models, clusters;  // different ones, sorted
  std::map<std::string, size_t> statuses;
  std::vector<DomainStats> domains;
  Noise noise;  // over all domains
};

Stats stats(const Dataset& dataset);

}  // namespace entrain::dataset
