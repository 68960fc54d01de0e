#include "entrain/data/shares.h"

namespace entrain::data {

Shares::Shares(int64_t examples, int64_t per_update, uint64_t seed)
    : examples_(examples), per_update_(per_update), steps_(examples / per_update), seed_(seed) {}

// The few examples that fill no update are left out of this epoch; another shuffle has others.
torch::Tensor Shares::at(int64_t step, int64_t begin, int64_t count) {
  const int64_t epoch = step / steps_;
  if (epoch != epoch_) {
    auto generator = at::detail::createCPUGenerator(seed_ * 1'000'003 + static_cast<uint64_t>(epoch));
    order_ = torch::randperm(examples_, generator, torch::kInt64);
    epoch_ = epoch;
  }
  return order_.narrow(0, (step % steps_) * per_update_ + begin, count);
}

}  // namespace entrain::data
