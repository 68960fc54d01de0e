#include "entrain/models/blueprint.h"

#include <torch/library.h>

#include "entrain/models/registry.h"
#include "entrain/models/script.h"

namespace entrain::models {
namespace {

// libtorch has no way to say where modules make their parameters. But each operation first passes the
// dispatch keys that its thread includes: this one, which nothing else uses, turns whatever names a device to
// the meta device.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

void make_on_meta(const c10::OperatorHandle& operation, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& arguments = operation.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device") (*stack)[first + i] = c10::Device(c10::kMeta);
  }
  const c10::impl::ExcludeDispatchKeyGuard once(kKey);
  operation.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&make_on_meta>());
}

// The shapes that libtorch 1.13 cannot work out by itself.

using MaybeTensor = c10::optional<torch::Tensor>;

torch::Tensor empty_convolution(const torch::Tensor& x, const torch::Tensor& weight, const MaybeTensor&,
                                at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                bool, at::IntArrayRef, int64_t) {
  std::vector<int64_t> sizes{x.size(0), weight.size(0)};
  for (size_t i = 0; i < stride.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t reach = dilation[i] * (weight.size(axis) - 1) + 1;
    sizes.push_back((x.size(axis) + 2 * padding[i] - reach) / stride[i] + 1);
  }
  return torch::empty(sizes, x.options());
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> batch_norm(const torch::Tensor& x, const MaybeTensor&,
                                                                   const MaybeTensor&, const MaybeTensor&,
                                                                   const MaybeTensor&, bool, double, double) {
  const auto by_channel = [&] { return torch::empty({x.size(1)}, x.options()); };
  return {torch::empty_like(x), by_channel(), by_channel()};
}

torch::Tensor index_select(const torch::Tensor& x, int64_t axis, const torch::Tensor& index) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[static_cast<size_t>(axis)] = index.numel();
  return torch::empty(sizes, x.options());
}

torch::Tensor relu(const torch::Tensor& x) { return torch::empty_like(x); }

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("convolution_overrideable", &empty_convolution);
  library.impl("native_batch_norm", &batch_norm);
  library.impl("index_select", &index_select);
  library.impl("relu", &relu);
}

}  // namespace

std::shared_ptr<Model> make_blueprint(const std::string& name) {
  if (is_script(name)) return make_model(name, 0);  // its numbers are in the file
  const c10::impl::IncludeDispatchKeyGuard guard(kKey);
  return make_model(name, 0);
}

}  // namespace entrain::models
