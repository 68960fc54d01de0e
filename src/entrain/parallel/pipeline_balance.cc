#include "entrain/parallel/pipeline_balance.h"

#include <fmt/ranges.h>

#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/checkpoint/rng_state.h"
#include "entrain/job/control.h"
#include "entrain/pipeline/plan/partition.h"
#include "entrain/pipeline/profile/layer_profile.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {
namespace {

std::vector<int> measured_balance(const strategy::Pipeline& wanted, const layers::Sequence& sequence,
                                  const Examples& examples, int64_t micro_batch) {
  const models::Batch part = examples(0, std::max<int64_t>(1, micro_batch));
  // Only rank 0 measures: its random numbers must stay those of the others.
  const torch::Tensor random_numbers = checkpoint::rng_state();
  const auto costs = pipeline::measure_layers(sequence, part.input, part.target);
  checkpoint::set_rng_state(random_numbers);
  std::vector<double> seconds;
  for (const auto& layer : costs.layers) seconds.push_back(layer.forward_s + layer.backward_s);
  return pipeline::min_max(seconds, wanted.devices * wanted.chunks).balance;
}

}  // namespace

std::vector<int> agree_on_balance(job::Context& context, const strategy::Pipeline& wanted,
                                  const layers::Sequence& sequence, const Examples& examples,
                                  int64_t micro_batch) {
  const int cells = wanted.devices * wanted.chunks;
  const auto layers = static_cast<int>(sequence.layers.size());
  if (cells > layers) bad_input("`pipeline`: {} cells of {} layers: allowed: 1 to {}", cells, layers, layers);
  const auto text = [](const std::vector<int>& balance) {
    return fmt::format("{}", fmt::join(balance, ","));
  };
  if (!wanted.balance.empty()) return pipeline::parse_balance(text(wanted.balance), layers, cells);
  if (cells == 1) return {layers};
  std::string own;
  if (context.rank() == 0) own = text(measured_balance(wanted, sequence, examples, micro_batch));
  const std::string agreed =
      job::tell_workers(context, own, transport::tags::kBalance, Deadline::after(context.job.timeout_s),
                        "the pipeline's balance");
  if (context.rank() == 0) log_info("balance {}: layers per cell, by measured time", agreed);
  return pipeline::parse_balance(agreed, layers, cells);
}

}  // namespace entrain::parallel
