#include "entrain/graph/forward_watch.h"

#include <torch/torch.h>

namespace entrain::graph {

ForwardWatch::ForwardWatch(std::vector<torch::Tensor> variables, std::function<void(size_t)> on_use)
    : variables_(std::move(variables)),
      on_use_(std::move(on_use)),
      watch_([this](const at::RecordFunction& op) { before(op); }) {
  for (size_t i = 0; i < variables_.size(); ++i) index_.emplace(variables_[i].unsafeGetTensorImpl(), i);
}

void ForwardWatch::before(const at::RecordFunction& op) const {
  for (const c10::IValue& input : op.inputs()) {
    if (input.isTensor()) {
      visit(input);
    } else if (input.isList()) {
      for (const c10::IValue& element : input.toListRef()) {
        if (!element.isTensor()) break;  // a list of numbers
        visit(element);
      }
    }
  }
}

void ForwardWatch::visit(const c10::IValue& input) const {
  const auto found = index_.find(input.unsafeToTensorImpl());
  if (found != index_.end()) on_use_(found->second);
}

}  // namespace entrain::graph
