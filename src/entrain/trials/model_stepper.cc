#include "entrain/trials/model_stepper.h"

#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/slowdown.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trials/profiled_model.h"
#include "entrain/trials/replay.h"
#include "entrain/trials/replayed_model.h"

namespace entrain::trials {
namespace {

models::Batch batch_of(const models::Model& model, const StandingOptions& options, int rank) {
  auto generator = at::detail::createCPUGenerator(options.seed + static_cast<uint64_t>(rank));
  return model.synthetic(options.batch_size, generator);
}

// Every rank has the whole model.
class WholeStepper final : public Stepper {
 public:
  WholeStepper(job::Context& context, const StandingOptions& options, const std::string& first)
      : options_(options),
        model_(models::make_model(options.model, options.seed)),
        // Thousands of steps on one batch must not end in NaN or denormals, which compute at another speed.
        optimizer_(model_->parameters(), torch::optim::SGDOptions(1e-7)),
        distributed_(context, *model_, optimizer_, {first, options.seed, true}),
        batch_(batch_of(*model_, options, context.rank())) {}

  void step() override { distributed_.step(model_->loss(batch_)); }
  void switch_strategy(const strategy::Strategy& s) override { distributed_.switch_strategy(s); }
  void pause() override { distributed_.finish(); }
  graph::Graph graph() const override {
    graph::Graph g = distributed_.profiled_graph();
    g.model = options_.model;
    g.batch_size = options_.batch_size;
    return g;
  }

 private:
  StandingOptions options_;
  std::shared_ptr<models::Model> model_;
  torch::optim::SGD optimizer_;
  parallel::Distributed distributed_;
  models::Batch batch_;
};

graph::Graph profile_of(const StandingOptions& options, int workers) {
  const auto model = models::make_model(options.model, options.seed);
  const auto examples = [&](int64_t count) {
    auto generator = at::detail::createCPUGenerator(options.seed);
    return model->synthetic(count, generator);
  };
  graph::Graph g = profiled({.module = *model,
                             .sequence = model->sequence(),
                             .loss = [&](const models::Batch& batch) { return model->loss(batch); },
                             .examples = examples,
                             .batch_size = options.batch_size,
                             .workers = workers});
  g.model = options.model;
  return g;
}

class ModelStepper final : public Stepper {
 public:
  ModelStepper(job::Context& context, const StandingOptions& options)
      : context_(context), options_(options), profile_(profile_to_replay(options.compute)) {
    if (!options.shapes) make_whole("allreduce");
    if (!options.shapes || profile_) return;
    for (const auto& layer : models::make_model(options.model, options.seed)->sequence().layers) {
      outline_.push_back({layer.name, {}});
    }
    paced_ = !outline_.empty() && parallel::paces_passes(context.cluster);
  }

  void step() override { in_cells_ ? cells_->step() : whole_->step(); }
  int64_t first_steps() const override { return options_.shapes ? 0 : Stepper::first_steps(); }

  void switch_strategy(const strategy::Strategy& strategy) override {
    if (!strategy.shape && !paced_) {
      if (!whole_) make_whole(strategy::is_builder(strategy.id) ? strategy.id : "allreduce");
      in_cells_ = false;
      return whole_->switch_strategy(strategy);
    }
    pause();
    strategy::Strategy shaped = strategy;
    if (!shaped.shape) {
      shaped.shape =
          strategy::data_parallel(static_cast<int>(outline_.size()), context_.cluster.worker_ranks());
    }
    if (!cells_) make_cells(*shaped.shape);
    in_cells_ = true;
    cells_->switch_strategy(shaped);
  }

  void pause() override {
    if (whole_ && !in_cells_) whole_->pause();
  }

  graph::Graph graph() const override {
    if (!options_.shapes) return whole_->graph();
    if (profile_) return *profile_;
    if (context_.rank() == 0) return profile_of(options_, context_.workers());
    graph::Graph outline;
    outline.batch_size = options_.batch_size;
    outline.layers = outline_;
    return outline;
  }

 private:
  // The first step settles G.
  void make_whole(const std::string& first) {
    if (profile_) {
      const auto strategy = strategy::build(first, *profile_, context_.cluster, options_.seed);
      whole_ = std::make_unique<Replay>(context_, *profile_, strategy, options_.seed);
    } else {
      whole_ = std::make_unique<WholeStepper>(context_, options_, first);
    }
    if (options_.shapes) whole_->step();
  }

  void make_cells(const strategy::Shape& first) {
    std::shared_ptr<models::Model> model;
    if (profile_) {
      const auto host = static_cast<size_t>(context_.cluster.host_of(context_.rank()));
      model = std::make_shared<ReplayedModel>(*profile_, context_.cluster.hosts[host].speed);
    } else {
      model = models::make_model(options_.model, options_.seed);
    }
    const double slowdown = profile_ ? 0 : parallel::slowdown_of(context_.cluster, context_.rank());
    cells_ = std::make_unique<ShapeStepper>(
        context_, std::move(model), first,
        ShapeStepperOptions{options_.batch_size * context_.workers(), options_.seed, slowdown});
  }

  job::Context& context_;
  StandingOptions options_;
  std::optional<graph::Graph> profile_;
  std::vector<graph::Layer> outline_;  // the model's layers by name; none: no sequence of layers
  std::unique_ptr<Stepper> whole_;
  std::unique_ptr<ShapeStepper> cells_;
  bool paced_ = false;     // all strategies are run in cells
  bool in_cells_ = false;  // the present one is
};

}  // namespace

void check_compute(const std::string& compute) { profile_to_replay(compute); }

std::unique_ptr<Stepper> make_stepper(job::Context& context, const StandingOptions& options) {
  return std::make_unique<ModelStepper>(context, options);
}

}  // namespace entrain::trials
