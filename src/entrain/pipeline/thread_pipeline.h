// A pipeline whose cells are threads of this process: several GPUs, or the cores of one machine.
#pragma once

#include <torch/torch.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/thread_mail.h"
#include "entrain/pipeline/worker.h"

namespace entrain::pipeline {

struct Options {
  std::vector<int> balance;  // layers a cell; as many cells as devices * chunks
  int devices = 1;
  int chunks = 1;  // cells a device; > 1 with the schedule "interleaved" only
  int micro_batches = 1;
  std::string schedule = "gpipe";
  Remat remat = Remat::kExceptLast;
  uint64_t seed = 0;
  bool defer_batch_norm = true;  // running statistics move once a mini-batch
  // By device; empty: the layers stay where they are. Thread engine only.
  std::vector<torch::Device> placement = {};
  int threads_per_cell = 0;  // of torch's own, inside an operation; 0: the machine's cores shared out
};

// One thread a device lives as long as this. All methods on one thread.
class ThreadPipeline {
 public:
  // Throws InputError for options that do not fit the sequence. The model outlives this.
  ThreadPipeline(layers::Sequence sequence, Options options);
  ~ThreadPipeline();

  // Forward and backward of one mini-batch: adds to the parameters' gradients those of its mean loss, and
  // returns that loss. The first error of any cell, as an exception; the pipeline can be used again after it.
  double run(const torch::Tensor& input, const torch::Tensor& target);

  // Steps done; the next one's number decides its random numbers.
  int64_t steps() const { return step_; }
  void set_steps(int64_t steps) { step_ = steps; }

  // Of the last step, by device.
  std::vector<std::vector<Span>> spans() const;
  double wall_s() const { return wall_s_; }
  const Schedule& schedule() const { return schedule_; }
  const Cut& cut() const { return cut_; }

 private:
  void work(int device);

  layers::Sequence sequence_;
  Options options_;
  Cut cut_;
  Schedule schedule_;
  ThreadMail mail_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int64_t step_ = 0;
  double wall_s_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  const MicroBatches* batch_ = nullptr;  // of the step under way    guarded by mutex_
  Clock::time_point began_;              //                          guarded by mutex_
  int64_t round_ = 0;                    // steps started            guarded by mutex_
  int running_ = 0;                      // devices not done yet     guarded by mutex_
  double loss_ = 0;                      //                          guarded by mutex_
  std::exception_ptr error_;             // the first                guarded by mutex_
  bool ending_ = false;                  //                          guarded by mutex_
  std::vector<std::thread> threads_;     // last: they use the rest
};

}  // namespace entrain::pipeline
