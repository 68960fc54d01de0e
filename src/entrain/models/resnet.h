// Residual networks (He et al. 2016), with batch normalization.
#pragma once

#include <memory>
#include <vector>

#include "entrain/models/model.h"

namespace entrain::models {

// For CIFAR: a 3x3 stem, then stages of `width`, 2 and 4 times that, each of `blocks` pairs of 3x3
// convolutions; depth 6 blocks + 2. Shortcuts that change the shape subsample and pad (no parameters).
struct CifarResnetOptions {
  int64_t blocks = 3;  // 3: ResNet-20
  int64_t width = 16;
  int64_t side = 32;
  int64_t classes = 10;
};

// For ImageNet: a 7x7 stem, then stages of bottlenecks (1x1, 3x3 with the stride, 1x1 to 4 times the width).
struct BottleneckResnetOptions {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // ResNet-50
  int64_t width = 64;
  int64_t side = 224;
  int64_t classes = 1000;
};

std::shared_ptr<Model> make_cifar_resnet(const CifarResnetOptions& options);
std::shared_ptr<Model> make_bottleneck_resnet(const BottleneckResnetOptions& options);

}  // namespace entrain::models
