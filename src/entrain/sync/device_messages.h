// The messages of a plan that the devices sum among themselves (device_sum.h), and the order they go in: the
// library wants the same one everywhere, but gradients may come in another order on each worker. So it is
// that of G, and a message waits for those before it.
#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/device_sum.h"

namespace entrain::sync {

// All methods one at a time: backward's thread or the caller of step(). `sum` and `plan` outlive it.
class DeviceMessages {
 public:
  DeviceMessages(DeviceSum& sum, const plan::Plan& plan, const graph::Graph& graph);

  // True when all messages of the variable go this way; else none does.
  bool carries(size_t v) const { return carried_[v]; }

  void begin();
  // Starts what can be started now, and says which messages: they are done as far as this thread is
  // concerned.
  std::vector<size_t> ready(size_t v, torch::Tensor gradient);
  // The device's current stream goes on when the variable's sums are made.
  void await(size_t v, torch::Device device) const;

 private:
  void start(size_t m);

  DeviceSum& sum_;
  const plan::Plan& plan_;
  const std::vector<int> variables_;               // by message: how many
  std::vector<bool> carried_;                      // by variable
  std::vector<size_t> order_;                      // messages
  size_t next_ = 0;                                // of order_
  std::vector<int> missing_;                       // by message: gradients
  std::vector<torch::Tensor> gradients_;           // by variable, until its messages have started
  std::vector<std::unique_ptr<c10::Event>> done_;  // by message
};

}  // namespace entrain::sync
