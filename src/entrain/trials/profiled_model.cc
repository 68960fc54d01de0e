#include "entrain/trials/profiled_model.h"

#include <algorithm>

#include "entrain/checkpoint/rng_state.h"
#include "entrain/graph/profile.h"
#include "entrain/pipeline/profile/graph_layers.h"

namespace entrain::trials {
namespace {

// Examples that are timed at once: as many as one host alone would compute, but no more than these, and not
// for longer (a large model's activations would fill the memory, too). What is beyond takes its time in
// proportion.
constexpr int64_t kMostProfiled = 64;
constexpr double kLongestPass = 5;  // seconds, forward and backward

}  // namespace

graph::Graph profiled(const ToProfile& model) {
  const torch::Tensor random_numbers = checkpoint::rng_state();
  const models::Batch batch = model.examples(model.batch_size);
  graph::Graph g = graph::profile(model.module, [&] { return model.loss(batch); }, {.repeats = 3});
  g.batch_size = model.batch_size;
  if (!model.sequence.layers.empty()) {
    const auto affordable = static_cast<int64_t>(kLongestPass / std::max(g.compute_s(), 1e-9) *
                                                 static_cast<double>(model.batch_size));
    const int64_t wanted = std::min({model.batch_size * model.workers, kMostProfiled, affordable});
    const int64_t most = std::max(model.batch_size, wanted);
    const models::Batch examples = model.examples(most);
    pipeline::add_layers(g, model.module, model.sequence, examples.input, examples.target,
                         pipeline::profiled_sizes(most), {.repeats = 3, .budget_s = 2});
  }
  checkpoint::set_rng_state(random_numbers);
  return g;
}

}  // namespace entrain::trials
