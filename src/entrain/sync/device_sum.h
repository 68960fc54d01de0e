// Sums that the devices make among themselves, without a way through host memory: NCCL's, where each worker
// has a GPU of its own.
#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::sync {

// One thread at a time; the same sums in the same order on all workers.
class DeviceSum {
 public:
  virtual ~DeviceSum() = default;

  // Each tensor in place over all workers, after everything that its device's current stream was given so
  // far; `done` comes behind. Does not wait. Requires: contiguous.
  virtual void sum(const std::vector<torch::Tensor>& tensors, c10::Event& done) = 0;

  // Throws what ended it: a worker that has been silent for the job's timeout, or an error of the library's.
  virtual void check() const = 0;
};

// What no two workers may share for NCCL: the GPU, by its serial number, and NCCL_HOSTID where it is set.
// Empty: no GPU, or a program without NCCL.
std::string nccl_place(torch::Device device);

// Collective over `workers`, all of different places. The transport is used in here only.
std::unique_ptr<DeviceSum> make_nccl(transport::Transport& transport, const std::vector<int>& workers,
                                     torch::Device device, double timeout_s);

}  // namespace entrain::sync
