// DenseNet (Huang et al. 2017), with bottlenecks and compression (DenseNet-BC).
#pragma once

#include <memory>
#include <vector>

#include "entrain/models/model.h"

namespace entrain::models {

// A 7x7 stem, then blocks of layers of which each sees what all before it made and adds `growth` channels;
// between two blocks a transition halves channels and sides.
struct DensenetOptions {
  std::vector<int64_t> blocks = {6, 12, 24, 16};  // DenseNet121
  int64_t growth = 32;
  int64_t side = 224;
  int64_t classes = 1000;
};

std::shared_ptr<Model> make_densenet(const DensenetOptions& options);

}  // namespace entrain::models
