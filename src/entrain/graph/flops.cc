#include "entrain/graph/flops.h"

#include <torch/torch.h>

#include <string_view>

namespace entrain::graph {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

bool tensors(Inputs inputs, size_t first, size_t count) {
  if (inputs.size() < first + count) return false;
  for (size_t i = first; i < first + count; ++i) {
    if (!inputs[i].isTensor() || !inputs[i].toTensor().defined()) return false;
  }
  return true;
}

// (..., n, k) x (k, m) or (..., k, m): 2 n k m for each matrix of the batch. A vector is a matrix of one
// column.
double product(Inputs inputs, size_t a) {
  if (!tensors(inputs, a, 2)) return 0;
  const at::Tensor& left = inputs[a].toTensor();
  const at::Tensor& right = inputs[a + 1].toTensor();
  const bool vector = right.dim() < left.dim();
  return 2.0 * static_cast<double>(left.numel()) * (vector ? 1.0 : static_cast<double>(right.size(-1)));
}

// Each element of the output takes one product with each weight of its filter: 2 |out| |W| / C_out.
// Transposed, each element of the input spreads over the filter: 2 |in| |W| / C_in.
// Arguments: input, weight, bias, stride, padding, dilation, transposed, ...
double convolution(Inputs inputs) {
  if (!tensors(inputs, 0, 2) || inputs.size() < 7 || !inputs[6].isBool()) return 0;
  const at::Tensor& input = inputs[0].toTensor();
  const at::Tensor& weight = inputs[1].toTensor();
  const double per_element = 2.0 * static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  if (inputs[6].toBool()) return per_element * static_cast<double>(input.numel());

  const auto stride = inputs[3].toIntVector(), padding = inputs[4].toIntVector(),
             dilation = inputs[5].toIntVector();
  const auto at = [](const std::vector<int64_t>& list, size_t i) { return list[i < list.size() ? i : 0]; };
  const int64_t spatial = weight.dim() - 2;
  const bool batched = input.dim() == weight.dim();
  double elements = static_cast<double>(weight.size(0) * (batched ? input.size(0) : 1));
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t reach = at(dilation, i) * (weight.size(i + 2) - 1) + 1;
    const int64_t in = input.size(input.dim() - spatial + i);
    elements *= static_cast<double>((in + 2 * at(padding, i) - reach) / at(stride, i) + 1);
  }
  return per_element * elements;
}

// A fused recurrent layer (input: T x B x ..., then weights, a list or one by one): one product per weight
// matrix and token.
double recurrent(Inputs inputs) {
  if (!tensors(inputs, 0, 1) || inputs[0].toTensor().dim() != 3) return 0;
  constexpr size_t kMost = 4;  // mkldnn_rnn_layer's, one by one
  std::vector<at::Tensor> weights;
  if (inputs.size() > 1 && inputs[1].isTensorList()) {
    weights = inputs[1].toTensorVector();
  } else {
    for (size_t i = 1; i <= kMost && tensors(inputs, i, 1); ++i) weights.push_back(inputs[i].toTensor());
  }
  double elements = 0;
  for (const at::Tensor& weight : weights) {
    if (weight.dim() == 2) elements += static_cast<double>(weight.numel());
  }
  const at::Tensor& input = inputs[0].toTensor();
  return 2.0 * static_cast<double>(input.size(0) * input.size(1)) * elements;
}

// Q K^T and its product with V, (..., L, d), (..., S, d), (..., S, d): 4 L S d for each head.
double attention(Inputs inputs) {
  if (!tensors(inputs, 0, 2)) return 0;
  return 4.0 * static_cast<double>(inputs[0].toTensor().numel()) *
         static_cast<double>(inputs[1].toTensor().size(-2));
}

}  // namespace

double forward_flops(const at::RecordFunction& op) {
  std::string_view name = op.name();
  if (!name.starts_with("aten::")) return 0;
  name.remove_prefix(6);
  if (name == "mm" || name == "bmm" || name == "mv") return product(op.inputs(), 0);
  if (name == "addmm" || name == "baddbmm" || name == "addmv" || name == "addbmm")
    return product(op.inputs(), 1);
  if (name == "convolution" || name == "_convolution") return convolution(op.inputs());
  if (name == "_cudnn_rnn" || name == "mkldnn_rnn_layer") return recurrent(op.inputs());
  if (name.starts_with("_scaled_dot_product")) return attention(op.inputs());
  return 0;
}

FlopWatch::FlopWatch(std::function<void(double)> add)
    : add_(std::move(add)),
      watch_(
          [this](const at::RecordFunction& op) {
            if (depth_ > 0) {
              ++depth_;
            } else if (const double flops = forward_flops(op); flops > 0) {
              depth_ = 1;
              add_(flops);
            }
          },
          [this](const at::RecordFunction&) { depth_ -= depth_ > 0 ? 1 : 0; }) {}

}  // namespace entrain::graph
