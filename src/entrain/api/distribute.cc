#include "entrain/api/distribute.h"

#include <optional>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/job/collectives.h"
#include "entrain/job/context.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/saved.h"
#include "entrain/strategy/parts.h"
#include "entrain/trials/advised.h"
#include "entrain/trials/online_tuner.h"

namespace entrain {
namespace {

strategy::Request request_for(const std::string& text) {
  strategy::Request request(text);
  if (request.stored()) {
    strategy::check_parts(*request.stored(), "distribute()", strategy::Parts::kVariablesAndShape);
  }
  return request;
}

// The text is read here; below it is a request. "auto" is no builder: the handle begins with the default. A
// field that is missing here does not compile.
parallel::Options of_handle(const Options& given) {
  const auto& [strategy, seed, overlap_forward, clip_norm, on_nonfinite, buffers, examples, shares,
               first_step, steps] = given;
  return {strategy == "auto" ? parallel::Options().strategy : request_for(strategy),
          seed,
          overlap_forward,
          clip_norm,
          on_nonfinite,
          buffers,
          examples,
          shares,
          first_step,
          steps};
}

}  // namespace

struct Distributed::Impl {
  Impl(Context& context, torch::nn::Module& trained, torch::optim::Optimizer* updated, const Options& wanted)
      : job(context.inner()),
        module(trained),
        optimizer(updated),
        handle(updated != nullptr ? parallel::distribute(job, trained, *updated, of_handle(wanted))
                                  : parallel::distribute(job, trained, of_handle(wanted))) {
    if (wanted.strategy != "auto") return;
    if (job.rank() == 0) {
      tuner.emplace(job.cluster, trials::OnlineTunerOptions{"model", 0, wanted.steps, wanted.seed, {}});
    }
    advised.emplace(job, tuner ? &*tuner : nullptr, /*stream=*/job.handles);  // as many as were made
  }

  // Another strategy may come between two steps; the one that has ended is what it is judged by.
  void stepped() {
    if (!advised) return;
    if (handle->is_profiled()) {
      advised->after_step(handle->steps(), seconds_since(began), handle->strategy().id,
                          [this] { return handle->profiled_graph(); });
    }
    const auto change = [this](const strategy::Strategy& to) { handle->switch_strategy(to); };
    advised->before_step(change, /*stop=*/false, /*last=*/false);
    began = Clock::now();
  }

  job::Context& job;
  torch::nn::Module& module;
  torch::optim::Optimizer* optimizer;
  std::unique_ptr<parallel::Distributed> handle;
  std::optional<trials::OnlineTuner> tuner;  // "auto", on rank 0
  std::optional<trials::Advised> advised;    // "auto"
  Clock::time_point began = Clock::now();    // the step under way
};

Distributed::Distributed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Distributed::~Distributed() {
  if (!impl_->advised || std::uncaught_exceptions() > 0) return;
  try {
    impl_->advised->end();
  } catch (const std::exception&) {
    // The job has failed: whoever called step() has seen the error.
  }
}

void Distributed::step(const torch::Tensor& loss) {
  impl_->handle->step(loss);
  impl_->stepped();
}

void Distributed::backward(const torch::Tensor& loss, bool retain_graph, bool create_graph) {
  impl_->handle->backward(loss, retain_graph, create_graph);
  impl_->stepped();
}

void Distributed::average_gradients() {
  impl_->handle->average_gradients();
  impl_->stepped();
}

ExampleRange Distributed::range() const {
  const auto [begin, count] = impl_->handle->range();
  if (count == 0) bad_input("range() without `examples`: allowed: Options::examples above 0");
  return {begin, count};
}
void Distributed::finish() { impl_->handle->finish(); }
void Distributed::switch_strategy(const Strategy& strategy) {
  if (impl_->advised) bad_input("switch_strategy on a handle whose strategy is auto: not supported");
  strategy::check_parts(strategy.inner(), "switch_strategy()", strategy::Parts::kVariablesAndShape);
  impl_->handle->switch_strategy(strategy.inner());
}
Graph Distributed::graph() const {
  return Graph(impl_->handle->is_profiled() ? impl_->handle->profiled_graph() : impl_->handle->graph());
}
Strategy Distributed::strategy() const { return Strategy(impl_->handle->strategy()); }
Times Distributed::times() const { return impl_->handle->times(); }
int64_t Distributed::steps() const { return impl_->handle->steps(); }
int64_t Distributed::skipped_steps() const { return impl_->handle->skipped_steps(); }

void Distributed::save(const std::filesystem::path& folder, int keep, int64_t step) {
  if (impl_->optimizer == nullptr) {
    bad_input(
        "a handle without an optimizer cannot be saved; allowed: one that distribute() gave an optimizer");
  }
  finish();
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.model = impl_->module.name();
  info.strategy = impl_->handle->strategy().id;
  parallel::save_on_rank_0(impl_->job, folder, keep, std::move(info), impl_->module, *impl_->optimizer);
  job::barrier(impl_->job);
}

std::optional<int64_t> Distributed::resume(const std::filesystem::path& folder) {
  if (impl_->optimizer == nullptr) {
    bad_input("a handle without an optimizer cannot be resumed; allowed: one that distribute() gave one");
  }
  finish();
  const auto info = parallel::load_everywhere(impl_->job, folder, impl_->module, *impl_->optimizer);
  if (!info) return std::nullopt;
  parallel::restore_rng(impl_->job, *info);
  return info->step;
}

std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options) {
  return std::make_unique<Distributed>(
      std::make_unique<Distributed::Impl>(context, module, &optimizer, options));
}

std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module, Options options) {
  return std::make_unique<Distributed>(
      std::make_unique<Distributed::Impl>(context, module, nullptr, options));
}

}  // namespace entrain
