// The pipeline, one part of a strategy: how many cells, how many micro-batches, in which order. Values and
// their allowed ranges; what runs them is in pipeline/.
#pragma once

#include <string>
#include <vector>

namespace entrain::strategy {

struct Pipeline {
  int devices = 1;                    // K; 1: no pipeline
  int micro_batches = 1;              // M
  std::string schedule = "1f1b";      // gpipe, 1f1b, interleaved
  int chunks = 1;                     // cells a device; more than 1 when interleaved
  std::string remat = "except-last";  // never, except-last, always
  std::vector<int> balance = {};      // layers a cell; empty: found by measured time
  std::string cells =
      "auto";  // what a device is: threads (of a rank), ranks; auto: ranks if there are enough

  friend bool operator==(const Pipeline&, const Pipeline&) = default;

  // There is one, or micro-batches to accumulate gradients over.
  bool there() const { return devices > 1 || micro_batches > 1; }
};

// Throws InputError naming the field, its value and what is allowed.
void validate(const Pipeline& pipeline);

}  // namespace entrain::strategy
