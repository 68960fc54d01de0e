#include "entrain/trainer/partial_update.h"

#include "entrain/base/error.h"

namespace entrain {

PartialUpdate::PartialUpdate(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
  if (dynamic_cast<torch::optim::LBFGS*>(&optimizer) != nullptr) {
    bad_input("optimizer LBFGS updates all parameters together; allowed: any that updates each on its own");
  }
  const auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const auto& parameter : groups[g].params()) group_of_[parameter.unsafeGetTensorImpl()] = g;
  }
}

void PartialUpdate::update(const torch::Tensor& parameter) {
  const auto found = group_of_.find(parameter.unsafeGetTensorImpl());
  if (found == group_of_.end()) return;
  std::vector<torch::optim::OptimizerParamGroup> only;
  only.emplace_back(std::vector<torch::Tensor>{parameter},
                    optimizer_.param_groups()[found->second].options().clone());
  optimizer_.param_groups().swap(only);
  try {
    optimizer_.step();
  } catch (...) {
    optimizer_.param_groups().swap(only);
    throw;
  }
  optimizer_.param_groups().swap(only);
}

}  // namespace entrain
