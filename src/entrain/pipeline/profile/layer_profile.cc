#include "entrain/pipeline/profile/layer_profile.h"

#include <algorithm>

#include "entrain/base/clock.h"
#include "entrain/graph/flops.h"
#include "entrain/layers/pass.h"
#include "entrain/pipeline/profile/memory_watch.h"

namespace entrain::pipeline {
namespace {

using layers::Layer;
using torch::Tensor;

int64_t size_of(const Tensor& x) { return static_cast<int64_t>(x.nbytes()); }

// Whatever else the machine does only ever adds.
double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// Gradients and buffers as they were before, whatever is run meanwhile.
class Untouched {
 public:
  explicit Untouched(const layers::Sequence& sequence) {
    const torch::NoGradGuard no_grad;
    for (const Layer& layer : sequence.layers) {
      for (Tensor& parameter : layer.parameters()) {
        gradients_.emplace_back(parameter, parameter.grad());
        parameter.mutable_grad() = Tensor();
      }
      if (!layer.module) continue;
      for (const Tensor& buffer : layer.module->buffers()) buffers_.emplace_back(buffer, buffer.clone());
    }
  }
  ~Untouched() {
    const torch::NoGradGuard no_grad;
    // Backwards: a tied parameter is here twice, with its gradient at the first place.
    for (auto it = gradients_.rbegin(); it != gradients_.rend(); ++it) it->first.mutable_grad() = it->second;
    for (auto& [buffer, value] : buffers_) buffer.copy_(value);
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  std::vector<std::pair<Tensor, Tensor>> gradients_, buffers_;
};

Tensor run_layer(const layers::Sequence& sequence, size_t i, const Tensor& x, layers::Skips& skips,
                 uint64_t seed) {
  // As if recomputing: batch norm then moves no statistics.
  const layers::Pass pass({seed, 0, static_cast<int64_t>(i), 0}, /*recomputing=*/true);
  return sequence.layers[i].forward(x, skips);
}

// One forward in a row. With o the bytes of what flows and `live` those of all tensors, after each layer:
//   kept_i = live_i - live_(i-1) + o_(i-1) - o_i
// If the input is held for backward, live grew by the layer's own and o_i; if not, by o_(i-1) less.
void run_for_memory(const layers::Sequence& sequence, const Tensor& input, const Tensor& target,
                    uint64_t seed, SequenceCosts* costs) {
  double flops = 0;
  const graph::FlopWatch counter([&](double more) { flops += more; });
  const MemoryWatch watch;
  layers::Skips skips;
  Tensor x = input, loss;
  int64_t live = 0, flow = size_of(input);
  for (size_t i = 0; i < sequence.layers.size(); ++i) {
    LayerCost& cost = costs->layers[i];
    const double flops_before = flops;
    x = run_layer(sequence, i, x, skips, seed);
    cost.flops = flops - flops_before;
    cost.output_bytes = size_of(x);
    note_skips(sequence, i, skips, costs);
    const bool last = i + 1 == sequence.layers.size();
    if (last) {
      loss = sequence.loss(x, target);
      x.reset();  // as a cell does
    }
    const int64_t live_after = watch.live(),
                  flow_after = last ? 0 : static_cast<int64_t>(x.storage().nbytes());
    cost.internal_bytes = std::max<int64_t>(0, live_after - live + flow - flow_after);
    live = live_after;
    flow = flow_after;
  }
  counter.check();
}

// A value that one layer hands to others, and the leaf that those start from.
struct Handed {
  Tensor made;
  Tensor leaf;

  explicit Handed(Tensor value) : made(std::move(value)), leaf(made.detach()) {
    if (leaf.is_floating_point()) leaf.requires_grad_();
  }
};

using Times = std::vector<std::vector<double>>;  // by layer, by repeat

void run_for_time(const layers::Sequence& sequence, const Tensor& input, const Tensor& target, uint64_t seed,
                  Times* forward, Times* backward) {
  const size_t count = sequence.layers.size();
  std::vector<std::vector<Handed>> handed(count);  // by the layer that made it; the flow is the first
  layers::Skips skips;
  for (size_t i = 0; i < count; ++i) {
    const Tensor x = i == 0 ? input : handed[i - 1].front().leaf;
    const auto begin = Clock::now();
    Tensor y = run_layer(sequence, i, x, skips, seed);
    if (i + 1 == count) y = sequence.loss(y, target);
    (*forward)[i].push_back(seconds_since(begin));
    handed[i].emplace_back(std::move(y));
    for (const std::string& name : sequence.layers[i].stashes) {
      handed[i].emplace_back(skips.pop(name));
      skips.stash(name, handed[i].back().leaf);
    }
  }
  for (size_t i = count; i-- > 0;) {
    std::vector<Tensor> roots, gradients;
    for (Handed& value : handed[i]) {
      const Tensor gradient = i + 1 == count ? torch::ones_like(value.leaf) : value.leaf.grad();
      if (!value.made.requires_grad() || !gradient.defined()) continue;
      roots.push_back(std::move(value.made));
      gradients.push_back(gradient);
    }
    const auto begin = Clock::now();
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    (*backward)[i].push_back(seconds_since(begin));
    handed[i].clear();
  }
}

}  // namespace

SequenceCosts measure_layers(const layers::Sequence& sequence, const Tensor& input, const Tensor& target,
                             const MeasureOptions& options) {
  SequenceCosts costs = describe_layers(sequence, input);
  costs.kind = "measured";
  const auto begin = Clock::now();
  const Untouched untouched(sequence);
  run_for_memory(sequence, input, target, options.seed, &costs);
  const size_t count = sequence.layers.size();
  Times forward(count), backward(count);
  for (int i = 0; i < options.repeats && (i == 0 || seconds_since(begin) < options.budget_s); ++i) {
    run_for_time(sequence, input, target, options.seed, &forward, &backward);
  }
  for (size_t i = 0; i < count; ++i) {
    costs.layers[i].forward_s = least(forward[i]);
    costs.layers[i].backward_s = least(backward[i]);
  }
  return costs;
}

}  // namespace entrain::pipeline
