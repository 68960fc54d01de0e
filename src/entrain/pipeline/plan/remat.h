// Rematerialization: which micro-batches keep only their cell's input through forward, and
// run forward again just before backward.
#pragma once

#include <string>
#include <vector>

namespace entrain::pipeline {

enum class Remat {
  kNever,       // every activation is kept: fastest, largest
  kExceptLast,  // the last micro-batch, M-1, is kept: in "gpipe" its backward comes first, at once
  kAlways,      // every micro-batch is recomputed
};

// "never", "except-last", "always". parse_remat throws InputError for any other.
std::string remat_name(Remat remat);
Remat parse_remat(const std::string& name);
std::vector<std::string> remat_names();

// Whether backward of `micro_batch`, one of `micro_batches`, starts by recomputing forward.
bool recomputes(Remat remat, int micro_batch, int micro_batches);

}  // namespace entrain::pipeline
