#include "entrain/api/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "entrain/base/error.h"

namespace entrain {

Sampler::Sampler(const Context& context, size_t examples, bool shuffle, uint64_t seed)
    : examples_(examples),
      workers_(static_cast<size_t>(context.workers())),
      worker_(static_cast<size_t>(std::max(0, context.worker()))),
      shuffle_(shuffle),
      seed_(seed) {
  if (!context.trains()) {
    bad_input("rank {} only serves parameters in this cluster: call entrain::serve() there", context.rank());
  }
  if (examples < workers_)
    bad_input("{} examples for {} workers: allowed: at least one each", examples, workers_);
}

void Sampler::reset(torch::optional<size_t> new_size) {
  if (std::exchange(loaded_, false) && !new_size) return;
  if (new_size) examples_ = *new_size;
  share_out();
  ++next_epoch_;
  at_ = 0;
}

void Sampler::share_out() {
  std::vector<size_t> order(examples_);
  std::iota(order.begin(), order.end(), size_t{0});
  if (shuffle_) {
    // A generator of its own: all workers draw the same, whatever else they draw.
    auto generator = at::detail::createCPUGenerator(seed_ * 1'000'003 + static_cast<uint64_t>(next_epoch_));
    const auto drawn = torch::randperm(static_cast<int64_t>(examples_), generator);
    const auto* indices = drawn.data_ptr<int64_t>();
    std::copy(indices, indices + examples_, order.begin());
  }
  own_.clear();
  for (size_t i = 0; i < examples_per_worker(); ++i) own_.push_back(order[i * workers_ + worker_]);
}

torch::optional<std::vector<size_t>> Sampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, own_.size() - at_);
  if (count == 0) return torch::nullopt;
  const auto begin = own_.begin() + static_cast<std::ptrdiff_t>(at_);
  at_ += count;
  return std::vector<size_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

void Sampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(next_epoch_ - 1), /*is_buffer=*/true);
  archive.write("at", torch::tensor(static_cast<int64_t>(at_)), /*is_buffer=*/true);
}

void Sampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch = torch::empty({}, torch::kInt64), at = torch::empty({}, torch::kInt64);
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("at", at, /*is_buffer=*/true);
  next_epoch_ = epoch.item<int64_t>();
  reset();
  at_ = static_cast<size_t>(at.item<int64_t>());
  loaded_ = true;
}

}  // namespace entrain
