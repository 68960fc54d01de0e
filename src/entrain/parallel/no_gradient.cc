#include "entrain/parallel/no_gradient.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

namespace entrain::parallel {
namespace {

bool is_negative_zero(const unsigned char* bytes, size_t width) {  // little-endian: the sign is in the last
  return bytes[width - 1] == 0x80 && std::all_of(bytes, bytes + width - 1, [](auto b) { return b == 0; });
}

}  // namespace

torch::Tensor no_gradient(const graph::Variable& described, const torch::Tensor& variable) {
  if (described.sparse) return torch::zeros(variable.sizes(), variable.options().layout(torch::kSparse));
  return torch::full_like(variable, -0.0, torch::MemoryFormat::Contiguous);
}

bool is_no_gradient(const torch::Tensor& gradient) {
  if (gradient.is_sparse()) return gradient._nnz() == 0;
  if (gradient.numel() == 0) return false;
  const torch::Tensor host = gradient.cpu().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(host.data_ptr());
  const size_t width = host.element_size();
  // All are as the first.
  return is_negative_zero(bytes, width) && std::memcmp(bytes, bytes + width, host.nbytes() - width) == 0;
}

void mark_as_made(torch::Tensor& gradient) {
  if (gradient.is_sparse() || gradient.numel() == 0) return;
  if (!gradient.is_cpu()) {
    gradient.flatten().narrow(0, 0, 1).add_(0.0);  // (-0) + 0 = 0, and no other value changes
    return;
  }
  auto* bytes = static_cast<unsigned char*>(gradient.data_ptr());
  const size_t width = gradient.element_size();
  if (is_negative_zero(bytes, width)) bytes[width - 1] = 0;
}

}  // namespace entrain::parallel
