#include "entrain/parallel/updater.h"

#include <typeinfo>

#include "entrain/base/error.h"

namespace entrain::parallel {
namespace {

// A class derived from one of these may do anything, so only the very type counts.
bool treats_parameters_apart(const torch::optim::Optimizer& optimizer) {
  const std::type_info& type = typeid(optimizer);
  return type == typeid(torch::optim::SGD) || type == typeid(torch::optim::Adam) ||
         type == typeid(torch::optim::AdamW) || type == typeid(torch::optim::RMSprop) ||
         type == typeid(torch::optim::Adagrad);
}

}  // namespace

void Updater::begin() {
  if (dynamic_cast<torch::optim::LBFGS*>(&optimizer_) != nullptr) {
    bad_input(
        "step() with LBFGS, which computes the loss several times; instead: optimizer.step(closure), where "
        "the closure calls zero_grad() and backward() of this handle and returns entrain::mean() of the "
        "loss");
  }
  one_by_one_ = treats_parameters_apart(optimizer_);
  groups_.clear();
  group_of_.clear();
  for (const auto& group : optimizer_.param_groups()) {
    for (const auto& parameter : group.params()) {
      const bool first = group_of_.emplace(parameter.unsafeGetTensorImpl(), groups_.size()).second;
      one_by_one_ = one_by_one_ && first;
    }
    groups_.emplace_back(std::vector<torch::Tensor>{}, group.options().clone());
  }
}

bool Updater::holds(const torch::Tensor& parameter) const {
  return group_of_.contains(parameter.unsafeGetTensorImpl());
}

void Updater::update(const torch::Tensor& parameter) {
  const size_t group = group_of_.at(parameter.unsafeGetTensorImpl());
  std::vector<torch::optim::OptimizerParamGroup> only;
  only.emplace_back(std::vector<torch::Tensor>{parameter}, groups_[group].options().clone());
  optimizer_.param_groups().swap(only);
  try {
    optimizer_.step();
  } catch (...) {
    optimizer_.param_groups().swap(only);
    throw;
  }
  optimizer_.param_groups().swap(only);
}

}  // namespace entrain::parallel
