#include "entrain/pipeline/run/cell.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

// A layer that draws from torch's default generator: cells that are threads share it, so such layers take
// turns, and each finds it seeded for its own pass.
class DefaultGeneratorTurn {
 public:
  DefaultGeneratorTurn(const torch::Device& device, uint64_t seed)
      : turn_(mutex()),
        generator_(at::globalContext().defaultGenerator(device)),
        state_(generator_.get_state()) {
    generator_.set_current_seed(seed);
  }
  ~DefaultGeneratorTurn() { generator_.set_state(state_); }
  DefaultGeneratorTurn(const DefaultGeneratorTurn&) = delete;
  DefaultGeneratorTurn& operator=(const DefaultGeneratorTurn&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::lock_guard<std::mutex> turn_;
  at::Generator generator_;
  torch::Tensor state_;
};

template <typename Numbers>
std::vector<Edge> pick(const std::vector<Edge>& edges, const Numbers& numbers) {
  std::vector<Edge> result;
  for (const size_t e : numbers) result.push_back(edges[e]);
  return result;
}

}  // namespace

Cell::Cell(const std::vector<layers::Layer>& layers, const Cut& cut, int index, uint64_t seed)
    : layers_(layers),
      index_(index),
      cells_(cut.cells()),
      begin_(cut.first[index]),
      end_(cut.first[index + 1]),
      into_(pick(cut.edges, cut.into(index))),
      out_of_(pick(cut.edges, cut.out_of(index))),
      seed_(seed) {}

torch::Tensor Cell::run_layer(int layer, int micro_batch, bool again, const torch::Tensor& x,
                              layers::Skips& skips) const {
  const layers::PassId id{seed_, step_, layer, micro_batch};
  const layers::Pass pass(id, again);
  std::optional<DefaultGeneratorTurn> turn;
  if (layers_[layer].draws) turn.emplace(x.device(), id.random_seed());
  return layers_[layer].forward(x, skips);
}

std::vector<torch::Tensor> Cell::run(int micro_batch, const std::vector<torch::Tensor>& inputs, bool again,
                                     const LossOf& loss) const {
  layers::Skips skips;
  for (size_t i = 0; i < into_.size(); ++i) {
    if (!into_[i].skip.empty()) skips.stash(into_[i].skip, inputs[i]);
  }
  torch::Tensor x = inputs.at(0);  // the flow comes first
  for (int layer = begin_; layer < end_; ++layer) x = run_layer(layer, micro_batch, again, x, skips);
  if (last()) return {loss(x, micro_batch)};
  std::vector<torch::Tensor> outputs;
  for (const Edge& edge : out_of_) outputs.push_back(edge.skip.empty() ? x : skips.pop(edge.skip));
  return outputs;
}

std::vector<torch::Tensor> Cell::forward(int micro_batch, std::vector<torch::Tensor> inputs, bool recompute,
                                         const LossOf& loss) {
  Kept kept;
  std::vector<uint32_t> versions;
  for (auto& input : inputs) {
    versions.push_back(input._version());
    torch::Tensor leaf = input.detach();
    if (!first() && leaf.is_floating_point()) leaf.requires_grad_();
    kept.inputs.push_back(std::move(leaf));
  }
  inputs.clear();
  std::vector<torch::Tensor> outputs;
  {
    const torch::AutoGradMode gradients(!recompute);
    outputs = run(micro_batch, kept.inputs, false, loss);
  }
  for (size_t i = 0; recompute && i < versions.size(); ++i) {
    if (kept.inputs[i]._version() != versions[i]) {
      bad_input("layer '{}' changes its input in place, so it cannot be recomputed; allowed: `remat` never",
                layers_[begin_].name);
    }
  }
  if (!recompute) kept.outputs = outputs;
  if (!kept_.emplace(micro_batch, std::move(kept)).second) {
    fail("cell {}: micro-batch {} is in it already", index_, micro_batch);
  }
  for (auto& output : outputs) output = output.detach();
  return outputs;
}

void Cell::recompute(int micro_batch, const LossOf& loss) {
  Kept& kept = kept_.at(micro_batch);
  if (kept.outputs.empty()) kept.outputs = run(micro_batch, kept.inputs, true, loss);
}

std::vector<torch::Tensor> Cell::backward(int micro_batch, const std::vector<torch::Tensor>& gradients) {
  const auto node = kept_.extract(micro_batch);
  if (node.empty() || node.mapped().outputs.empty()) {
    fail("cell {}: backward of micro-batch {} without its forward", index_, micro_batch);
  }
  const Kept& kept = node.mapped();
  std::vector<torch::Tensor> roots, seeds;
  for (size_t i = 0; i < kept.outputs.size(); ++i) {
    if (!kept.outputs[i].requires_grad()) continue;
    roots.push_back(kept.outputs[i]);
    seeds.push_back(last() ? torch::ones_like(kept.outputs[i]) : gradients.at(i));
  }
  if (!roots.empty()) torch::autograd::backward(roots, seeds);
  std::vector<torch::Tensor> result;
  if (first()) return result;
  for (const auto& input : kept.inputs) {
    if (input.is_floating_point() && !input.grad().defined()) {
      result.push_back(torch::zeros_like(input));
    } else {
      result.push_back(input.grad());
    }
  }
  return result;
}

std::vector<torch::Tensor> Cell::parameters() const {
  std::vector<torch::Tensor> result;
  for (int layer = begin_; layer < end_; ++layer) {
    for (const auto& parameter : layers_[layer].parameters()) {
      const auto same = [&](const torch::Tensor& other) { return other.is_same(parameter); };
      if (std::none_of(result.begin(), result.end(), same)) result.push_back(parameter);
    }
  }
  return result;
}

std::vector<std::shared_ptr<torch::nn::Module>> Cell::modules() const {
  std::vector<std::shared_ptr<torch::nn::Module>> result;
  for (int layer = begin_; layer < end_; ++layer) {
    if (layers_[layer].module) result.push_back(layers_[layer].module);
  }
  return result;
}

}  // namespace entrain::pipeline
