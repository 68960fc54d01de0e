#include "strategies/tune_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/base/units.h"
#include "entrain/simulator/analytic/bound.h"
#include "entrain/tuner/money.h"
#include "strategies/tune_certificate.h"

namespace entrain::app {
namespace {

using nlohmann::json;
using tuner::Standing;

// ddp's time over this one, both of the same round; null where there is none to compare with.
json speed_of(const Standing& standing, const Standing* reference) {
  if (reference == nullptr) return nullptr;
  if (standing.final_round && !reference->final_round) return nullptr;
  return (standing.final_round ? reference->seconds : reference->first_look_s) / standing.seconds;
}

json to_json(const Standing& standing, const Standing* reference) {
  return {{"name", standing.name},
          {"origin", standing.origin},
          {"step_time_s", standing.seconds},
          {"round", standing.final_round ? "final" : "first look"},
          {"step_time_fastest_s", standing.fastest_s},
          {"step_time_slowest_s", standing.slowest_s},
          {"speed_vs_ddp", speed_of(standing, reference)}};
}

json money_of(const tuner::TuneResult& r, const dataset::Domain& domain, double iterations, double price) {
  double steps = 0;
  for (const auto& trial : domain.trials) steps += static_cast<double>(trial.seconds.size()) + 2;
  const auto s = tuner::saving(iterations, r.baseline_s, r.speedup, steps, price);
  return {{"iterations", iterations}, {"price_per_hour", price}, {"before", s.before},
          {"after", s.after},         {"tuning", s.tuning},      {"saved", s.net()}};
}

constexpr int kWidth = 44;  // of the first column

std::string row(const std::string& name, const json& standing) {
  const json& speed = standing["speed_vs_ddp"];
  return fmt::format("{:<{}} {:>10} {:>9}\n", name, kWidth,
                     format_seconds(standing["step_time_s"].get<double>()),
                     speed.is_null() ? "-" : fmt::format("{:.2f}x", speed.get<double>()));
}

// A round to itself: times of different rounds do not compare.
std::string table(const json& j, const std::string& round, const char* title) {
  std::string rows;
  if (j["tuned"]["round"] == round) {
    rows += row(j["best_is_baseline"].get<bool>()
                    ? fmt::format("  tuned: {} itself", j["best_baseline"].get<std::string>())
                    : "  tuned",
                j["tuned"]);
  }
  for (const json& b : j["baselines"]) {
    if (b["round"] == round) rows += row("  " + b["name"].get<std::string>(), b);
  }
  return rows.empty() ? "" : fmt::format("{:<{}} {:>10} {:>9}\n{}", title, kWidth, "step", "vs ddp", rows);
}

// Builders that were not measured, or not to the end, and why.
std::string left_out(const json& j) {
  std::string text;
  for (const json& each : j["left_out"]) {
    if (text.empty()) text = "left out, as they are slower than what was found before:\n";
    text += fmt::format("  {:<30} {}\n", each["name"].get<std::string>(), each["reason"].get<std::string>());
  }
  return text;
}

std::string tables(const json& j) {
  const bool final_round = j["final_round"];
  std::string text = table(j, "final", "final round: in turn, decides");
  text += table(
      j, "first look",
      final_round ? "first look only: a few steps at the start" : "first look; there was no final round");
  text += left_out(j);
  return text +
         fmt::format("vs {}: {}'s step time over the strategy's, of the same round; above 1 is faster.\n",
                     kReference, kReference);
}

// Which strategy was chosen, and whether anything else is as good for all that is known.
std::string verdict(const json& j) {
  const auto baseline = j["best_baseline"].get<std::string>();
  const auto near = j["within_noise"].get<std::vector<std::string>>();
  const double fastest = j["tuned"]["step_time_fastest_s"], slowest = j["tuned"]["step_time_slowest_s"];
  if (!j["best_is_baseline"].get<bool>()) {
    return fmt::format("The tuned strategy is {:.2f}x as fast as the best {}, {}.\n",
                       j["speedup"].get<double>(), j["shapes"].get<bool>() ? "rival" : "builder", baseline);
  }
  if (near.empty())
    return fmt::format("Nothing that was tried beats {} clearly, so the result is its own.\n", baseline);
  return fmt::format(
      "No clear winner: {}, {} within noise (spread {:.0f}%). The result is {}'s own strategy.\n", baseline,
      fmt::join(near, ", "), 100 * (slowest / fastest - 1), baseline);
}

std::string limits(const json& j) {
  if (j.contains("certificate")) return certificate_text(j["certificate"]);
  const double compute = j["compute_s"], bound = j["bound_s"], best = j["best_step_time_s"];
  if (compute >= 0.95 * best) {
    return fmt::format(
        "Computing alone took {} when it was profiled, about as long as the whole step: synchronization is "
        "not "
        "what limits this job.\n",
        format_seconds(compute));
  }
  if (j["link_bound_s"].get<double>() == 0) {
    return fmt::format(
        "Computing takes {}. All ranks are on one host, so no link limits the rest of the step.\n",
        format_seconds(compute));
  }
  return fmt::format(
      "Computing takes {}. Without compression no strategy can be faster than {} on these links and hosts: "
      "{:.2f}x as fast as {} is the most that is possible.\n",
      format_seconds(compute), format_seconds(bound), std::max(1.0, j["speedup_possible"].get<double>()),
      j["best_baseline"].get<std::string>());
}

}  // namespace

json tune_report(const tuner::TuneResult& r, const dataset::Domain& domain, const TuneSummary& tuned) {
  const simulator::Bound bound = simulator::lower_bound(domain.graph, domain.cluster);
  const Standing* reference = r.find(kReference);
  json report = {{"model", tuned.model},
                 {"cluster", tuned.cluster},
                 {"batch_size", tuned.batch_size},
                 {"mode", tuned.mode},
                 {"best_step_time_s", r.best_s},
                 {"best_baseline", r.best_baseline},
                 {"best_baseline_step_time_s", r.baseline_s},
                 {"best_is_baseline", r.is_baseline},
                 {"speedup", r.speedup},
                 {"speed_vs_ddp", speed_of(r.tuned, reference)},
                 {"within_noise", r.within_noise()},
                 {"final_round", r.had_final_round},
                 {"tuned", to_json(r.tuned, reference)},
                 {"baselines", json::array()},
                 {"hit_rate", r.hit_rate},
                 {"trials", r.trials},
                 {"failed", r.failed},
                 {"compute_s", bound.compute},
                 {"bound_s", bound.seconds},
                 {"link_bound_s", bound.links},
                 {"speedup_possible", r.baseline_s / bound.seconds},
                 {"strategy", tuned.strategy.string()},
                 {"shapes", tuned.shapes},
                 {"left_out", json::array()},
                 {"interrupted", tuned.interrupted}};
  for (const auto& each : r.left_out) {
    report["left_out"].push_back({{"name", each.name}, {"reason", each.reason}});
  }
  if (tuned.shapes) {
    report["certificate"] = certificate_of(r, domain, tuned.shared_cores);
    report["bound_s"] = report["certificate"]["bound_s"];
    report["speedup_possible"] = r.baseline_s / report["bound_s"].get<double>();
  }
  for (const auto& b : r.baselines) report["baselines"].push_back(to_json(b, reference));
  for (const auto& p : r.curve) {
    report["curve"].push_back({{"trial", p.k}, {"improvement", p.improvement}, {"hit_rate", p.hit_rate}});
  }
  const double price = tuner::price_per_hour(domain.cluster);
  if (price > 0) report["money"] = money_of(r, domain, tuned.iterations, price);
  return report;
}

std::string tune_text(const json& j) {
  const std::filesystem::path strategy = j["strategy"].get<std::string>();
  const std::string folder = strategy.parent_path().string();
  std::string text =
      fmt::format("\n{} on {}, batch {} per rank: {} strategies tried", j["model"].get<std::string>(),
                  j["cluster"].get<std::string>(), j["batch_size"].get<int64_t>(), j["trials"].get<int>());
  if (j["trials"].get<int>() > 0) {
    text += fmt::format(", of which {:.0f}% beat every {}", 100 * j["hit_rate"].get<double>(),
                        j["shapes"].get<bool>() ? "rival" : "builder");
  }
  if (j.contains("certificate") && j["certificate"].contains("shape")) {
    text += fmt::format("\nshape: {}", j["certificate"]["shape"].get<std::string>());
  }
  text += "\n\n" + tables(j) + "\n" + verdict(j) + limits(j);
  if (j.contains("money")) {
    const json& m = j["money"];
    text += fmt::format(
        "{:.0f} iterations: {:.2f} with {}, {:.2f} tuned, {:.2f} for the trials; saved {:.2f}\n",
        m["iterations"].get<double>(), m["before"].get<double>(), j["best_baseline"].get<std::string>(),
        m["after"].get<double>(), m["tuning"].get<double>(), m["saved"].get<double>());
  }
  if (j["interrupted"].get<bool>()) text += fmt::format("Interrupted; go on with --resume {}\n", folder);
  text += fmt::format("\nWritten to {}: best.json, result.json, trials.jsonl. Next:\n", folder);
  const std::string job =
      fmt::format("--model {} --cluster {} --batch-size {}", j["model"].get<std::string>(),
                  j["cluster"].get<std::string>(), j["batch_size"].get<int64_t>());
  text += fmt::format("  entrain train {} --strategy {}\n", job, strategy.string());
  if (j.contains("certificate") && j["certificate"].contains("shape")) {
    return text +
           fmt::format("  entrain explain {} {}   # who holds and computes what\n", strategy.string(), job);
  }
  return text + fmt::format("  entrain explain {} --data {}   # why it takes its time\n", strategy.string(),
                            (strategy.parent_path() / "trials.jsonl").string());
}

}  // namespace entrain::app
