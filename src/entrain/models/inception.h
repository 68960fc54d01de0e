// Inception v3 (Szegedy et al. 2016), without its auxiliary head.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct InceptionOptions {
  int64_t divisor = 1;  // of all channels; divides 16
  int64_t side = 299;   // 75 or more
  int64_t classes = 1000;
  double dropout = 0;  // 0.5 in the paper; 0 makes a step a function of its batch only
};

// Throws InputError for a divisor or side that makes no model.
std::shared_ptr<Model> make_inception_v3(const InceptionOptions& options);

}  // namespace entrain::models
