#include "train_notes.h"

#include <fmt/ranges.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/data/data.h"
#include "entrain/models/blueprint.h"
#include "entrain/strategy/tuned_for.h"
#include "entrain/train/examples.h"

namespace entrain::app {

void check_epochs(double epochs, const train::TrainOptions& options) {
  if (epochs > 0 && options.data.empty()) {
    bad_input(
        "--epochs {:g}: examples are made up without --data, so an epoch has no length; give --data, or "
        "--steps",
        epochs);
  }
}

int64_t steps_of_epochs(double epochs, const job::Context& context, const train::TrainOptions& options) {
  check_epochs(epochs, options);
  const auto model = models::make_blueprint(options.model);
  const auto data = data::open_data(
      options.data, *model, train::data_options(options, train::workers_of(context, options), torch::kCPU));
  const auto steps =
      std::max<int64_t>(1, std::llround(epochs * static_cast<double>(data->steps_per_epoch())));
  if (context.rank() == 0) {
    log_info("{:g} epochs are {} steps: {} steps per epoch of {} examples", epochs, steps,
             data->steps_per_epoch(),
             train::examples_per_update(options, train::workers_of(context, options)));
  }
  return steps;
}

void warn_of_another_job(const train::TrainOptions& options, const cluster::Cluster& cluster) {
  const auto tuned = options.strategy.tuned_for();
  if (!tuned) return;
  const auto found = strategy::differences(
      *tuned, strategy::tuned_for(options.model,
                                  train::examples_per_update(options, cluster.workers()) / cluster.workers(),
                                  cluster));
  if (found.empty()) return;
  log_warn(
      "{} was tuned for another job ({}): it may be slower than a builder here; entrain tune finds its own",
      options.strategy.text(), fmt::join(found, "; "));
}

void warn_of_no_exchange(const train::TrainOptions& options) {
  const strategy::Optimizer& o = options.optimizer;
  if (!o.apart() || o.rule == "hogwild" || o.period <= options.steps) return;
  log_warn(
      "the job has {} steps and exchanges every {}: its workers train alone; give more --steps or a shorter "
      "--period",
      options.steps, o.period);
}

std::string written(const train::TrainOptions& options, bool interrupted) {
  std::string text;
  const auto add = [&](const std::string& what, const std::filesystem::path& path) {
    if (!path.empty()) text += fmt::format("  written to   {} ({})\n", path.string(), what);
  };
  add(options.optimizer.apart() ? "losses by worker, tests, checkpoints, strategy.json"
                                : "metrics.jsonl, checkpoints",
      options.out);
  add("state dict", options.save);
  add("TorchScript", options.save_model);
  add("trace, for Perfetto or chrome://tracing", options.trace);
  if (interrupted && options.out.empty())
    text += "  interrupted  without --out, so no checkpoint was written\n";
  if (!options.out.empty() && options.optimizer.rule != "hogwild") {
    text += fmt::format("  {:<12} --resume {}{}\n", interrupted ? "go on with" : "train longer",
                        options.out.string(), interrupted ? "" : " with more --steps");
  }
  return text;
}

}  // namespace entrain::app
