// What a torch::optim optimizer remembers between steps, as named tensors, and back again bit for bit.
//
//   optimizer.GROUP.lr                 the group's learning rate (float64): schedulers change it
//   optimizer.GROUP.PARAMETER.FIELD    one field of one parameter's state (a tensor, or a count as int64)
//   ...FIELD.{indices,values,coalesced}  a sparse tensor (SGD's momentum of sparse gradients)
//
// GROUP counts from 0; PARAMETER is its name in the module. Other options (betas, weight decay, ...) are the
// user's, who sets them when making the optimizer.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace entrain::checkpoint {

// "SGD", "Adam", "AdamW", "Adagrad" or "RMSprop". Throws InputError naming these for any other.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);

// The state; tensors share their memory with the optimizer. Throws InputError for an unknown optimizer, and
// for one that holds a parameter which is not `module`'s.
std::vector<std::pair<std::string, torch::Tensor>> collect_optimizer_state(
    const torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

// Checks `saved` (all names above, exactly those) against the optimizer and returns a function that puts it
// in place (call it once; it does not throw); until then nothing changes. `optimizer` must outlive the
// function. Throws InputError naming the parameter and what differs.
std::function<void()> prepare_optimizer_state(const std::map<std::string, torch::Tensor>& saved,
                                              torch::optim::Optimizer& optimizer,
                                              const torch::nn::Module& module);

}  // namespace entrain::checkpoint
