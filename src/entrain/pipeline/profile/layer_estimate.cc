#include "entrain/pipeline/profile/layer_estimate.h"

#include <algorithm>

#include "entrain/base/clock.h"
#include "entrain/graph/flops.h"
#include "entrain/pipeline/profile/saved_tensors.h"

namespace entrain::pipeline {

SequenceCosts estimate_layers(const layers::Sequence& sequence, const torch::Tensor& input,
                              const torch::Tensor& target, double flops_per_s) {
  SequenceCosts costs = describe_layers(sequence, input);
  costs.kind = "estimated";
  double flops = 0;
  const graph::FlopWatch counter([&](double more) { flops += more; });
  SavedTensors saved;
  for (const auto& layer : sequence.layers) {
    for (const auto& parameter : layer.parameters()) saved.ignore(parameter);
    if (!layer.module) continue;
    for (const auto& buffer : layer.module->buffers()) saved.ignore(buffer);
  }
  layers::Skips skips;
  torch::Tensor x = input;
  for (size_t i = 0; i < sequence.layers.size(); ++i) {
    LayerCost& cost = costs.layers[i];
    const double flops_before = flops;
    x = sequence.layers[i].forward(x, skips);
    note_skips(sequence, i, skips, &costs);
    cost.output_bytes = static_cast<int64_t>(x.nbytes());
    cost.flops = flops - flops_before;
    cost.forward_s = cost.flops / flops_per_s;
    cost.backward_s = 2 * cost.forward_s;
    const bool last = i + 1 == sequence.layers.size();
    if (last) x = sequence.loss(x, target);
    // What flows on is for the next layer to count.
    cost.internal_bytes = saved.take_bytes(x);
  }
  counter.check();
  return costs;
}

double measure_flops_per_s() {
  constexpr int64_t kSide = 512;
  constexpr double kSeconds = 0.2;
  const torch::NoGradGuard no_grad;
  const torch::Tensor a = torch::rand({kSide, kSide}), b = torch::rand({kSide, kSide});
  torch::Tensor c = torch::mm(a, b);  // warm
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    torch::mm_out(c, a, b);
    best = std::max(best, 2.0 * kSide * kSide * kSide / seconds_since(start));
  } while (seconds_since(begin) < kSeconds);
  return best;
}

}  // namespace entrain::pipeline
