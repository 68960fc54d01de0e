#include "entrain/trials/replay.h"

#include <sys/prctl.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/strategy/validate.h"

namespace entrain::trials {
namespace {

torch::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "float64") return torch::kFloat64;
  if (dtype == "float16") return torch::kFloat16;
  if (dtype == "bfloat16") return torch::kBFloat16;
  return torch::kFloat32;
}

torch::Tensor gradient_for(const graph::Variable& v) {
  const auto options = torch::TensorOptions().dtype(scalar_type(v.dtype));
  if (!v.sparse) return torch::zeros(v.shape, options);
  std::vector<int64_t> shape = v.shape;
  shape[0] = std::max<int64_t>(1, v.rows_per_step);
  const auto rows = torch::randint(v.shape[0], {1, shape[0]}, torch::kInt64);
  return torch::sparse_coo_tensor(rows, torch::zeros(shape, options), v.shape, options);
}

}  // namespace

std::optional<graph::Graph> profile_to_replay(const std::string& compute) {
  constexpr std::string_view kReplay = "replay:";
  if (compute == "real") return std::nullopt;
  if (!compute.starts_with(kReplay)) {
    bad_input("`compute` '{}': allowed are real and replay:FILE", compute);
  }
  return graph::load(compute.substr(kReplay.size()));
}

Replay::Replay(job::Context& context, const graph::Graph& profile, const strategy::Strategy& first,
               uint64_t seed)
    : context_(context),
      graph_(profile),
      speed_(context.cluster.hosts[context.cluster.host_of(context.rank())].speed),
      handle_(context.handles++),
      engine_(*context.transport, context.job.timeout_s, handle_) {
  if (graph_.compute_s() <= 0) {
    bad_input("the profile of {} has no times; profile the model again", graph_.model);
  }
  prctl(PR_SET_TIMERSLACK, 1UL);  // else each sleep is 50 us too long
  torch::manual_seed(seed + static_cast<uint64_t>(context.rank()));
  for (const auto& v : graph_.variables) {
    variables_.push_back(torch::empty(v.shape, scalar_type(v.dtype)));
    gradients_.push_back(gradient_for(v));
  }
  ready_.resize(graph_.variables.size());
  std::iota(ready_.begin(), ready_.end(), 0);
  std::stable_sort(ready_.begin(), ready_.end(), [&](int a, int b) {
    return graph_.variables[a].ready_order < graph_.variables[b].ready_order;
  });
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kModel, handle_});
  job::agree_on_graph(*context_.transport, graph_, Deadline::after(context_.job.timeout_s));
  settle(first);
}

Replay::~Replay() {
  try {
    pause();
    job::give_order(context_, job::To::kServers, {job::Order::Kind::kCloseHandle, handle_});
  } catch (const std::exception&) {
    // Whoever called step() has seen this error.
  }
}

void Replay::settle(const strategy::Strategy& strategy) {
  const auto agreed =
      job::agree_on_strategy(*context_.transport, strategy, Deadline::after(context_.job.timeout_s));
  strategy::validate(agreed, graph_, context_.cluster);
  engine_.set_plan(plan::make_plan(agreed, graph_, context_.cluster), graph_, variables_);
}

void Replay::switch_strategy(const strategy::Strategy& strategy) {
  if (context_.rank() == 0) strategy::validate(strategy, graph_, context_.cluster);
  pause();
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kSwitch, handle_});
  settle(strategy);
}

void Replay::pause() {
  while (step_ > 0 && engine_.take_any() >= 0) {
  }
}

// Sleeps to a point in time, not for a time: lateness does not add up.
void Replay::sleep(double seconds) {
  now_ += std::chrono::duration_cast<Clock::duration>(Seconds(seconds / speed_));
  std::this_thread::sleep_until(now_);
}

void Replay::step() {
  now_ = Clock::now();
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (step_ > 0) engine_.take(v);
    now_ = std::max(now_, Clock::now());
    sleep(graph_.variables[v].forward_s);
  }
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kServeStep, handle_});
  engine_.begin(step_++);
  for (const int v : ready_) {
    sleep(graph_.variables[v].backward_s);
    variables_[v].mutable_grad() = gradients_[v];
    engine_.ready(static_cast<size_t>(v));
  }
}

}  // namespace entrain::trials
