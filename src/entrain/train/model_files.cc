#include "entrain/train/model_files.h"

#include "entrain/base/error.h"
#include "entrain/checkpoint/state_dict.h"
#include "entrain/models/registry.h"
#include "entrain/models/script.h"
#include "entrain/trials/replayed_model.h"

namespace entrain::train {

std::shared_ptr<models::Model> initial_model(const job::Context& context, const TrainOptions& options) {
  if (options.replay) {
    const auto host = static_cast<size_t>(context.cluster.host_of(context.rank()));
    return std::make_shared<trials::ReplayedModel>(*options.replay, context.cluster.hosts[host].speed);
  }
  auto model = models::make_model(options.model, options.seed);
  if (!options.init.empty()) checkpoint::load_state_dict(*model, options.init);
  return model;
}

void check_resumed(const checkpoint::CheckpointInfo& info, const TrainOptions& options) {
  if (info.model != options.model) {
    bad_input("`resume` {}: a checkpoint of {}, not of {}", options.resume.string(), info.model,
              options.model);
  }
  if (info.seed != options.seed) {
    bad_input(
        "`resume` {}: a checkpoint of `seed` {}, not of {}: it would see some examples twice; allowed: {}",
        options.resume.string(), info.seed, options.seed, info.seed);
  }
}

void save_results(const models::Model& model, const TrainOptions& options) {
  if (!options.save.empty()) checkpoint::save_state_dict(model, options.save);
  if (!options.save_model.empty()) models::save_script(model, options.save_model);
}

bool is_tested(const TrainOptions& options, const data::Data& data) {
  if (options.test_every == 0 && options.data.empty()) return false;
  if (data.test_batches() > 0) return true;
  if (options.test_every == 0) return false;
  bad_input("`test_every` {}: `data` {} has no held-out examples (tensors test_NAME)", options.test_every,
            options.data);
}

}  // namespace entrain::train
