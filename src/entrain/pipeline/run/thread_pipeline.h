// A pipeline whose cells are threads of this process: several GPUs, or the cores of one machine.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/run/options.h"
#include "entrain/pipeline/run/thread_mail.h"
#include "entrain/pipeline/run/worker.h"

namespace entrain::pipeline {

// One thread a device lives as long as this. All methods on one thread.
class ThreadPipeline {
 public:
  // Throws InputError for options that do not fit the sequence. The model outlives this.
  ThreadPipeline(layers::Sequence sequence, Options options);
  ~ThreadPipeline();

  // Forward and backward of one mini-batch: adds to the parameters' gradients those of its mean loss, and
  // returns that loss. The first error of any cell, as an exception; the pipeline can be used again after it,
  // once the caller has zeroed the gradients.
  double run(const torch::Tensor& input, const torch::Tensor& target);
  std::vector<torch::Tensor> parameters() const;  // of all cells, each once
  std::vector<std::vector<Span>> spans() const;   // of the last step, by device
  const Cut& cut() const { return cut_; }

  // Steps done; the next one's number decides its random numbers.
  void set_steps(int64_t steps) { step_ = steps; }

 private:
  void work(int device);

  layers::Sequence sequence_;
  Options options_;
  Cut cut_;
  Schedule schedule_;
  ThreadMail mail_;
  int64_t step_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;

  const Seconds patience_;  // of workers that wait for a step

  std::mutex mutex_;
  std::condition_variable changed_;
  const MicroBatches* batch_ = nullptr;  // of the step under way    guarded by mutex_
  Clock::time_point began_;              //                          guarded by mutex_
  std::atomic<int64_t> round_ = 0;       // steps started            written under mutex_
  int running_ = 0;                      // devices not done yet     guarded by mutex_
  double loss_ = 0;                      //                          guarded by mutex_
  std::exception_ptr error_;             // the first                guarded by mutex_
  std::atomic<bool> ending_ = false;     //                          written under mutex_
  std::vector<std::thread> threads_;     // last: they use the rest
};

}  // namespace entrain::pipeline
