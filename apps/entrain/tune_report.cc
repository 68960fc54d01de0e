#include "tune_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "entrain/base/units.h"
#include "entrain/simulator/analytic/bound.h"
#include "entrain/tuner/money.h"

namespace entrain::app {

nlohmann::json tune_report(const tuner::TuneResult& r, const dataset::Domain& domain, const Tuned& tuned) {
  const simulator::Bound bound = simulator::lower_bound(domain.graph, domain.cluster);
  nlohmann::json json = {{"model", tuned.model},
                         {"cluster", tuned.cluster},
                         {"batch_size", tuned.batch_size},
                         {"mode", tuned.mode},
                         {"best_step_time_s", r.best_s},
                         {"best_baseline", r.best_baseline},
                         {"best_baseline_step_time_s", r.baseline_s},
                         {"best_is_baseline", r.is_baseline},
                         {"speedup", r.speedup},
                         {"hit_rate", r.hit_rate},
                         {"trials", r.trials},
                         {"failed", r.failed},
                         {"compute_s", bound.compute},
                         {"bound_s", bound.seconds},
                         {"speedup_possible", r.baseline_s / bound.seconds},
                         {"strategy", tuned.strategy.string()},
                         {"interrupted", tuned.interrupted}};
  for (const auto& b : r.baselines)
    json["baselines"].push_back({{"name", b.name}, {"step_time_s", b.seconds}});
  for (const auto& p : r.curve)
    json["curve"].push_back({{"trial", p.k}, {"improvement", p.improvement}, {"hit_rate", p.hit_rate}});
  const double price = tuner::price_per_hour(domain.cluster);
  if (price > 0) {
    double steps = 0;
    for (const auto& trial : domain.trials) steps += static_cast<double>(trial.seconds.size()) + 2;
    const auto s = tuner::saving(tuned.iterations, r.baseline_s, r.speedup, steps, price);
    json["money"] = {{"iterations", tuned.iterations},
                     {"price_per_hour", price},
                     {"before", s.before},
                     {"after", s.after},
                     {"tuning", s.tuning},
                     {"saved", s.net()}};
  }
  return json;
}

void print_tune_report(const nlohmann::json& j) {
  const double best = j["best_step_time_s"].get<double>();
  fmt::print("\n{} on {}, batch {} a rank: {} trials, hit rate {:.0f}%\n\n", j["model"].get<std::string>(),
             j["cluster"].get<std::string>(), j["batch_size"].get<int64_t>(), j["trials"].get<int>(),
             100 * j["hit_rate"].get<double>());
  fmt::print("{:<24} {:>10} {:>9}\n", "strategy", "step", "against");
  const auto baseline = j["best_baseline"].get<std::string>();
  fmt::print("{:<24} {:>10}\n",
             j["best_is_baseline"].get<bool>() ? "tuned: " + baseline + " itself" : "tuned",
             format_seconds(best));
  for (const auto& b : j["baselines"]) {
    const double s = b["step_time_s"].get<double>();
    fmt::print("{:<24} {:>10} {:>8.2f}x\n", b["name"].get<std::string>(), format_seconds(s), s / best);
  }
  const double possible = j["speedup_possible"].get<double>();
  fmt::print(
      "\nComputing takes {}, and without compression no strategy can be faster than {} on these links and "
      "hosts: {} over {}.\n",
      format_seconds(j["compute_s"].get<double>()), format_seconds(j["bound_s"].get<double>()),
      possible > 1 ? fmt::format("{:.2f}x is the most possible", possible) : "nothing is to be gained",
      baseline);
  if (j.contains("money")) {
    fmt::print("{:.0f} iterations: {:.2f} with {}, {:.2f} tuned, {:.2f} for the trials; saved {:.2f}\n",
               j["money"]["iterations"].get<double>(), j["money"]["before"].get<double>(), baseline,
               j["money"]["after"].get<double>(), j["money"]["tuning"].get<double>(),
               j["money"]["saved"].get<double>());
  }
  if (j["interrupted"].get<bool>()) {
    fmt::print("interrupted; go on with --resume {}\n",
               std::filesystem::path(j["strategy"].get<std::string>()).parent_path().string());
  }
  fmt::print("written to {}; train with --strategy {}\n", j["strategy"].get<std::string>(),
             j["strategy"].get<std::string>());
}

}  // namespace entrain::app
