// How a module is trained by all workers together, and where its time goes.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/base/non_finite.h"

namespace entrain::parallel {

// What happens to a module's buffers (batch normalization's statistics, say) after each step.
enum class Buffers {
  kOwn,        // they belong to each rank
  kBroadcast,  // rank 0's go to all, as with DistributedDataParallel
  kAverage,    // the mean of all workers'; what is no floating-point number is rank 0's
};

// `Strategy`: a text, as programs write it (entrain::Options), or the request that it was read into
// (parallel::Options, in distributed.h).
template <typename Strategy>
struct BasicOptions {
  // A builder's name or a strategy file; through entrain.h also "auto": found while training.
  Strategy strategy = "allreduce";
  uint64_t seed = 0;  // of builders that draw
  // The next forward starts while later variables are still under way, and waits at the first operation of
  // this thread that reads one of them. Whoever reads a parameter in another way (its memory, torch::save,
  // another thread) must call finish() first. With libtorch's own optimizers, without clip_norm and kSkip.
  bool overlap_forward = false;
  // step(): gradients are scaled down to this norm over all variables; 0: as they are.
  double clip_norm = 0;
  // step(): what to do when a loss or a mean gradient is not finite. kSkip: no rank makes this update.
  NonFinite on_nonfinite = NonFinite::kStop;
  Buffers buffers = Buffers::kOwn;
  // Examples per update, of all workers together, and each worker's share of them (empty: equal). A worker's
  // loss is then the mean over the examples that range() names. 0: each worker's loss counts alike.
  int64_t examples = 0;
  std::vector<double> shares = {};
  int64_t first_step = 0;  // its number in messages, where a job was resumed
  // "auto": how many steps the job will make, as far as is known; at most about a tenth of them are trials.
  int64_t steps = 10'000;
};

// Where the time went since the start, in seconds.
struct Times {
  double backward = 0;  // gradients being made
  double waited = 0;    // for gradients to arrive
  double updated = 0;   // in the optimizer
};

}  // namespace entrain::parallel
