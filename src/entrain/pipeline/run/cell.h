// A cell: consecutive layers of the model, and what is kept of each micro-batch between forward and backward.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <vector>

#include "entrain/layers/layer.h"
#include "entrain/layers/pass.h"
#include "entrain/pipeline/run/border.h"

namespace entrain::pipeline {

// The end of the last cell: the micro-batch's part of the mini-batch's loss.
using LossOf = std::function<torch::Tensor(const torch::Tensor& output, int micro_batch)>;

// Values follow the cell's edges (Cut::into, Cut::out_of). One thread at a time.
class Cell {
 public:
  // `layers`: those of the whole sequence; outlive the cell. `seed`: of the random numbers.
  Cell(const std::vector<layers::Layer>& layers, const Cut& cut, int index, uint64_t seed);

  int index() const { return index_; }
  bool first() const { return index_ == 0; }
  bool last() const { return index_ + 1 == cells_; }

  // Forgets what a step that failed has kept.
  void begin_step(int64_t step) {
    step_ = step;
    kept_.clear();
  }

  // `inputs`: by edge into the cell; of the first cell: the mini-batch's own input. Returns the values by
  // edge out of it; of the last cell: its part of the loss. With `recompute` only the inputs are kept.
  std::vector<torch::Tensor> forward(int micro_batch, std::vector<torch::Tensor> inputs, bool recompute,
                                     const LossOf& loss);

  // Forward again, for a micro-batch whose activations were not kept; does nothing for another.
  void recompute(int micro_batch, const LossOf& loss);

  // `gradients`: of the outputs, by edge out of the cell; of the last cell: none. Adds to the parameters'
  // gradients and returns those of the inputs, by edge into the cell (undefined where the value is no
  // number); of the first cell: none.
  std::vector<torch::Tensor> backward(int micro_batch, const std::vector<torch::Tensor>& gradients);

  // Own and borrowed, each once.
  std::vector<torch::Tensor> parameters() const;
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;

 private:
  struct Kept {
    std::vector<torch::Tensor> inputs;   // leaves, whose gradients are sent back
    std::vector<torch::Tensor> outputs;  // with their graph; empty: to be recomputed
  };

  std::vector<torch::Tensor> run(int micro_batch, const std::vector<torch::Tensor>& inputs, bool again,
                                 const LossOf& loss) const;
  torch::Tensor run_layer(int layer, int micro_batch, bool again, const torch::Tensor& x,
                          layers::Skips& skips) const;

  const std::vector<layers::Layer>& layers_;
  int index_, cells_;
  int begin_, end_;  // layers
  std::vector<Edge> into_, out_of_;
  uint64_t seed_;
  int64_t step_ = 0;
  std::map<int, Kept> kept_;  // by micro-batch
};

}  // namespace entrain::pipeline
