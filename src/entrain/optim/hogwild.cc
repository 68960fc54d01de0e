#include "entrain/optim/hogwild.h"

#include <exception>
#include <mutex>
#include <thread>

#include "entrain/base/error.h"

namespace entrain::optim {

void share(const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  int64_t count = 0;
  for (const torch::Tensor& p : parameters) count += p.numel();
  if (count != x.numel()) {
    bad_input("a replica has {} parameters, but the shared vector holds {}: it must be the same model", count,
              x.numel());
  }
  const torch::NoGradGuard no_grad;
  int64_t at = 0;
  for (torch::Tensor p : parameters) {
    if (p.options().dtype() != x.dtype() || p.device() != x.device()) {
      bad_input("a replica's parameter is {} on {}; the shared vector is {} on {}",
                torch::toString(p.scalar_type()), p.device().str(), torch::toString(x.scalar_type()),
                x.device().str());
    }
    p.set_data(x.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
}

int64_t run_hogwild(std::vector<HogwildReplica>& replicas, int64_t steps, const AfterStep& after,
                    const std::atomic<bool>* stop) {
  std::atomic<int64_t> begun = 0, made = 0;
  std::atomic<bool> over = false;
  std::mutex mutex;  // guards `first`, and calls of `after`
  std::exception_ptr first;
  const auto work = [&](int index) {
    HogwildReplica& replica = replicas[index];
    while (!over && !(stop && *stop)) {
      const int64_t step = begun++;
      if (step >= steps) return;
      replica.base->zero_grad();
      const torch::Tensor loss = replica.next_loss(step);
      loss.backward();
      const double value = loss.item<double>();
      if (!replica.may_update || replica.may_update(value)) replica.base->step();
      ++made;
      if (!after) continue;
      std::lock_guard lock(mutex);
      after(index, step, value);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < static_cast<int>(replicas.size()); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        over = true;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return made;
}

}  // namespace entrain::optim
