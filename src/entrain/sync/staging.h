// Gradients that an accelerator has made, on their way into host memory, where messages are sent from.
//
//   backward's stream   ... gradient ─▶ event ...                (goes on: nobody waits here)
//   staging's thread                      └▶ copy on a stream of its own ─▶ arrived(v, copy)
//
// Nothing here is CUDA's own: libtorch's streams and events of any device.
#pragma once

#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace entrain::sync {

class Staging {
 public:
  // On staging's thread: variable v's gradient in host memory, or what went wrong.
  using Arrived = std::function<void(size_t v, torch::Tensor gradient, std::exception_ptr error)>;

  explicit Staging(Arrived arrived);
  ~Staging();

  // The gradient is being made on the device's current stream. Does not wait for it. The copy's memory is
  // this object's, one for each variable: it is overwritten when the variable's next gradient is fetched.
  void fetch(size_t v, torch::Tensor gradient);

 private:
  struct Waiting;

  void run();
  torch::Tensor copy(Waiting& waiting);

  Arrived arrived_;
  std::vector<torch::Tensor> hosts_;  // by variable, page-locked; staging's thread's own
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Waiting>> waiting_;  // guarded by mutex_
  bool ending_ = false;                           // guarded by mutex_
  std::thread thread_;                            // last: it uses the rest
};

}  // namespace entrain::sync
