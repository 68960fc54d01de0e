#include "entrain/parallel/saved.h"

#include <cstring>

#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {

void save_on_rank_0(job::Context& context, const std::filesystem::path& folder, int keep,
                    checkpoint::CheckpointInfo info, const torch::nn::Module& module,
                    const torch::optim::Optimizer& optimizer) {
  constexpr const char* kWhat = "rank 0's checkpoint";
  const torch::Tensor own = checkpoint::rng_state();
  const std::string bytes(static_cast<const char*>(own.data_ptr()), own.nbytes());
  const auto all =
      job::gather_from_workers(context, bytes, transport::tags::kRandomState,
                               Deadline::after(context.job.timeout_s), "random state for a checkpoint");
  if (context.rank() != 0) return job::await_all(context, kWhat);
  info.world = context.world();
  info.rng.resize(static_cast<size_t>(context.world()));  // none of those who only serve
  const std::vector<int> workers = context.cluster.worker_ranks();
  for (size_t w = 0; w < workers.size(); ++w) {
    torch::Tensor& state = info.rng[static_cast<size_t>(workers[w])];
    state = torch::empty({static_cast<int64_t>(all[w].size())}, torch::kByte);
    std::memcpy(state.data_ptr(), all[w].data(), all[w].size());
  }
  checkpoint::Checkpoints(folder, keep).save(info, module, optimizer);
  job::await_all(context, kWhat);
}

std::optional<checkpoint::CheckpointInfo> load_everywhere(job::Context& context,
                                                          const std::filesystem::path& folder,
                                                          torch::nn::Module& module,
                                                          torch::optim::Optimizer& optimizer) {
  checkpoint::Checkpoints checkpoints(folder);
  job::agree_on_resumed_step(context, checkpoints.newest_step().value_or(-1));  // before anything is changed
  auto info = checkpoints.load_newest(module, optimizer);
  job::agree_on_resumed_step(context, info ? info->step : -1);  // the newest may be damaged on one host
  return info;
}

void restore_rng(const job::Context& context, const checkpoint::CheckpointInfo& info) {
  const auto rank = static_cast<size_t>(context.rank());
  if (rank < info.rng.size() && info.rng[rank].defined()) checkpoint::set_rng_state(info.rng[rank]);
}

}  // namespace entrain::parallel
