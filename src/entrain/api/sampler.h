// Which examples of a data set each worker sees, for torch::data::make_data_loader.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "entrain/api/context.h"

namespace entrain {

// Each epoch is a shuffle that all workers agree on, shared out: no two see the same example, and all see
// equally many (examples % workers are left out, others in each epoch). A loader's begin() starts the next
// epoch.
//
//   auto loader = torch::data::make_data_loader(data, entrain::Sampler(context, size), batch_size);
class Sampler : public torch::data::samplers::Sampler<> {
 public:
  // `shuffle` false: in order, for tests. Requires: a rank that trains (else InputError).
  Sampler(const Context& context, size_t examples, bool shuffle = true, uint64_t seed = 0);

  // The epoch that the next reset() begins, from 0: where a job is resumed.
  void set_epoch(int64_t epoch) { next_epoch_ = epoch; }
  size_t examples_per_worker() const { return examples_ / workers_; }

  void reset(torch::optional<size_t> new_size = torch::nullopt) override;
  torch::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  // The next begin() of a loader goes on within the epoch that was under way.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void share_out();

  size_t examples_, workers_, worker_;
  bool shuffle_;
  uint64_t seed_;
  int64_t next_epoch_ = 0;
  std::vector<size_t> own_;  // of this epoch
  size_t at_ = 0;
  bool loaded_ = false;  // the next reset() goes on where the saved one was
};

}  // namespace entrain
