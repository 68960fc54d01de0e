// Finds the fastest strategy for a program's own model on the hosts of its job, with real trials.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "entrain/api/context.h"
#include "entrain/api/strategies.h"

namespace entrain {

struct TuneOptions {
  int trials = 50;     // strategies to try; the builders and a final round come on top
  double minutes = 0;  // stop searching after so many; 0: when all trials are done
  // Also strategies that compress gradients, which changes the update: "fp16", "powersgd:8", ...
  std::vector<std::string> compressors = {};
  uint64_t seed = 0;                // of the search
  std::filesystem::path log = {};   // a new file: every trial as it ends, for `entrain explain`; empty: none
  bool progress = true;             // a line on rank 0's stderr
  std::function<bool()> stop = {};  // asked on rank 0 between trials: end with what was found. Empty: never
};

struct Tuned {
  Strategy best;  // never slower than the best builder, as far as the final round can tell
  double step_s = 0;
  double ddp_s = 0;  // of the builder `ddp`, for comparison; 0: it did not run
  std::string best_builder;
  double best_builder_s = 0;
  int trials = 0;

  double speedup() const { return ddp_s > 0 ? ddp_s / step_s : 0; }  // against `ddp`
};

// Collective over the workers, and the result is the same on all; ranks that only serve call serve(). `loss`
// runs the module's forward on one batch, again and again, and returns the loss. Parameters and buffers are
// then as before. Requires: no handle of this job is in the middle of a step. Throws InputError naming what
// is not allowed, PeerError when a rank fails.
Tuned tune(Context& context, torch::nn::Module& module, const std::function<torch::Tensor()>& loss,
           const TuneOptions& options = {});

}  // namespace entrain
