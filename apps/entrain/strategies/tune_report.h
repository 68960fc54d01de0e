// What a tune has found, as JSON and as a table with every builder beside it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "entrain/dataset/dataset.h"
#include "entrain/tuner/result.h"

namespace entrain::app {

// The builder that times are compared with: what PyTorch's DDP does.
inline constexpr const char* kReference = "ddp";

// What was tuned, and how.
struct TuneSummary {
  std::string model, cluster, mode;
  int64_t batch_size;
  double iterations;               // of the job that money is worked out for
  std::filesystem::path strategy;  // where the best one was written
  bool interrupted;
  bool shapes = false;      // which ranks hold which layers was searched, too
  double shared_cores = 0;  // of emulated hosts (planner/bound.h)
};

// `domain` with all trials: they cost money too, where the cluster has prices.
nlohmann::json tune_report(const tuner::TuneResult& result, const dataset::Domain& domain,
                           const TuneSummary& tuned);

// For people: a table, what it says, and what to do next. Requires: `report` of tune_report().
std::string tune_text(const nlohmann::json& report);

}  // namespace entrain::app
