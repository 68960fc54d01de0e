#include "entrain/tuner/noted_runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/base/files.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/tuner/result.h"

namespace entrain::tuner {

namespace fs = std::filesystem;

Measured NotedRunner::run(const strategy::Strategy& strategy, double deadline_s) {
  dataset::Trial trial;
  trial.number = number_;
  trial.strategy = strategy;
  fs::remove(note_);
  dataset::TrialLog(note_).append(domain_, trial);
  auto measured = runner_.run(strategy, deadline_s);
  fs::remove(note_);
  return measured;
}

bool record_breakdown(const fs::path& note, const fs::path& log, const std::string& domain) {
  if (!fs::exists(note) || !fs::exists(log)) return false;
  const auto json = nlohmann::json::parse(read_file(note), nullptr, false);
  fs::remove(note);
  if (json.is_discarded()) return false;
  dataset::Trial trial;
  trial.number = json["trial"].get<int>();
  const dataset::Dataset logged = dataset::load(log);
  const auto* known = logged.find(domain);
  const bool recorded =
      known != nullptr && !known->trials.empty() && known->trials.back().number >= trial.number;
  if (recorded) return true;  // an error, which a rank has lived to write down
  trial.strategy = strategy::from_json(json["strategy"].dump());
  trial.status = dataset::Status::kFailed;
  trial.error = "the job ended during this trial";
  trial.origin = strategy::is_builder(trial.strategy.id) ? kBuilderOrigin : "proposed";
  dataset::TrialLog(log).append(domain, trial);
  return true;
}

}  // namespace entrain::tuner
