// Where NCCL or libtorch's CUDA part is missing: gradients go through host memory.
#include "entrain/base/error.h"
#include "entrain/sync/device_sum.h"

namespace entrain::sync {

std::string nccl_place(torch::Device) { return {}; }

std::unique_ptr<DeviceSum> make_nccl(transport::Transport&, const std::vector<int>&, torch::Device, double) {
  fail("entrain was built without NCCL");
}

}  // namespace entrain::sync
