// What a tune's trials amount to. Pure: a log is enough, so experiments and reports use it too.
#pragma once

#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"

namespace entrain::tuner {

// Origins that are not the search's.
inline constexpr const char* kBuilderOrigin = "builder";
inline constexpr const char* kAloneOrigin = "one host";
inline constexpr const char* kPipelineOrigin = "pipeline";
inline constexpr const char* kConfirmOrigin = "confirm";
// What the search has to beat: builders, one host alone, plain pipelines.
bool is_rival(const std::string& origin);
bool is_proposed(const dataset::Trial& trial);

// Ids are only names: the same strategy may have been run under another.
bool same(const strategy::Strategy& a, const strategy::Strategy& b);

// After k proposed trials.
struct CurvePoint {
  int k;
  double best_s;       // least step time so far; infinity while none is ok
  double improvement;  // improvement@k: best builder / best_s
  double hit_rate;     // hit rate@k: share of the ok ones that beat the best builder
};

// Step times of the rounds differ: machines drift, and a first look is short. Compare within one round only.
struct Standing {
  std::string name;
  std::string origin;
  double seconds = 0;        // median: of the final round where it was in it, else of the first look
  bool final_round = false;  // which of them
  double first_look_s = 0;
  double fastest_s = 0,
         slowest_s = 0;  // medians of its trials in that round; one trial: p10, p90 of its steps
};

// A rival that was not measured, or not to the end, for it is slower than what was found before.
struct LeftOut {
  std::string name;
  std::string reason;
};

struct TuneResult {
  strategy::Strategy best;  // never worse than the best rival, as far as the final round can tell
  double best_s = 0;
  std::string best_baseline;  // rival's name; empty: all were left out
  double baseline_s = 0;
  double speedup = 1;        // baseline_s / best_s
  bool is_baseline = false;  // nothing better was found: `best` is the builder's
  double hit_rate = 0;
  int trials = 0;  // proposed ones, failed ones too
  int failed = 0;  // of all; those left out, too
  std::vector<CurvePoint> curve;
  std::vector<Standing>
      baselines;  // rivals that ran: those of the final round, then the others; fastest first
  std::vector<LeftOut> left_out;
  Standing tuned;  // `best` as a standing
  bool had_final_round = false;

  const Standing* find(const std::string& builder) const;  // of baselines; null: it did not run
  // The fastest of the baselines with this origin: kAloneOrigin, ...; null: none ran.
  const Standing* fastest(const std::string& origin) const;
  // Builders that the tuned strategy cannot be told from: their trials overlap in its round. Empty: it wins.
  std::vector<std::string> within_noise() const;
};

// How many builders join the final round: the first one may have been lucky too.
inline constexpr int kFinalBuilders = 2;

// The candidates for the final round: the `count` proposed strategies with the least step time, best first,
// then the best builders, the best of one host alone and of plain pipelines, and the builder `reference`,
// which everything is compared with (empty: none).
// Indices into trials; empty without an ok builder or proposal.
std::vector<size_t> finalists(const std::vector<dataset::Trial>& trials, int count,
                              const std::string& reference = "");

// The strategy is chosen among the finalists by their confirming trials alone, for the best of many noisy
// trials is lucky: a proposed one when the slowest of its trials was faster than the best rival's fastest.
// Where there are none, by the trials themselves; also where all rivals were left out as slower, and then
// best_baseline is empty. Throws Error when nothing ran, or rivals failed and none ran.
TuneResult summarize(const std::vector<dataset::Trial>& trials);

}  // namespace entrain::tuner
