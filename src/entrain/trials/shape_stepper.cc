#include "entrain/trials/shape_stepper.h"

#include "entrain/trials/replayed_model.h"

namespace entrain::trials {

ShapeStepper::ShapeStepper(job::Context& context, std::shared_ptr<models::Model> model,
                           const strategy::Shape& first, const ShapeStepperOptions& options)
    : context_(context),
      model_(std::move(model)),
      // Thousands of steps on one batch must not end in NaN or denormals, which compute at another speed.
      optimizer_(model_->parameters(), torch::optim::SGDOptions(1e-7)),
      options_(options),
      shaped_(context, *model_, model_->sequence(),
              {.shape = first,
               .examples = options.examples,
               .seed = options.seed,
               .slowdown = options.slowdown,
               .rehearsal = true}) {
  shaped_.use(optimizer_, 0);
  expect_passes();
  step();
}

void ShapeStepper::step() {
  shaped_.run([this](int64_t begin, int64_t count) {
    models::Batch& batch = batches_[{begin, count}];
    if (!batch.input.defined()) {
      auto generator = at::detail::createCPUGenerator(options_.seed + static_cast<uint64_t>(begin));
      batch = model_->synthetic(count, generator);
    }
    return batch;
  });
  shaped_.update();
}

void ShapeStepper::switch_strategy(const strategy::Strategy& strategy) {
  shaped_.switch_strategy(strategy);
  batches_.clear();
  expect_passes();
}

void ShapeStepper::expect_passes() {
  if (auto* replayed = dynamic_cast<ReplayedModel*>(model_.get())) {
    replayed->expect(shaped_.shape(), shaped_.assignment(), context_.rank());
  }
}

}  // namespace entrain::trials
