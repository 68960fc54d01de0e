#include "entrain/pipeline/profile/saved_tensors.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <string_view>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

thread_local SavedTensors* current = nullptr;

struct Rule {
  std::vector<size_t> inputs = {};   // kept
  std::vector<size_t> factors = {};  // kept where another of them needs a gradient
  std::vector<size_t> outputs = {};  // kept
};

// By operation, without the "_" of those that work in place.
const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> table = {
      // Products: each factor is needed for the other's gradient.
      {"mm", {.factors = {0, 1}}},
      {"mv", {.factors = {0, 1}}},
      {"bmm", {.factors = {0, 1}}},
      {"mul", {.factors = {0, 1}}},
      {"addmm", {.factors = {1, 2}}},
      {"addmv", {.factors = {1, 2}}},
      {"baddbmm", {.factors = {1, 2}}},
      {"convolution", {.factors = {0, 1}}},
      {"div", {.inputs = {1}}},
      // Kept: the input.
      {"native_batch_norm", {.inputs = {0}, .outputs = {1, 2}}},
      {"native_layer_norm", {.inputs = {0}, .outputs = {1, 2}}},
      {"leaky_relu", {.inputs = {0}}},
      {"softplus", {.inputs = {0}}},
      {"gelu", {.inputs = {0}}},
      {"silu", {.inputs = {0}}},
      {"clamp", {.inputs = {0}}},
      {"hardtanh", {.inputs = {0}}},
      {"pow", {.inputs = {0}}},
      {"log", {.inputs = {0}}},
      {"max_pool2d_with_indices", {.inputs = {0}, .outputs = {1}}},
      {"avg_pool2d", {.inputs = {0}}},
      {"_adaptive_avg_pool2d", {.inputs = {0}}},
      {"embedding", {.inputs = {1}}},
      {"index_select", {.inputs = {2}}},
      {"gather", {.inputs = {0, 2}}},
      {"masked_fill", {.inputs = {1}}},
      {"binary_cross_entropy_with_logits", {.inputs = {0, 1}}},
      {"nll_loss_forward", {.inputs = {0, 1}}},
      {"nll_loss2d_forward", {.inputs = {0, 1}}},
      // Kept: the output.
      {"relu", {.outputs = {0}}},
      {"_softmax", {.outputs = {0}}},
      {"_log_softmax", {.outputs = {0}}},
      {"sigmoid", {.outputs = {0}}},
      {"tanh", {.outputs = {0}}},
      {"exp", {.outputs = {0}}},
      {"sqrt", {.outputs = {0}}},
      {"native_dropout", {.outputs = {1}}},
  };
  return table;
}

// Inside an operation's kernel: what runs there has no derivative of its own.
bool below_autograd() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradFunctionality);
}

const Rule* find_rule(std::string_view name) {
  if (!name.starts_with("aten::")) return nullptr;
  name.remove_prefix(6);
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto found = rules().find(name);
  return found == rules().end() ? nullptr : &found->second;
}

bool is_tensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

}  // namespace

// Inputs can be seen when an operation starts only, outputs when it ends.
struct SavedTensors::Operation : at::ObserverContext {
  const Rule* rule;
  std::vector<torch::Tensor> kept;
};

SavedTensors::SavedTensors() {
  if (current != nullptr) fail("saved tensors are watched on this thread already");
  current = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(start, end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

SavedTensors::~SavedTensors() {
  at::removeCallback(handle_);
  current = nullptr;
}

std::unique_ptr<at::ObserverContext> SavedTensors::start(const at::RecordFunction& op) {
  if (!at::GradMode::is_enabled() || below_autograd()) return nullptr;
  const Rule* const rule = find_rule(op.name());
  if (rule == nullptr) return nullptr;
  const auto inputs = op.inputs();
  const auto needs_gradient = [&](size_t i) {
    return i < inputs.size() && is_tensor(inputs[i]) && inputs[i].toTensor().requires_grad();
  };
  bool differentiable = false;
  for (size_t i = 0; i < inputs.size(); ++i) differentiable |= needs_gradient(i);
  if (!differentiable) return nullptr;

  auto operation = std::make_unique<Operation>();
  operation->rule = rule;
  const auto keep = [&](size_t i) {
    if (i < inputs.size() && is_tensor(inputs[i])) operation->kept.push_back(inputs[i].toTensor());
  };
  for (const size_t i : rule->inputs) keep(i);
  for (const size_t i : rule->factors) {
    for (const size_t other : rule->factors) {
      if (other != i && needs_gradient(other)) keep(i);
    }
  }
  return operation;
}

void SavedTensors::end(const at::RecordFunction& op, at::ObserverContext* context) {
  if (context == nullptr || current == nullptr) return;
  const auto& operation = static_cast<const Operation&>(*context);
  for (const torch::Tensor& tensor : operation.kept) current->note(tensor);
  const auto& outputs = op.outputs();
  for (const size_t i : operation.rule->outputs) {
    if (i < outputs.size() && is_tensor(outputs[i])) current->note(outputs[i].toTensor());
  }
}

void SavedTensors::ignore(const torch::Tensor& tensor) {
  if (known_.insert(tensor.storage().unsafeGetStorageImpl()).second) held_.push_back(tensor);
}

void SavedTensors::note(const torch::Tensor& tensor) {
  if (!known_.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
  held_.push_back(tensor.detach());
  noted_.push_back(held_.back());
}

int64_t SavedTensors::take_bytes(const torch::Tensor& except) {
  int64_t bytes = 0;
  std::vector<torch::Tensor> left;
  for (const torch::Tensor& tensor : noted_) {
    if (tensor.is_alias_of(except)) {
      left.push_back(tensor);
    } else {
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
    }
  }
  noted_ = std::move(left);
  return bytes;
}

}  // namespace entrain::pipeline
