// A pipeline: how many devices, how many micro-batches, in which order. One type for whoever asks for one (a
// strategy), plans one (fit.h) and runs one (pipeline/run/options.h).
#pragma once

#include <string>
#include <vector>

#include "entrain/pipeline/plan/remat.h"

namespace entrain::pipeline {

struct Pipeline {
  int devices = 1;                   // K; 1: no pipeline
  int micro_batches = 1;             // M
  std::string schedule = "1f1b";     // gpipe, 1f1b, interleaved
  int chunks = 1;                    // cells per device; more than 1 when interleaved
  Remat remat = Remat::kExceptLast;  // which micro-batches recompute their activations
  std::vector<int> balance = {};     // layers per cell; empty: found by measured time
  std::string cells =
      "auto";  // what a device is: threads (of a rank), ranks; auto: ranks if there are enough

  friend bool operator==(const Pipeline&, const Pipeline&) = default;

  // There is one, or micro-batches to accumulate gradients over.
  bool there() const { return devices > 1 || micro_batches > 1; }
};

// Throws InputError naming the field, its value and what is allowed.
void validate(const Pipeline& pipeline);

}  // namespace entrain::pipeline
