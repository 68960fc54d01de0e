#include "entrain/parallel/device.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/job/control.h"

namespace entrain::parallel {
namespace {

// Why the workers at these places cannot use NCCL; empty: they can.
std::string obstacle(std::vector<std::string> places) {
  std::sort(places.begin(), places.end());
  if (places.front().empty()) return "a worker has no GPU, or a program without NCCL";
  if (std::adjacent_find(places.begin(), places.end()) != places.end()) return "workers share a GPU";
  return {};
}

// Rank 0 hears from every worker, and decides.
bool agree_on_nccl(job::Context& context, const std::string& place) {
  const Deadline deadline = Deadline::after(context.job.timeout_s);
  const auto places =
      job::gather_from_workers(context, place, transport::tags::kGpuPlace, deadline, "GPUs of the workers");
  const std::string why_not = context.rank() == 0 ? obstacle(places) : "";
  const bool agreed = job::tell_workers(context, why_not.empty() ? "yes" : "no", transport::tags::kGpuPlace,
                                        deadline, "whether NCCL is used") == "yes";
  if (context.rank() != 0) return agreed;
  const bool on_gpu = std::any_of(places.begin(), places.end(), [](const auto& p) { return !p.empty(); });
  if (why_not.empty()) {
    log_info("NCCL sums gradients where the strategy says all-reduce and nothing more");
  } else if (on_gpu) {
    log_info("gradients go through host memory: {}", why_not);
  }
  return agreed;
}

}  // namespace

torch::Device device_of(const job::Context& context, const std::string& name) {
  const torch::Device wanted(name);
  if (!wanted.is_cuda()) return wanted;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0) bad_input("`device` {}: libtorch sees no GPU here; allowed: cpu", name);
  const int host = context.cluster.host_of(context.rank());
  int place = 0, ranks = 0;  // among the workers of this host
  for (int rank = 0; rank < context.world(); ++rank) {
    if (!context.cluster.is_worker(rank) || context.cluster.host_of(rank) != host) continue;
    place += rank < context.rank() ? 1 : 0;
    ++ranks;
  }
  if (ranks > gpus && place == 0) {
    log_info("{} ranks share {} GPU{} of {}: they compute in turn", ranks, gpus, gpus == 1 ? "" : "s",
             context.cluster.hosts[static_cast<size_t>(host)].address);
  }
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(place % gpus)};
}

std::vector<torch::Device> gpus_of(const job::Context& context, int devices) {
  const int first = device_of(context, "cuda").index();
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  std::vector<torch::Device> result;
  for (int d = 0; d < devices; ++d) {
    result.emplace_back(torch::kCUDA, static_cast<torch::DeviceIndex>((first * devices + d) % gpus));
  }
  return result;
}

std::unique_ptr<sync::DeviceSum> device_sum_of(job::Context& context, torch::Device device) {
  if (context.workers() == 1) return nullptr;
  const std::vector<int> workers = context.cluster.worker_ranks();
  const char* wanted = std::getenv("ENTRAIN_NCCL");
  const bool allowed = wanted == nullptr || std::string(wanted) != "0";
  if (!agree_on_nccl(context, allowed ? sync::nccl_place(device) : "")) return nullptr;
  return sync::make_nccl(*context.transport, workers, device, context.job.timeout_s);
}

}  // namespace entrain::parallel
