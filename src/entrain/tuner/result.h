// What a tune's trials amount to. Pure: a log is enough, so experiments and reports use it too.
#pragma once

#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"

namespace entrain::tuner {

// Origins that are not the search's.
inline constexpr const char* kBuilderOrigin = "builder";
inline constexpr const char* kConfirmOrigin = "confirm";
bool is_proposed(const dataset::Trial& trial);

// After k proposed trials.
struct CurvePoint {
  int k;
  double best_s;       // least step time so far; infinity while none is ok
  double improvement;  // improvement@k: best builder / best_s
  double hit_rate;     // hit rate@k: share of the ok ones that beat the best builder
};

struct Standing {
  std::string name;
  double seconds;
};

struct TuneResult {
  strategy::Strategy best;  // never worse than the best builder, as far as the final round can tell
  double best_s = 0;
  std::string best_baseline;  // builder's name
  double baseline_s = 0;
  double speedup = 1;        // baseline_s / best_s
  bool is_baseline = false;  // nothing better was found: `best` is the builder's
  double hit_rate = 0;
  int trials = 0;  // proposed ones, failed ones too
  int failed = 0;  // of all
  std::vector<CurvePoint> curve;
  std::vector<Standing> baselines;  // builders that ran, fastest first; those of the final round by it
};

// How many builders join the final round: the first one may have been lucky too.
inline constexpr int kFinalBuilders = 2;

// The candidates for the final round: the `count` proposed strategies with the least step time, best first,
// then the best builders. Indices into trials; empty without an ok builder or proposal.
std::vector<size_t> finalists(const std::vector<dataset::Trial>& trials, int count);

// The strategy is chosen among the finalists by their confirming trials alone, for the best of many noisy
// trials is lucky: a proposed one when the slowest of its trials was faster than the best builder's fastest.
// Where there are none, by the trials themselves. Throws Error when no builder ran.
TuneResult summarize(const std::vector<dataset::Trial>& trials);

}  // namespace entrain::tuner
