// `--compute replay:FILE`: gradients become ready when a profile says so, messages are real.
//
// A profile taken elsewhere (a GPU, say) is slept through instead of computed, so that a small machine can
// rehearse a large cluster: what it measures is communication against that compute.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/sync/engine.h"
#include "entrain/trials/stepper.h"

namespace entrain::trials {

// Of "replay:FILE"; nothing for "real". Throws InputError for any other, and for a file that is no profile.
std::optional<graph::Graph> profile_to_replay(const std::string& compute);

// Gradients are zeros of the right shape (rows drawn at random where sparse); nothing is updated.
// A host of speed s takes 1/s of the profiled time.
class Replay final : public Stepper {
 public:
  // Collective over all ranks (servers call serve()). Throws InputError when the profile has no times.
  Replay(job::Context& context, const graph::Graph& profile, const strategy::Strategy& first, uint64_t seed);
  ~Replay() override;

  void step() override;
  void switch_strategy(const strategy::Strategy& strategy) override;
  void pause() override;
  graph::Graph graph() const override { return graph_; }

 private:
  void settle(const strategy::Strategy& strategy);
  void sleep(double seconds);

  job::Context& context_;
  graph::Graph graph_;
  std::vector<torch::Tensor> variables_;
  std::vector<torch::Tensor> gradients_;
  std::vector<int> ready_;  // variables in the order in which their gradients are made
  double speed_;
  int64_t step_ = 0;
  Clock::time_point now_;  // where the replayed computing stands
  int handle_;
  sync::Engine engine_;
};

}  // namespace entrain::trials
