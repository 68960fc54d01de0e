#include "entrain/checkpoint/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "entrain/base/error.h"

namespace entrain::checkpoint {

torch::Tensor rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state().clone();
}

void set_rng_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& e) {
    bad_input("the state of the random numbers is unusable: {}", e.what_without_backtrace());
  }
}

}  // namespace entrain::checkpoint
