#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/sync/device_sum.h"
#include "entrain/transport/control_tags.h"

namespace entrain::sync {
namespace {

void require(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail("NCCL: {}: {}", what, ncclGetErrorString(result));
}

ncclDataType_t type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return ncclFloat32;
    case torch::kFloat64:
      return ncclFloat64;
    case torch::kFloat16:
      return ncclFloat16;
    case torch::kBFloat16:
      return ncclBfloat16;
    default:
      fail("NCCL: gradients of type {} cannot be summed", toString(tensor.scalar_type()));
  }
}

// A sum that never ends keeps its GPU busy for ever, so a thread watches: it ends them all, and check() says
// why.
class Nccl : public DeviceSum {
 public:
  Nccl(ncclComm_t communicator, torch::Device device, int rank, double timeout_s)
      : communicator_(communicator),
        device_(device),
        rank_(rank),
        timeout_s_(timeout_s),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())),
        watcher_([this] { watch(); }) {}

  ~Nccl() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    watcher_.join();
    if (error_.empty()) ncclCommDestroy(communicator_);
  }

  void sum(const std::vector<torch::Tensor>& tensors, c10::Event& done) override {
    check();
    c10::Event made(torch::kCUDA);
    made.record(c10::cuda::getCurrentCUDAStream(device_.index()).unwrap());
    made.block(stream_.unwrap());
    const c10::cuda::CUDAGuard guard(device_);
    require(ncclGroupStart(), "group");
    for (const auto& tensor : tensors) {
      const auto count = static_cast<size_t>(tensor.numel());
      require(ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count, type_of(tensor), ncclSum,
                            communicator_, stream_.stream()),
              "all-reduce");
    }
    require(ncclGroupEnd(), "group");
    done.record(stream_.unwrap());
    c10::Event own(torch::kCUDA);
    own.record(stream_.unwrap());
    const std::lock_guard lock(mutex_);
    under_way_.push_back({std::move(own), Clock::now()});
    changed_.notify_all();
  }

  void check() const override {
    const std::lock_guard lock(mutex_);
    if (!error_.empty()) fail("rank {}: {}", rank_, error_);
  }

 private:
  struct UnderWay {
    c10::Event done;
    Clock::time_point since;
  };

  void watch() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !under_way_.empty(); });
      if (ending_) return;
      while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
      ncclResult_t result = ncclSuccess;
      ncclCommGetAsyncError(communicator_, &result);
      if (result != ncclSuccess && result != ncclInProgress) {
        return end(fmt::format("NCCL: {}", ncclGetErrorString(result)));
      }
      if (!under_way_.empty() && seconds_since(under_way_.front().since) > timeout_s_) {
        return end(fmt::format("NCCL: another worker has not joined a sum for {:.0f} s", timeout_s_));
      }
      changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return ending_; });
    }
  }

  // Requires: mutex_ held.
  void end(std::string error) {
    error_ = std::move(error);
    ncclCommAbort(communicator_);
  }

  ncclComm_t communicator_;
  torch::Device device_;
  int rank_;
  double timeout_s_;
  c10::cuda::CUDAStream stream_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UnderWay> under_way_;  // guarded by mutex_
  std::string error_;               // guarded by mutex_
  bool ending_ = false;             // guarded by mutex_
  std::thread watcher_;             // last: it uses the rest
};

}  // namespace

std::string nccl_place(torch::Device device) {
  if (!device.is_cuda()) return {};
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) return {};
  std::string place;
  for (const char byte : properties.uuid.bytes)
    place += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  if (const char* host = std::getenv("NCCL_HOSTID")) place += fmt::format(" {}", host);
  return place;
}

std::unique_ptr<DeviceSum> make_nccl(transport::Transport& transport, const std::vector<int>& workers,
                                     torch::Device device, double timeout_s) {
  ncclUniqueId id;
  const transport::Bytes bytes(reinterpret_cast<std::byte*>(&id), sizeof(id));
  const Deadline deadline = Deadline::after(timeout_s);
  int own = -1;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i] == transport.rank()) own = static_cast<int>(i);
  }
  if (own == 0) {
    require(ncclGetUniqueId(&id), "identifier");
    for (size_t i = 1; i < workers.size(); ++i) {
      transport::send(transport, workers[i], transport::tags::kNcclId, bytes,
                      {0, deadline, "NCCL's identifier"});
    }
  } else {
    const auto payload =
        transport::recv(transport, workers[0], transport::tags::kNcclId, {deadline, "NCCL's identifier"});
    if (payload.size() != sizeof(id))
      fail("rank {}: NCCL's identifier has {} bytes", transport.rank(), payload.size());
    std::memcpy(&id, payload.bytes().data(), sizeof(id));
  }
  const c10::cuda::CUDAGuard guard(device);
  ncclComm_t communicator = nullptr;
  require(ncclCommInitRank(&communicator, static_cast<int>(workers.size()), id, own), "communicator");
  return std::make_unique<Nccl>(communicator, device, transport.rank(), timeout_s);
}

}  // namespace entrain::sync
