// The base optimizer of a worker, as the settings name it.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "entrain/strategy/optimizer.h"

namespace entrain::optim {

// sgd, momentum (0.9), nesterov (0.9) or adam, with the settings' weight decay and the rate of worker `index`
// of `workers`. The rule eamsgd forces nesterov: that is all it differs from easgd by.
std::unique_ptr<torch::optim::Optimizer> make_base(const strategy::Optimizer& settings,
                                                   std::vector<torch::Tensor> parameters, int index,
                                                   int workers);

}  // namespace entrain::optim
