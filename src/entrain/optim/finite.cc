#include "entrain/optim/finite.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "entrain/base/error.h"

namespace entrain {

NonFinite parse_non_finite(std::string_view name) {
  if (name == "stop") return NonFinite::kStop;
  if (name == "skip") return NonFinite::kSkip;
  bad_input("on non-finite is '{}', allowed: stop, skip", name);
}

std::string_view to_string(NonFinite policy) { return policy == NonFinite::kStop ? "stop" : "skip"; }

}  // namespace entrain

namespace entrain::optim {
namespace {

// A number is infinite or NaN when all bits of its exponent are set. Without the sign, adding the lowest bit
// of the exponent then carries into the sign's place, and only then:
//
//   float32   0 11111111 mmm... + 0 00000001 000... = 1 00000000 mmm...
//
// An and, an addition and an or, which every compiler vectorises for every processor.
template <typename Bits>
bool exponents_finite(const void* data, int64_t count, Bits lowest_of_exponent) {
  constexpr int64_t kBlock = 16384;  // between two looks at what has been found
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto* bits = static_cast<const Bits*>(data);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) {
      found = static_cast<Bits>(found | (static_cast<Bits>(bits[i] & (kSign - 1)) + lowest_of_exponent));
    }
    if (found & kSign) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const torch::Tensor& tensor) {
  if (!tensor.defined()) return true;
  if (tensor.is_sparse()) return all_finite(tensor._values());
  if (!tensor.is_floating_point() && !tensor.is_complex()) return true;
  if (tensor.is_cpu() && tensor.layout() == torch::kStrided && tensor.is_non_overlapping_and_dense()) {
    switch (tensor.scalar_type()) {
      case torch::kFloat32:
        return exponents_finite<uint32_t>(tensor.data_ptr(), tensor.numel(), uint32_t{1} << 23);
      case torch::kFloat64:
        return exponents_finite<uint64_t>(tensor.data_ptr(), tensor.numel(), uint64_t{1} << 52);
      case torch::kFloat16:
        return exponents_finite<uint16_t>(tensor.data_ptr(), tensor.numel(), uint16_t{1} << 10);
      case torch::kBFloat16:
        return exponents_finite<uint16_t>(tensor.data_ptr(), tensor.numel(), uint16_t{1} << 7);
      default:
        break;
    }
  }
  const torch::NoGradGuard no_grad;
  return at::isfinite(tensor).all().item<bool>();
}

bool all_finite(const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> flags;  // of GPUs, not waited for yet
  for (const torch::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cpu()) {
      if (!all_finite(tensor)) return false;
    } else if (tensor.is_floating_point() || tensor.is_complex()) {
      flags.push_back(at::isfinite(tensor.is_sparse() ? tensor._values() : tensor).all());
    }
  }
  for (size_t i = 1; i < flags.size(); ++i) flags[0].logical_and_(flags[i].to(flags[0].device()));
  return flags.empty() || flags[0].item<bool>();
}

std::optional<std::string> first_non_finite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!all_finite(tensor)) return name;
  }
  return std::nullopt;
}

std::string describe_non_finite(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor values = (tensor.is_sparse() ? tensor._values() : tensor).detach().flatten();
  const torch::Tensor bad = at::isfinite(values).logical_not();
  const torch::Tensor first = values.masked_select(bad);
  return fmt::format("{} of {} values, the first is {}", first.numel(), values.numel(),
                     values.is_complex() ? NAN : first[0].item<double>());
}

std::optional<std::string> trouble_with(double loss, const NamedTensors& parameters) {
  if (!std::isfinite(loss)) return fmt::format("the loss is {}", loss);
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) gradients.push_back(parameter.grad());
  if (all_finite(gradients)) return std::nullopt;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (all_finite(gradients[i])) continue;
    return fmt::format("the gradient of {} is not finite ({})", parameters[i].first,
                       describe_non_finite(gradients[i]));
  }
  return std::nullopt;
}

void update_and_check(torch::optim::Optimizer& optimizer, const NamedTensors& parameters, int rank,
                      int64_t step) {
  optimizer.step();
  const auto name = first_non_finite(parameters);
  if (name) stop_at_non_finite(rank, step, fmt::format("{} is not finite after the update", *name));
}

void stop_at_non_finite(int rank, int64_t step, const std::string& what) {
  fail("rank {}, step {}: {}; a lower learning rate or clipping may help", rank, step, what);
}

}  // namespace entrain::optim
