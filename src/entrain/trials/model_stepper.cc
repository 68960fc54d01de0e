#include "entrain/trials/model_stepper.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/slowdown.h"
#include "entrain/pipeline/profile/graph_layers.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trials/replay.h"
#include "entrain/trials/replayed_model.h"

namespace entrain::trials {
namespace {

// Every rank has the whole model.
class WholeStepper final : public Stepper {
 public:
  WholeStepper(job::Context& context, const StandingOptions& options)
      : context_(context),
        options_(options),
        model_(models::make_model(options.model, options.seed)),
        // Thousands of steps on one batch must not end in NaN or denormals, which compute at another speed.
        optimizer_(model_->parameters(), torch::optim::SGDOptions(1e-7)),
        distributed_(context, *model_, optimizer_, {"allreduce", options.seed, true}) {
    auto generator = at::detail::createCPUGenerator(options.seed + static_cast<uint64_t>(context.rank()));
    batch_ = model_->synthetic(options.batch_size, generator);
  }

  void step() override { distributed_.step(model_->loss(batch_)); }
  void switch_strategy(const strategy::Strategy& s) override { distributed_.switch_strategy(s); }
  void pause() override { distributed_.finish(); }

  // Layers are timed on rank 0 alone, while the others wait: without the network, and with a machine that
  // emulates all hosts to itself.
  graph::Graph graph() const override {
    graph::Graph g = distributed_.profiled_graph();
    g.model = options_.model;
    g.batch_size = options_.batch_size;
    if (!options_.shapes) return g;
    const layers::Sequence sequence = model_->sequence();
    if (context_.rank() == 0 && !sequence.layers.empty()) {
      pipeline::add_layers(g, *model_, sequence, batch_.input, batch_.target,
                           pipeline::profiled_sizes(options_.batch_size), {.repeats = 3, .budget_s = 2});
    } else {
      for (const auto& layer : sequence.layers) g.layers.push_back({layer.name, {}});
    }
    return g;
  }

 private:
  job::Context& context_;
  StandingOptions options_;
  std::shared_ptr<models::Model> model_;
  torch::optim::SGD optimizer_;
  parallel::Distributed distributed_;
  models::Batch batch_;
};

class ModelStepper final : public Stepper {
 public:
  ModelStepper(job::Context& context, const StandingOptions& options)
      : context_(context), options_(options), profile_(profile_to_replay(options.compute)) {
    if (profile_) {
      whole_ = std::make_unique<Replay>(
          context, *profile_, strategy::build("allreduce", *profile_, context.cluster, options.seed),
          options.seed);
    } else {
      whole_ = std::make_unique<WholeStepper>(context, options);
      paced_ = options.shapes && parallel::paces_passes(context.cluster);
    }
  }

  void step() override { in_cells_ ? cells_->step() : whole_->step(); }

  void switch_strategy(const strategy::Strategy& strategy) override {
    if (!strategy.shape && !paced_) {
      in_cells_ = false;
      return whole_->switch_strategy(strategy);
    }
    strategy::Strategy shaped = strategy;
    if (!cells_) make_cells(shaped);
    if (!shaped.shape) shaped.shape = strategy::data_parallel(layers_, context_.cluster.worker_ranks());
    if (!in_cells_) whole_->pause();
    in_cells_ = true;
    cells_->switch_strategy(shaped);
  }

  void pause() override {
    if (!in_cells_) whole_->pause();
  }
  graph::Graph graph() const override { return whole_->graph(); }

 private:
  void make_cells(const strategy::Strategy& strategy) {
    std::shared_ptr<models::Model> model;
    if (profile_) {
      const auto host = static_cast<size_t>(context_.cluster.host_of(context_.rank()));
      model = std::make_shared<ReplayedModel>(*profile_, context_.cluster.hosts[host].speed);
    } else {
      model = models::make_model(options_.model, options_.seed);
    }
    layers_ = static_cast<int>(model->sequence().layers.size());
    if (layers_ == 0) bad_input("`model` {}: not a sequence of layers, so it has no shapes", options_.model);
    whole_->pause();
    const auto first =
        strategy.shape ? *strategy.shape : strategy::data_parallel(layers_, context_.cluster.worker_ranks());
    const double slowdown = profile_ ? 0 : parallel::slowdown_of(context_.cluster, context_.rank());
    cells_ = std::make_unique<ShapeStepper>(
        context_, std::move(model), first,
        ShapeStepperOptions{options_.batch_size * context_.workers(), options_.seed, slowdown});
  }

  job::Context& context_;
  StandingOptions options_;
  std::optional<graph::Graph> profile_;
  std::unique_ptr<Stepper> whole_;
  std::unique_ptr<ShapeStepper> cells_;
  int layers_ = 0;
  bool paced_ = false;     // all strategies are run in cells
  bool in_cells_ = false;  // the present one is
};

}  // namespace

void check_compute(const std::string& compute) { profile_to_replay(compute); }

std::unique_ptr<Stepper> make_stepper(job::Context& context, const StandingOptions& options) {
  return std::make_unique<ModelStepper>(context, options);
}

}  // namespace entrain::trials
