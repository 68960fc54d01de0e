#include "entrain/tuner/batch.h"

#include <algorithm>

namespace entrain::tuner {

std::vector<int> pick_batch(const std::vector<Scored>& candidates, const BatchOptions& options) {
  const size_t n = candidates.size();
  std::vector<int> picked;
  if (n == 0) return picked;
  std::vector<double> means;
  for (const Scored& c : candidates) means.push_back(c.mean);
  std::nth_element(means.begin(), means.begin() + static_cast<std::ptrdiff_t>(n / 2), means.end());
  const double best = *std::min_element(means.begin(), means.end());
  const double spread = std::max(means[n / 2] - best, 1e-9);

  std::vector<double> nearest(n, 0.0);
  std::vector<bool> taken(n, false);
  while (picked.size() < std::min(n, static_cast<size_t>(std::max(options.size, 0)))) {
    const double optimism = options.optimism * static_cast<double>(picked.size());
    int chosen = -1;
    double least = 0;
    for (size_t i = 0; i < n; ++i) {
      if (taken[i]) continue;
      const double score = candidates[i].mean - optimism * candidates[i].deviation;
      const double value = (score - best) / spread + options.similarity_weight * nearest[i];
      if (chosen < 0 || value < least) {
        chosen = static_cast<int>(i);
        least = value;
      }
    }
    picked.push_back(chosen);
    taken[chosen] = true;
    for (size_t i = 0; i < n; ++i) {
      nearest[i] = std::max(nearest[i], similarity(*candidates[i].embedding, *candidates[chosen].embedding));
    }
  }
  return picked;
}

}  // namespace entrain::tuner
