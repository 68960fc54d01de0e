#include "entrain/job/collectives.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/collective/algorithms.h"
#include "entrain/collective/executor.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::job {
namespace {

constexpr size_t kSmall = 64 << 10;  // bytes that go by way of rank 0, at two latencies

torch::Tensor on_host(const Context& context, const torch::Tensor& tensor) {
  if (!tensor.defined()) bad_input("rank {}: an undefined tensor cannot be exchanged", context.rank());
  if (tensor.layout() != torch::kStrided) {
    bad_input("rank {}: a sparse tensor cannot be exchanged; allowed: a dense one, such as to_dense()",
              context.rank());
  }
  return tensor.detach().cpu().contiguous();
}

// Type, sizes and values.
std::string tensor_to_text(const torch::Tensor& host) {
  std::vector<int64_t> head = {static_cast<int64_t>(host.scalar_type()), host.dim()};
  for (const int64_t size : host.sizes()) head.push_back(size);
  std::string text(reinterpret_cast<const char*>(head.data()), head.size() * sizeof(int64_t));
  return text.append(static_cast<const char*>(host.data_ptr()), host.nbytes());
}

torch::Tensor tensor_from_text(const std::string& text, const Context& context) {
  std::vector<int64_t> head(2), sizes;
  const size_t bytes = 2 * sizeof(int64_t);
  if (text.size() < bytes) fail("rank {}: not a tensor", context.rank());
  std::memcpy(head.data(), text.data(), bytes);
  sizes.resize(static_cast<size_t>(head[1]));
  std::memcpy(sizes.data(), text.data() + bytes, sizes.size() * sizeof(int64_t));
  torch::Tensor tensor = torch::empty(sizes, static_cast<torch::ScalarType>(head[0]));
  const size_t values = bytes + sizes.size() * sizeof(int64_t);
  if (text.size() - values != tensor.nbytes()) fail("rank {}: not a tensor", context.rank());
  std::memcpy(tensor.data_ptr(), text.data() + values, tensor.nbytes());
  return tensor;
}

// A link slower than kSlowest counts as dead.
Deadline deadline_for(const Context& context, double bytes) {
  constexpr double kSlowest = 10e6;  // bytes per second
  return Deadline::after(context.job.timeout_s + bytes / kSlowest);
}

void check_alike(const Context& context, const std::vector<torch::Tensor>& all) {
  for (size_t w = 1; w < all.size(); ++w) {
    if (all[w].sizes() == all[0].sizes() && all[w].scalar_type() == all[0].scalar_type()) continue;
    const int rank = context.cluster.worker_ranks()[w];
    throw PeerError(rank, fmt::format("all_reduce: rank {} has {} [{}], rank 0 {} [{}]", rank,
                                      c10::toString(all[w].scalar_type()), fmt::join(all[w].sizes(), ", "),
                                      c10::toString(all[0].scalar_type()), fmt::join(all[0].sizes(), ", ")));
  }
}

torch::Tensor reduced(const std::vector<torch::Tensor>& all, Reduce how) {
  const torch::Tensor stacked = torch::stack(all);
  switch (how) {
    case Reduce::kMin:
      return stacked.amin(0);
    case Reduce::kMax:
      return stacked.amax(0);
    default:
      return stacked.sum(0, /*keepdim=*/false, stacked.scalar_type());
  }
}

// float32 in place, by a ring: no rank carries more than another.
void sum_by_ring(Context& context, torch::Tensor& values) {
  const auto workers = context.cluster.worker_ranks();
  collective::RunOptions options;
  options.tag = transport::tags::kReduce;
  options.what = "all_reduce";
  options.type =
      values.scalar_type() == torch::kFloat64 ? collective::Type::kFloat64 : collective::Type::kFloat32;
  options.deadline = deadline_for(context, 2 * static_cast<double>(values.nbytes()));
  const collective::Buffer buffer({{static_cast<std::byte*>(values.data_ptr()), values.nbytes()}});
  collective::execute(collective::ring(workers, context.world()), buffer, options, *context.transport);
}

}  // namespace

torch::Tensor all_reduce(Context& context, const torch::Tensor& tensor, Reduce how) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor own = on_host(context, tensor);
  if (how == Reduce::kMean && !own.is_floating_point()) {
    bad_input("rank {}: the mean of {} has no such type; allowed: a floating-point tensor", context.rank(),
              c10::toString(own.scalar_type()));
  }
  // Halves are summed in float32.
  const bool half = own.scalar_type() == torch::kHalf || own.scalar_type() == torch::kBFloat16;
  const torch::Tensor wide = half ? own.to(torch::kFloat32) : own;
  const bool by_ring = wide.is_floating_point() && wide.nbytes() > kSmall &&
                       (how == Reduce::kSum || how == Reduce::kMean) && context.workers() > 1;
  torch::Tensor result;
  if (by_ring) {
    result = wide.clone();
    sum_by_ring(context, result);
  } else {
    const auto all = all_gather(context, wide);
    check_alike(context, all);
    result = reduced(all, how);
  }
  if (how == Reduce::kMean) result.div_(context.workers());
  return result.to(tensor.options());
}

std::vector<torch::Tensor> all_gather(Context& context, const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> tensors;
  for (const std::string& text :
       exchange(context, tensor_to_text(on_host(context, tensor)), transport::tags::kText, "all_gather")) {
    tensors.push_back(tensor_from_text(text, context).to(tensor.device()));
  }
  return tensors;
}

void broadcast(Context& context, const std::vector<torch::Tensor>& tensors) {
  if (context.workers() == 1 || tensors.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> hosts;
  std::vector<transport::Bytes> pieces;
  size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    hosts.push_back(on_host(context, tensor));  // the tensor's own memory, where it lies there in one piece
    pieces.emplace_back(static_cast<std::byte*>(hosts.back().data_ptr()), hosts.back().nbytes());
    bytes += hosts.back().nbytes();
  }
  std::byte padding{};  // what is sent is cut into elements of two bytes
  if (bytes % 2 != 0) pieces.emplace_back(&padding, 1);
  const auto workers = context.cluster.worker_ranks();
  collective::RunOptions options;
  options.tag = transport::tags::kBroadcast;
  options.type = collective::Type::kBFloat16;  // any two bytes: nothing is summed
  options.what = "broadcast of rank 0's tensors";
  // Rank 0 sends all of it log2(workers) times.
  options.deadline = deadline_for(context, static_cast<double>(bytes) * std::log2(workers.size()));
  collective::execute(collective::broadcast(workers, context.world()), collective::Buffer(pieces), options,
                      *context.transport);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_alias_of(hosts[i])) torch::Tensor(tensors[i]).detach().copy_(hosts[i]);
  }
}

void barrier(Context& context) { exchange(context, "", transport::tags::kText, "barrier"); }

double mean(Context& context, double value) {
  return all_reduce(context, torch::tensor(value, torch::kFloat64), Reduce::kMean).item<double>();
}

torch::Tensor mean(Context& context, const torch::Tensor& value) {
  return all_reduce(context, value, Reduce::kMean);
}

bool any(Context& context, bool value) {
  for (const std::string& text : exchange(context, value ? "1" : "0", transport::tags::kText, "any()")) {
    if (text == "1") return true;
  }
  return false;
}

bool all(Context& context, bool value) { return !any(context, !value); }

void on_rank_0(Context& context, const std::function<void()>& work) {
  if (context.rank() == 0) {
    try {
      work();
    } catch (const std::exception& e) {
      context.transport->close(fmt::format("rank 0: {}", e.what()));
      throw;
    }
  }
  barrier(context);
}

}  // namespace entrain::job
