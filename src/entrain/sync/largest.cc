#include "entrain/sync/largest.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace entrain::sync {
namespace {

constexpr int64_t kSmall = 1 << 16;   // elements that are sorted rather than sampled
constexpr int64_t kSample = 1 << 14;  // with share s of the elements wanted, the threshold is off by a rank
                                      // of 1 / sqrt(s kSample): 8% for 1 in 100

// The magnitude that about k of the values exceed. Every (n / kSample)-th is looked at: a fixed stride is as
// good as chance for gradients, and the same on every run.
float threshold(const float* values, int64_t n, int64_t k) {
  const int64_t stride = n / kSample;
  std::vector<float> sample;
  for (int64_t i = 0; i < n; i += stride) sample.push_back(std::abs(values[i]));
  const auto wanted = static_cast<int64_t>(static_cast<double>(sample.size()) * static_cast<double>(k) /
                                           static_cast<double>(n));
  const auto place = sample.begin() + std::clamp<int64_t>(wanted, 1, static_cast<int64_t>(sample.size())) - 1;
  std::nth_element(sample.begin(), place, sample.end(), std::greater<>());
  return *place;
}

torch::Tensor exact(const torch::Tensor& values, int64_t k) {
  return std::get<0>(std::get<1>(values.abs().topk(k, 0, true, false)).sort());
}

}  // namespace

torch::Tensor largest(const torch::Tensor& values, int64_t k) {
  const int64_t n = values.numel();
  if (n <= kSmall || k * 4 > n) {
    return exact(values, k);
  }
  const float* data = values.data_ptr<float>();
  const float least = threshold(data, n, k);
  std::vector<int64_t> found;
  found.reserve(static_cast<size_t>(2 * k));
  for (int64_t i = 0; i < n && static_cast<int64_t>(found.size()) < 2 * k; ++i) {
    if (std::abs(data[i]) >= least && data[i] != 0) found.push_back(i);
  }
  // Too many are as large as that: which of them are the largest?
  if (static_cast<int64_t>(found.size()) == 2 * k) return exact(values, k);
  if (found.empty()) found.push_back(values.abs().argmax().item<int64_t>());  // NaN only, say
  return torch::tensor(found, torch::kInt64);
}

}  // namespace entrain::sync
