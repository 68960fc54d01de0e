#include "entrain/pipeline/run/thread_pipeline.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/memory.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/pipeline/run/assemble.h"
#include "entrain/pipeline/run/cores.h"
#include "entrain/pipeline/run/patience.h"

namespace entrain::pipeline {
namespace {

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// What torch has here is the machine's cores, OMP_NUM_THREADS, this rank's part of its host, or what the
// program has set.
int threads_of(const Options& options) {
  return options.threads_per_cell > 0 ? options.threads_per_cell
                                      : std::max(1, torch::get_num_threads() / options.devices);
}

// How long a thread looks for what it waits for, where `others` compute besides the devices.
Seconds patience_of(const Options& options, int others) {
  return Seconds(options.devices * options.threads_per_cell + others <= cores() ? 20e-3 : 0);
}

Options with_threads(Options options) {
  options.threads_per_cell = threads_of(options);
  return options;
}

}  // namespace

ThreadPipeline::ThreadPipeline(layers::Sequence sequence, Options options)
    : sequence_(std::move(sequence)),
      options_(with_threads(std::move(options))),
      cut_(checked_cut(sequence_, options_)),
      schedule_(make_schedule(options_.schedule, options_.devices, options_.micro_batches, options_.chunks)),
      mail_(cut_.edges.size(), options_.micro_batches, patience_of(options_, 0)),
      patience_(patience_of(options_, 1)) {
  keep_freed_memory();
  share_blas(options_.devices);
  for (int device = 0; device < options_.devices; ++device) {
    workers_.push_back(
        std::make_unique<Worker>(cut_, passes_of(schedule_, device, options_.remat), options_.loss_scale,
                                 cells_of(sequence_, cut_, options_, device), sequence_, mail_));
  }
  // torch gives the number that was set last to all threads that begin later, those of other models, too.
  const int before = torch::get_num_threads();
  running_ = options_.devices;
  for (int device = 0; device < options_.devices; ++device) {
    threads_.emplace_back([this, device] { work(device); });
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
  torch::set_num_threads(before);
}

ThreadPipeline::~ThreadPipeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

double ThreadPipeline::run(const torch::Tensor& input, const torch::Tensor& target) {
  const MicroBatches batch = MicroBatches::cut(input, target, options_.micro_batches);
  mail_.clear();
  const auto began = Clock::now();
  {
    std::unique_lock lock(mutex_);
    batch_ = &batch;
    began_ = began;
    loss_ = 0;
    error_ = nullptr;
    running_ = options_.devices;
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
    batch_ = nullptr;
  }
  for (const auto& layer : sequence_.layers) {
    if (!layer.module) continue;
    if (error_) layers::discard_batch_norm(*layer.module);
    layers::commit_batch_norm(*layer.module);
  }
  if (error_) std::rethrow_exception(error_);
  ++step_;
  return loss_;
}

// One device's thread.
void ThreadPipeline::work(int device) {
  torch::get_num_threads();  // a thread's first look takes the process's number, which would replace this one
  torch::set_num_threads(options_.threads_per_cell);
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  changed_.notify_all();
  for (int64_t seen = 0;;) {
    const MicroBatches* batch = nullptr;
    Clock::time_point began;
    look_for(patience_, [&] { return ending_ || round_ > seen; });
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || round_ > seen; });
      if (ending_) return;
      seen = round_;
      batch = batch_;
      began = began_;
    }
    double loss = 0;
    std::exception_ptr error;
    try {
      loss = workers_[device]->run(step_, *batch, began);
    } catch (...) {
      error = std::current_exception();
      mail_.fail(error);  // the others wait for what will not come
    }
    {
      const std::lock_guard lock(mutex_);
      loss_ += loss;
      if (error && !error_) error_ = error;
      --running_;
    }
    changed_.notify_all();
  }
}

std::vector<torch::Tensor> ThreadPipeline::parameters() const {
  std::vector<const Cell*> cells;
  for (const auto& worker : workers_) {
    for (const Cell& cell : worker->cells()) cells.push_back(&cell);
  }
  return parameters_of(cells);
}

std::vector<std::vector<Span>> ThreadPipeline::spans() const {
  std::vector<std::vector<Span>> result;
  for (const auto& worker : workers_) result.push_back(worker->spans());
  return result;
}

}  // namespace entrain::pipeline
