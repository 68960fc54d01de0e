#include "strategies/auto_tuning.h"

#include <algorithm>
#include <thread>

#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/blueprint.h"
#include "entrain/train/cells.h"
#include "entrain/train/examples.h"

namespace entrain::app {

bool searches_shapes(const train::TrainOptions& options, bool switches, const job::Context& context) {
  if (!context.trains() || context.workers() < 2) return false;
  std::string reason;
  if (options.device != "cpu") reason = "--device " + options.device;
  if (options.on_nonfinite == NonFinite::kSkip) reason = "--on-nonfinite skip";
  if (switches) reason = "--switch";
  if (reason.empty() && !train::can_be_cut(models::make_blueprint(options.model)->sequence())) {
    reason = options.model + " cannot be cut into layers";
  }
  if (reason.empty()) return true;
  if (context.rank() == 0) log_info("auto: searches how variables are synchronized only: {}", reason);
  return false;
}

std::unique_ptr<trials::OnlineTuner> make_online_tuner(const train::TrainOptions& options,
                                                       const cluster::Cluster& cluster) {
  const int64_t examples = train::examples_per_update(options, cluster.workers());
  trials::OnlineTunerOptions tuner{.model = options.model,
                                   .batch_size = examples / cluster.workers(),
                                   .steps = options.steps,
                                   .seed = options.seed};
  if (options.shapes_advised) {
    const std::string& base = options.optimizer.base;
    tuner.examples = examples;
    tuner.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    tuner.mixes_examples = layers::mixes_examples(*models::make_blueprint(options.model));
    tuner.optimizer_slots = base == "sgd" ? 0 : base == "adam" ? 2 : 1;
  }
  if (!options.out.empty()) {
    make_folders(options.out);
    tuner.log = options.out / "trials.jsonl";
  }
  return std::make_unique<trials::OnlineTuner>(cluster, std::move(tuner));
}

}  // namespace entrain::app
