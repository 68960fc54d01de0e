// What a pipeline is asked to be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/remat.h"

namespace entrain::pipeline {

struct Options {
  std::vector<int> balance;  // layers a cell; as many cells as devices * chunks
  int devices = 1;
  int chunks = 1;  // cells a device; > 1 with the schedule "interleaved" only
  int micro_batches = 1;
  std::string schedule = "gpipe";
  Remat remat = Remat::kExceptLast;
  uint64_t seed = 0;
  double loss_scale = 1;         // of what backward starts from, not of the loss that is returned
  bool defer_batch_norm = true;  // running statistics move once a mini-batch
  int threads_per_cell = 0;      // of torch's own, inside an operation; 0: the machine's cores shared out
};

}  // namespace entrain::pipeline
