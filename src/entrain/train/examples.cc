#include "entrain/train/examples.h"

#include "entrain/base/error.h"
#include "entrain/base/limits.h"

namespace entrain::train {

int workers_of(const job::Context& context, const TrainOptions& options) {
  return options.optimizer.rule == "hogwild" ? options.optimizer.threads : context.workers();
}

int64_t examples_per_update(const TrainOptions& options, int workers) {
  if (options.global_batch > 0) {
    if (options.global_batch <= kMaxExamples) return options.global_batch;
    bad_input("`global_batch` {}: allowed: at most {}", options.global_batch, kMaxExamples);
  }
  if (options.batch_size < 1 || options.batch_size > kMaxExamples / workers) {
    bad_input("`batch_size` {} for each of {} ranks: allowed: 1 or more, at most {} examples per update",
              options.batch_size, workers, kMaxExamples);
  }
  return options.batch_size * workers;
}

int64_t examples_per_worker(const TrainOptions& options, int workers) {
  const int64_t examples = examples_per_update(options, workers);
  if (examples % workers != 0) {
    bad_input("`global_batch` {} for {} workers that train apart: allowed: a multiple of {}", examples,
              workers, workers);
  }
  return examples / workers;
}

data::DataOptions data_options(const TrainOptions& options, int workers, torch::Device device) {
  return {.examples = examples_per_update(options, workers), .seed = options.seed, .device = device};
}

}  // namespace entrain::train
