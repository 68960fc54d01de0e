// A data set cut into training, validation and test parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

struct SplitOptions {
  double training = 0.7;
  double validation = 0.15;  // the rest is for testing
  uint64_t seed = 0;
  // Whole domains for testing: of these models, on these clusters, or of these names. With any, the other
  // domains are shared between training and validation in the proportion above.
  std::vector<std::string> hold_out_models, hold_out_clusters, hold_out_domains;
};

struct Parts {
  Dataset training, validation, test;
};

// Within each domain by `seed`. Trials that repeat a strategy stay together: a test must not ask for what
// was learnt. Domains without a trial in a part are left out of it. Throws InputError when shares are no
// shares, or a held-out name is in no domain (naming those there are).
Parts split(const Dataset& dataset, const SplitOptions& options);

}  // namespace entrain::dataset
