#include "entrain/api/train_apart.h"

#include <algorithm>
#include <exception>

#include "entrain/base/error.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/alarm.h"
#include "entrain/job/collectives.h"
#include "entrain/job/context.h"
#include "entrain/job/failure.h"
#include "entrain/optim/base.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/parallel/same_start.h"
#include "entrain/strategy/rule_settings.h"
#include "entrain/train/apart.h"
#include "entrain/train/common_saves.h"
#include "entrain/train/step_guard.h"

namespace entrain {
namespace {

// The workers step on their own copies of the same values.
torch::Tensor start_alike(job::Context& context, torch::nn::Module& module,
                          const strategy::Optimizer& settings) {
  context.check_trains();
  if (context.apart) {
    bad_input(
        "a second handle of train_apart beside the first: not supported; allowed: one model that holds both");
  }
  if (settings.asynchronous() && context.workers() != context.world()) {
    bad_input("the rule {} on a cluster with hosts that only serve: allowed: rules that are not asynchronous",
              settings.rule);
  }
  graph::NamedTensors named;
  for (const auto& item : module.named_parameters()) named.emplace_back(item.key(), item.value());
  parallel::check_same_tensors(context, named);
  std::vector<torch::Tensor> state = module.parameters();
  for (const auto& buffer : module.buffers()) state.push_back(buffer);
  job::broadcast(context, state);
  return optim::flatten(module.parameters());
}

}  // namespace

struct ApartWorker::Impl {
  Impl(Context& public_context, torch::nn::Module& model, torch::optim::Optimizer& base, ApartOptions wanted)
      : context(public_context.inner()),
        module(model),
        optimizer(base),
        options(std::move(wanted)),
        settings(strategy::settings_of(options.rule)),
        x(start_alike(context, model, settings)),
        guard(context.rank(), options.on_nonfinite, model, [this](const std::string& why) {
          if (alarm) alarm->raise(why);
        }) {
    if (settings.asynchronous()) {
      context.transport->tolerate_losses();
      alarm.emplace(context);
    }
    rule = optim::make_rule(options.rule, {.x = x,
                                           .base = optimizer,
                                           .transport = *context.transport,
                                           .ranks = context.cluster.worker_ranks(),
                                           .groups = train::make_groups(settings.groups, context.cluster),
                                           .centre = 0,
                                           .timeout_s = context.job.timeout_s,
                                           .seed = options.seed,
                                           .epoch_steps = options.epoch_steps,
                                           .update = [this] {
                                             if (usable) optimizer.step();
                                             guard.check_parameters(x, "after its own update");
                                           }});
    guard.begin(0);
    context.apart = true;
  }
  ~Impl() { context.apart = false; }

  void step(const torch::Tensor& loss) {
    if (!loss.defined() || !loss.requires_grad()) bad_input("step(loss): the loss has no gradient");
    if (alarm) alarm->check();
    const int64_t exchanges = rule->journal().exchanges;
    loss.backward();
    const double value = loss.item<double>();
    usable = guard.may_update(value);
    if (usable) optim::clip_gradients(module.parameters(), options.clip_norm);
    rule->step(value);
    if (rule->journal().exchanges != exchanges) guard.check_parameters(x, "after an exchange");
    for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();
    guard.begin(++steps);  // before the next forward
  }

  std::filesystem::path own(const std::filesystem::path& folder) const {
    if (settings.asynchronous()) {
      bad_input(
          "checkpoints of the rule {}: its workers are never at the same step; allowed: synchronous rules, "
          "or entrain train",
          settings.rule);
    }
    return folder / fmt::format("worker-{}", context.rank());
  }

  job::Context& context;
  torch::nn::Module& module;
  torch::optim::Optimizer& optimizer;
  const ApartOptions options;
  const strategy::Optimizer settings;
  torch::Tensor x;                  // all parameters
  std::optional<job::Alarm> alarm;  // asynchronous rules
  train::StepGuard guard;
  std::unique_ptr<optim::DistributedOptimizer> rule;
  bool usable = true;  // the gradients of the step under way are finite
  int64_t steps = 0;
};

ApartWorker::ApartWorker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApartWorker::~ApartWorker() {
  if (impl_->settings.asynchronous() || std::uncaught_exceptions() > 0) return;
  try {
    impl_->rule->finish();  // an exchange may be under way, and others wait for this worker's part in it
  } catch (const std::exception&) {
    // The job has failed: whoever calls step() sees the error.
  }
}

void ApartWorker::step(const torch::Tensor& loss) {
  job::named_failure(impl_->context, [&] { impl_->step(loss); });
}

void ApartWorker::finish() {
  impl_->rule->finish();
  impl_->rule->leave();
}

// With groups the mean is that of rank 0's, as in `entrain train`.
void ApartWorker::take_result() {
  const torch::Tensor result = impl_->rule->test_parameters();
  const torch::NoGradGuard no_grad;
  impl_->x.copy_(result);
  if (impl_->settings.asynchronous()) return;  // the others may have ended
  job::broadcast(impl_->context, impl_->x);
  for (auto& buffer : impl_->module.buffers()) {
    if (buffer.is_floating_point()) {
      buffer.copy_(job::all_reduce(impl_->context, buffer, job::Reduce::kMean));
    } else {
      job::broadcast(impl_->context, buffer);
    }
  }
}

int64_t ApartWorker::steps() const { return impl_->steps; }
int64_t ApartWorker::exchanges() const { return impl_->rule->journal().exchanges; }
double ApartWorker::communication_s() const { return impl_->rule->journal().communication_s; }

// All workers save the same step and wait for each other, so at any moment the save before is whole
// everywhere.
void ApartWorker::save(const std::filesystem::path& folder, int keep, int64_t step) {
  const auto own = impl_->own(folder);
  impl_->rule->finish();
  impl_->guard.check_parameters(impl_->x, "after an exchange");
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.model = impl_->module.name();
  info.strategy = impl_->settings.rule;
  info.rng = {checkpoint::rng_state()};
  info.rule = impl_->rule->state();
  checkpoint::Checkpoints(own, std::max(keep, 2)).save(info, impl_->module, impl_->optimizer);
  job::barrier(impl_->context);
}

std::optional<int64_t> ApartWorker::resume(const std::filesystem::path& folder) {
  checkpoint::Checkpoints checkpoints(impl_->own(folder));
  const auto readable = checkpoints.readable();
  if (!job::any(impl_->context, !readable.empty())) return std::nullopt;
  const auto point = train::agree_on_save(impl_->context, readable, /*members_only=*/false, folder);
  const auto info = checkpoints.load_newest(impl_->module, impl_->optimizer, point.number);
  if (!info || info->step != point.number || info->strategy != impl_->settings.rule) {
    bad_input("{}: rank {} has no checkpoint under {} at step {}", folder.string(), impl_->context.rank(),
              impl_->settings.rule, point.number);
  }
  impl_->rule->restore(info->rule);
  if (info->rng.size() == 1) checkpoint::set_rng_state(info->rng[0]);
  checkpoints.remove_after(point.number);
  return info->step;
}

std::unique_ptr<ApartWorker> train_apart(Context& context, torch::nn::Module& module,
                                         torch::optim::Optimizer& optimizer, ApartOptions options) {
  return std::make_unique<ApartWorker>(
      std::make_unique<ApartWorker::Impl>(context, module, optimizer, std::move(options)));
}

}  // namespace entrain
