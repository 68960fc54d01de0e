#include "optimizer_flags.h"

#include <optional>

#include "entrain/strategy/asynchrony.h"
#include "entrain/strategy/stored.h"
#include "strategy_files.h"

namespace entrain::app {
namespace {

// A flag for one field; remembers that it was given.
template <typename T>
void field(CLI::App& verb, OptimizerFlags& flags, const std::string& name, T strategy::Optimizer::*member,
           const std::string& help) {
  verb.add_option_function<T>(
          name,
          [&flags, member](const T& value) {
            flags.applied.push_back([=](strategy::Optimizer& o) { o.*member = value; });
          },
          help)
      ->group("Optimizer");
}

}  // namespace

strategy::Optimizer OptimizerFlags::settings(const std::string& name_or_file) const {
  strategy::Optimizer settings;
  std::optional<int64_t> staleness;
  if (is_strategy_file(name_or_file)) {
    const auto file = strategy::load(strategy::parse_name(name_or_file).base);
    settings = file.optimizer.value_or(settings);
    if (!settings.apart()) staleness = staleness_of(file);
  }
  if (!name.empty()) set_rule(settings, name);
  // Synchronous SGD and its bases train as the variables' synchronizers say, which may be asynchronously.
  if (staleness && !settings.apart()) {
    set_rule(settings, "async-ps");
    settings.staleness = *staleness;
  }
  for (const auto& apply : applied) apply(settings);
  validate(settings);
  return settings;
}

void add_optimizer_options(CLI::App& verb, OptimizerFlags& flags) {
  using strategy::Optimizer;
  verb.add_option(
          "--optimizer", flags.name,
          "sgd (synchronous; also momentum, nesterov, adam), or apart: lsgd lsgd-async easgd easgd-async "
          "eamsgd downpour async-ps local-sgd bmuf parle hogwild")
      ->group("Optimizer");
  field(verb, flags, "--base", &Optimizer::base, "Of each worker's own step: sgd momentum nesterov adam");
  field(verb, flags, "--lr", &Optimizer::learning_rate, "Learning rate [0.01]");
  field(verb, flags, "--weight-decay", &Optimizer::weight_decay, "Of the base optimizer [0]");
  field(verb, flags, "--rate-variant", &Optimizer::rate_variant,
        "Rates by worker: same, linear, powers (of two)");
  field(verb, flags, "--lr-schedule", &Optimizer::rate_schedule,
        "Rate over the job: constant, linear, cosine, steps [constant]");
  field(verb, flags, "--warmup", &Optimizer::warmup, "Share of the job in which the rate rises [0]");
  field(verb, flags, "--clip", &Optimizer::clip_norm, "Largest norm of all gradients together; 0: any [0]");
  field(verb, flags, "--period", &Optimizer::period, "Steps between exchanges [16; async-ps 1]");
  field(verb, flags, "--staleness", &Optimizer::staleness,
        "async-ps: exchanges that a worker may be ahead of the slowest; -1: any number [-1]");
  field(verb, flags, "--local-period", &Optimizer::local_period,
        "LSGD groups: in a group [a quarter of --period]");
  field(verb, flags, "--loss-window", &Optimizer::loss_window, "LSGD: steps whose loss chooses the leader");
  field(verb, flags, "--groups", &Optimizer::groups, "LSGD: hosts, one, or a number of groups [hosts]");
  field(verb, flags, "--leader", &Optimizer::choice, "LSGD: best or stochastic [best]");
  field(verb, flags, "--pull", &Optimizer::pull, "Strength at an exchange (LSGD; EASGD's alpha) [0.1]");
  field(verb, flags, "--global-pull", &Optimizer::global_pull, "LSGD groups: to the leader of all [0.1]");
  field(verb, flags, "--proximal", &Optimizer::proximal, "LSGD: pull at each step [pull / period]");
  field(verb, flags, "--overlap", &Optimizer::overlap,
        "Exchange beside the next step where the rule allows [true]");
  field(verb, flags, "--block-momentum", &Optimizer::block_momentum, "BMUF [1 - 1/workers]");
  field(verb, flags, "--scope", &Optimizer::scope, "Parle: where gamma and rho start [100]");
  field(verb, flags, "--threads", &Optimizer::threads, "Hogwild [4]");
}

}  // namespace entrain::app
