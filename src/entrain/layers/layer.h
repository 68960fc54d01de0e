// A model as a sequence of layers: what a pipeline cuts into cells.
//
//   input ─▶ layer 0 ─▶ layer 1 ─▶ layer 2 ─▶ ... ─▶ loss(output, target)
//              └──────── skip "a" ────▲
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace entrain::layers {

// Values that a layer leaves for a later one, past those between: a U-Net's copies, a cell's second input.
class Skips {
 public:
  // Throws Error when a value of this name is there already.
  void stash(const std::string& name, torch::Tensor value);
  // Takes it out. Throws Error when there is none.
  torch::Tensor pop(const std::string& name);
  bool empty() const { return values_.empty(); }

 private:
  std::map<std::string, torch::Tensor> values_;
};

struct Layer {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;  // owns parameters and buffers; null: the layer has none
  std::function<torch::Tensor(const torch::Tensor& x, Skips& skips)> forward;
  std::vector<std::string> stashes = {};     // skips that forward leaves, each for one later layer
  std::vector<std::string> pops = {};        // skips that forward takes
  std::vector<torch::Tensor> borrowed = {};  // other layers' parameters that this one reads too (tied)

  // It draws from torch's default generator: such layers take turns where cells are threads. drop() needs
  // none of this.
  bool draws = false;

  // Its own, then the borrowed.
  std::vector<torch::Tensor> parameters() const;
};

struct Sequence {
  std::vector<Layer> layers;  // empty: the model is not a sequence
  // The mean over examples of a loss per example, so that micro-batches can be weighted by their sizes.
  std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)> loss;
};

// All layers in order, as if there were no pipeline.
torch::Tensor forward(const Sequence& sequence, const torch::Tensor& input);

// Whether `module` holds a module of torch that draws random numbers in training (dropout of any kind, ...).
bool draws_random(const torch::nn::Module& module);

// A layer around any module that maps a tensor to a tensor.
template <typename Holder>
Layer layer_of(std::string name, Holder module) {
  return {std::move(name),
          module.ptr(),
          [module](const torch::Tensor& x, Skips&) mutable { return module->forward(x); },
          {},
          {},
          {},
          draws_random(*module)};
}

// One layer for each module of a torch::nn::Sequential, each of which maps a tensor to a tensor.
std::vector<Layer> layers_of(const torch::nn::Sequential& modules);

// Throws InputError naming the layer when a skip is stashed twice, popped before it is stashed, or never
// popped.
void check_skips(const std::vector<Layer>& layers);

}  // namespace entrain::layers
