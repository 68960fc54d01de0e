// The 7-layer network for CIFAR-10 of the EASGD and Leader SGD experiments, on 28x28 crops:
//   (3,28,28) C5 (64,24,24) P2 (64,12,12) C5 (128,8,8) P2 (128,4,4) C3 (64,2,2) D (256) S (10)
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct Cnn7Options {
  int64_t width = 64;  // channels of the first and third convolution; twice that in the second
  int64_t hidden = 256;
  int64_t classes = 10;
  double dropout = 0;  // 0.5 in the paper; 0 makes a step a function of its batch only
};

std::shared_ptr<Model> make_cnn7(const Cnn7Options& options);

}  // namespace entrain::models
