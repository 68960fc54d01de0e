// A model cut into cells that compute at the same time, on ranks or on threads.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "entrain/api/checkpoints.h"
#include "entrain/api/context.h"

namespace entrain {

struct PipelineOptions {
  int cells = 2;          // that compute at the same time: K
  int micro_batches = 4;  // that a batch is cut into: M
  // Cells are ranks, K consecutive ones per pipeline, where there are at least K ranks, else threads of each
  // rank. True: threads in any case.
  bool threads = false;
  std::string schedule = "1f1b";  // gpipe, 1f1b, interleaved
  int chunks = 1;                 // cells per rank or thread; more than 1 with interleaved
  std::string remat =
      "except-last";              // never, except-last, always: activations are computed again in backward
  std::vector<int> balance = {};  // layers per cell; empty: found by measured time
  // Or which ranks hold which layers, with which share of the examples, and all of the above: as
  // "0-12@0*.1,1-3*.3 13-15@0 m=10", or a file. With `examples` per update, of all ranks together.
  std::string shape = "";
  int64_t examples = 0;
  // How those who hold the same layers synchronize: a builder's name or a file. "auto", with `examples` and
  // none of the above: this and the shape are found while training, so that each trial is a training step.
  std::string strategy = "allreduce";
  int64_t steps = 10'000;  // "auto": how many the job will make, as far as is known
  uint64_t seed = 0;       // of dropout, and of builders that draw
  double clip_norm = 0;    // of all cells' gradients together; 0: as they are
};

// The mean over the examples of a loss per example: micro-batches are weighted by their sizes.
using LossFunction = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

// Inputs and targets of examples [begin, begin + count) of an update: the same ones whichever rank asks.
using Examples = std::function<std::pair<torch::Tensor, torch::Tensor>(int64_t begin, int64_t count)>;

// One rank's handle. All methods on one thread; the same calls in the same order on every rank that trains.
// The update is that of one process on all examples. Errors: PeerError naming the rank, Error naming a loss
// or gradient that is not finite.
class Pipelined : public Handle {
 public:
  struct Impl;
  explicit Pipelined(std::unique_ptr<Impl> impl);
  ~Pipelined() override;

  // Forward and backward of all micro-batches, sums among those who hold the same layers, the optimizer's
  // update. Every rank of a pipeline gives the same batch, replicas other ones; under a shape, every rank
  // gives all of the update's examples. Returns the loss of that batch; of all of them, where cells are
  // ranks.
  double step(const torch::Tensor& input, const torch::Tensor& target);
  // The same where each rank makes only what it needs: ranks with the first or the last layers are asked for
  // their micro-batches. Requires: PipelineOptions::shape, or strategy "auto".
  double step(const Examples& examples);

  // Between two steps: another shape. Layers move to their new holders, and training goes on as if it had
  // always been this one. Collective. Returns the bytes that this rank was sent. Requires:
  // PipelineOptions::shape, a first step.
  int64_t reshape(const std::string& shape);

  // Which batches this rank gives: those of replica() of replicas(). Under a shape: 0 of 1.
  int replica() const;
  int replicas() const;

  std::vector<int> balance() const;  // layers per cell, known after the first step
  std::string shape() const;         // the present one; empty: cells are threads, or no step was made
  int64_t steps() const;

  // Brings the whole model and the optimizer's state to rank 0. Collective. Before it, a rank has current
  // parameters of its own cells only; on other ranks than 0 the memory of the others is given back at the
  // first step.
  void gather();

  // Like those of other handles, of the whole model: cells and ranks may be others when it is resumed. Both
  // before the first step and after it.
  void save(const std::filesystem::path& folder, int keep, int64_t step) override;
  std::optional<int64_t> resume(const std::filesystem::path& folder) override;

 private:
  std::unique_ptr<Impl> impl_;
};

// Each module of `model` is a layer: it maps a tensor to a tensor. Random numbers come from modules (Dropout,
// ...): one that calls torch::dropout itself needs remat "never". Batch norm normalizes by micro-batch, and
// needs that, too; among several holders its statistics would differ, so a shape gives it one. Broadcasts
// rank 0's parameters and buffers. `optimizer` holds the model's parameters; both outlive the handle. Throws
// InputError where cells, micro-batches and ranks do not fit, naming what is allowed.
std::unique_ptr<Pipelined> pipelined(Context& context, torch::nn::Sequential& model, LossFunction loss,
                                     torch::optim::Optimizer& optimizer, PipelineOptions options = {});

}  // namespace entrain
