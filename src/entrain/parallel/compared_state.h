// Ranks that hold the same values must hold the same bits: sums arrive alike everywhere, and updates follow
// from them. One that does not has a faulty memory, processor or link, which nothing else would show.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/plan/plan.h"

namespace entrain::parallel {

struct HeldValue {
  std::string name;
  torch::Tensor tensor;
  int set = 0;  // of values that the same ranks hold: a number, the same on all ranks
};

// Of what is stored: nothing is copied where it lies on the host in one piece.
uint64_t hash_of(const torch::Tensor& tensor);
uint64_t hash_of(const plan::Plan& plan);

// Collective over the workers, after `step` steps: 16 bytes per set and rank, by way of rank 0; by name only
// when something differs. Throws Error, the same on all workers, naming the ranks whose values (or plan)
// differ from those of most ranks; where no value is that of most, all ranks that hold it.
void compare_state(job::Context& context, int64_t step, const std::vector<HeldValue>& held,
                   const plan::Plan& plan);

}  // namespace entrain::parallel
