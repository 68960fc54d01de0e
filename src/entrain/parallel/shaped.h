// One update of a job of any shape: each rank's passes, sums among those who hold the same variables, then
// the optimizer.
//
//   rank 0   F0 F2 B0 B2 ─┬─ sum of layers 0-12 with ranks 1, 2, 3 ─▶ update
//   rank 1   F1 F3 B1 B3 ─┤
//                         └ a gradient leaves in the last backward that adds to it
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "entrain/graph/gradient_hooks.h"
#include "entrain/graph/graph.h"
#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/cell_training.h"
#include "entrain/parallel/shape_state.h"
#include "entrain/pipeline/run/rank_mail.h"
#include "entrain/pipeline/run/worker.h"
#include "entrain/plan/assignment.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/shape.h"
#include "entrain/sync/engine.h"

namespace entrain::parallel {

struct ShapedOptions {
  strategy::Shape shape;
  strategy::Request strategy = "allreduce";  // of the variables that several ranks hold
  int64_t examples = 0;                      // per update, of all ranks together
  uint64_t seed = 0;                         // of dropout, and of builders that draw
  double clip_norm = 0;                      // of all gradients together; 0: as they are
  double slowdown = 0;                       // of this rank's passes, to rehearse a slower host (worker.h)
  bool rehearsal =
      false;  // values do not matter: every rank keeps the whole model, and reshape() moves nothing
};

// One per rank that trains, whether it holds a layer or not.
class Shaped final : public CellTraining {
 public:
  // `module` holds `sequence`'s parameters, the same values on every rank; both outlive this. Throws
  // InputError for a shape that does not fit.
  Shaped(job::Context& context, torch::nn::Module& module, layers::Sequence sequence, ShapedOptions options);
  ~Shaped() override;

  // `steps`: done already. `optimizer` is of the module's parameters; its state may have been loaded. From
  // now on, ranks other than 0 have only the memory of their own layers, unless this is a rehearsal.
  void use(torch::optim::Optimizer& optimizer, int64_t steps);

  double run(const Examples& examples) override;
  void update() override;
  void set_examples(int64_t examples) override;
  void gather() override;
  Passes passes() const override { return {{worker_->spans()}, pass_seconds_}; }
  void compare() override;
  std::string strategy_id() const override { return strategy_.id; }

  // Collective, between two steps: the layers move to their new holders, and training goes on as if the shape
  // had always been this one. Returns the bytes that this rank was sent.
  int64_t reshape(const strategy::Shape& shape);
  // The same, with another strategy for the variables that several ranks hold. Its shape counts on every
  // rank, all else is rank 0's. Requires: one step was made.
  int64_t switch_strategy(const strategy::Strategy& strategy);

  const strategy::Shape& shape() const { return options_.shape; }
  const plan::Assignment& assignment() const { return assignment_; }
  const strategy::Strategy& strategy() const { return strategy_; }  // known after the first step
  int64_t steps() const { return step_; }

 private:
  void describe_model();
  void build();
  void settle();
  void settle_strategy();
  int64_t take_shape(const strategy::Shape& shape);
  bool holds(size_t v) const { return passes_of_[v] > 0; }

  pipeline::MicroBatches cut(const Examples& examples) const;
  void begin();
  void backward_begins(int cell);
  void backward_ended(int cell);
  void made(size_t v);
  void send_rest();
  void take_all();
  void sum_statistics();
  std::vector<double> sums(std::vector<double> values, std::string_view what);
  void clip(double squares);

  job::Context& context_;
  torch::nn::Module& module_;
  layers::Sequence sequence_;
  ShapedOptions options_;
  const int handle_;
  const std::vector<ModelPart> parts_;
  torch::optim::Optimizer* optimizer_ = nullptr;

  graph::Graph graph_;
  std::vector<torch::Tensor> variables_;   // G's, whole or given back
  std::vector<std::vector<int>> holders_;  // by variable: ranks, ascending
  strategy::Strategy strategy_;            // rank 0's, once it is settled
  bool settled_ = false;
  sync::Engine engine_;

  // Of the shape.
  Holdings held_;
  plan::Assignment assignment_;
  pipeline::Cut cut_;
  std::unique_ptr<pipeline::RankMail> mail_;
  std::unique_ptr<pipeline::Worker> worker_;
  std::vector<int> passes_of_;                          // by variable: backwards here that may add to it
  std::vector<std::vector<size_t>> variables_of_cell_;  // that this rank has
  std::unique_ptr<graph::GradientHooks> hooks_;
  optim::NamedTensors named_;  // this rank's variables

  // Of the step under way.
  std::vector<int> passes_left_;  // by variable
  std::vector<bool> made_;        // by variable
  bool in_passes_ = false;

  int64_t step_ = 0;
  int64_t rounds_ = 0;  // of the engine
  double pass_seconds_ = 0;
};

}  // namespace entrain::parallel
