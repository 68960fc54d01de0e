// VGG16 (Simonyan and Zisserman 2015): 13 convolutions of 3x3 in 5 stages, 3 fully connected layers.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct VggOptions {
  int64_t side = 224;     // of the square image; a multiple of 32
  int64_t width = 64;     // channels of the first stage; 2, 4, 8 and 8 times that in the others
  int64_t hidden = 4096;  // of the fully connected layers
  int64_t classes = 1000;
  double dropout = 0;  // 0.5 in the paper; 0 makes a step a function of its batch only
};

std::shared_ptr<Model> make_vgg16(const VggOptions& options);

}  // namespace entrain::models
