#include "entrain/parallel/group_sum.h"

#include <torch/torch.h>

namespace entrain::parallel {
namespace {

transport::Bytes bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

torch::Tensor group_sum(job::Context& context, const std::vector<int>& ranks, const torch::Tensor& value,
                        transport::Tag tag, std::string_view what) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor sum = value.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  const Deadline deadline = Deadline::after(context.job.timeout_s);
  auto& transport = *context.transport;
  const int root = ranks.front();
  if (context.rank() != root) {
    transport::send(transport, root, tag, bytes_of(sum), {0, deadline, what});
    transport::recv_into(transport, root, tag, bytes_of(sum), {deadline, what});
    return sum.to(value.device());
  }
  const torch::Tensor other = torch::empty_like(sum);
  for (size_t i = 1; i < ranks.size(); ++i) {
    transport::recv_into(transport, ranks[i], tag, bytes_of(other), {deadline, what});
    sum.add_(other);
  }
  for (size_t i = 1; i < ranks.size(); ++i) {
    transport::send(transport, ranks[i], tag, bytes_of(sum), {0, deadline, what});
  }
  return sum.to(value.device());
}

}  // namespace entrain::parallel
