#include "entrain/layers/pass.h"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <optional>

namespace entrain::layers {
namespace {

struct Current {
  uint64_t seed;
  bool recomputing;
  std::optional<at::Generator> generator;  // made at the first draw: most layers draw nothing
};

thread_local std::optional<Current> current;

// Steele and others' mixing function (SplitMix64): neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

at::Generator& generator_for(const torch::Device& device) {
  if (!current->generator || current->generator->device() != device) {
    current->generator = at::globalContext().defaultGenerator(device).clone();
    current->generator->set_current_seed(current->seed);
  }
  return *current->generator;
}

}  // namespace

uint64_t PassId::random_seed() const {
  uint64_t x = mix(seed);
  for (const int64_t part : {step, layer, micro_batch}) x = mix(x ^ static_cast<uint64_t>(part));
  return x;
}

Pass::Pass(const PassId& id, bool recomputing) { current = {id.random_seed(), recomputing, std::nullopt}; }

Pass::~Pass() { current.reset(); }

bool recomputing() { return current && current->recomputing; }

torch::Tensor drop(const torch::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  if (!current) return torch::dropout(x, p, true);
  const torch::Tensor mask = torch::empty_like(x, x.options().requires_grad(false));
  return x * mask.bernoulli_(1 - p, generator_for(x.device())).div_(1 - p);
}

}  // namespace entrain::layers
