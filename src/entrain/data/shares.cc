#include "entrain/data/shares.h"

namespace entrain::data {

Shares::Shares(int64_t examples, int64_t batch_size, int worker, int workers, uint64_t seed)
    : examples_(examples),
      batch_size_(batch_size),
      worker_(worker),
      workers_(workers),
      steps_(examples / (batch_size * workers)),
      seed_(seed) {}

// The few examples that fill no batch of all workers are left out of this epoch; another shuffle has others.
torch::Tensor Shares::at(int64_t step) {
  const int64_t epoch = step / steps_;
  if (epoch != epoch_) {
    auto generator = at::detail::createCPUGenerator(seed_ * 1'000'003 + static_cast<uint64_t>(epoch));
    order_ = torch::randperm(examples_, generator, torch::kInt64);
    epoch_ = epoch;
  }
  return order_.narrow(0, ((step % steps_) * workers_ + worker_) * batch_size_, batch_size_);
}

}  // namespace entrain::data
