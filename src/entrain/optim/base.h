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

// Of all parameters, from the next step on.
void set_rate(torch::optim::Optimizer& base, double rate);

// Scales the gradients of `parameters`, dense or sparse, down to a norm of at most `most` over all of them.
// Returns the norm there was. `most` 0: nothing is looked at, and 0 returned.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double most);

}  // namespace entrain::optim
