#include "entrain/sync/staging.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <optional>
#include <utility>

namespace entrain::sync {

struct Staging::Waiting {
  size_t variable;
  torch::Tensor gradient;
  c10::Event made;
};

Staging::Staging(Arrived arrived) : arrived_(std::move(arrived)), thread_([this] { run(); }) {}

Staging::~Staging() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Staging::fetch(size_t v, torch::Tensor gradient) {
  const torch::Device device = gradient.device();
  auto waiting = std::make_unique<Waiting>(Waiting{v, std::move(gradient), c10::Event(device.type())});
  waiting->made.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(waiting));
  }
  changed_.notify_all();
}

void Staging::run() {
  const torch::NoGradGuard no_grad;
  while (true) {
    std::unique_ptr<Waiting> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    torch::Tensor host;
    std::exception_ptr error;
    try {
      host = copy(*next);
    } catch (...) {
      error = std::current_exception();
    }
    arrived_(next->variable, std::move(host), error);
  }
}

// Returns when the copy is made, so the gradient's memory may be used again.
torch::Tensor Staging::copy(Waiting& waiting) {
  const torch::Device device = waiting.gradient.device();
  thread_local std::optional<c10::Stream> own;
  if (!own || own->device() != device) {
    own = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
  waiting.made.block(*own);
  const c10::StreamGuard guard(*own);
  if (waiting.gradient.is_sparse()) return waiting.gradient.to(torch::kCPU);  // of another size in each step
  if (hosts_.size() <= waiting.variable) hosts_.resize(waiting.variable + 1);
  torch::Tensor& host = hosts_[waiting.variable];
  if (!host.defined() || host.sizes() != waiting.gradient.sizes()) {
    host = torch::empty(waiting.gradient.sizes(),
                        waiting.gradient.options().device(torch::kCPU).pinned_memory(true));
  }
  host.copy_(waiting.gradient);
  return host;
}

}  // namespace entrain::sync
