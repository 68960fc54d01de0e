#include "optimizer_flags.h"

#include <fmt/ranges.h>

#include <optional>

#include "entrain/base/error.h"
#include "entrain/strategy/asynchrony.h"

namespace entrain::app {
namespace {

enum class For { kAll, kApart };

// A flag for one field; remembers that it was given.
template <typename T>
void field(CLI::App& verb, OptimizerFlags& flags, const std::string& name, T strategy::Optimizer::*member,
           For rules, const std::string& help) {
  verb.add_option_function<T>(
          name,
          [=, &flags](const T& value) {
            flags.applied.push_back([=](strategy::Optimizer& o) { o.*member = value; });
            if (rules == For::kApart) flags.apart_only.push_back(name);
          },
          help)
      ->group("Optimizer");
}

}  // namespace

strategy::Optimizer OptimizerFlags::settings(const strategy::Request& request) const {
  strategy::Optimizer settings;
  std::optional<int64_t> staleness;
  if (const auto& file = request.stored()) {
    settings = file->optimizer.value_or(settings);
    if (!settings.apart()) staleness = staleness_of(*file);
  }
  if (!name.empty()) set_rule(settings, name);
  // Synchronous SGD and its bases train as the variables' synchronizers say, which may be asynchronously.
  if (staleness && !settings.apart()) {
    set_rule(settings, "async-ps");
    settings.staleness = *staleness;
  }
  for (const auto& apply : applied) apply(settings);
  validate(settings);
  if (!settings.apart() && !apart_only.empty()) {
    bad_input(
        "{}: {} updates all workers together; allowed with a rule that trains apart, as --optimizer lsgd",
        fmt::join(apart_only, ", "), settings.rule);
  }
  return settings;
}

void add_optimizer_options(CLI::App& verb, OptimizerFlags& flags) {
  using strategy::Optimizer;
  verb.add_option(
          "--optimizer", flags.name,
          "sgd (synchronous; also momentum, nesterov, adam), or apart: lsgd lsgd-async easgd easgd-async "
          "eamsgd downpour async-ps local-sgd bmuf parle hogwild")
      ->group("Optimizer");
  field(verb, flags, "--base", &Optimizer::base, For::kAll,
        "Of each worker's own step: sgd momentum nesterov adam");
  field(verb, flags, "--lr", &Optimizer::learning_rate, For::kAll, "Learning rate [0.01]");
  field(verb, flags, "--weight-decay", &Optimizer::weight_decay, For::kAll, "Of the base optimizer [0]");
  field(verb, flags, "--rate-variant", &Optimizer::rate_variant, For::kApart,
        "Rates by worker: same, linear, powers (of two)");
  field(verb, flags, "--lr-schedule", &Optimizer::rate_schedule, For::kAll,
        "Rate over the job: constant, linear, cosine, steps [constant]");
  field(verb, flags, "--warmup", &Optimizer::warmup, For::kAll,
        "Share of the job in which the rate rises [0]");
  field(verb, flags, "--clip", &Optimizer::clip_norm, For::kAll,
        "Largest norm of all gradients together; 0: any [0]");
  field(verb, flags, "--period", &Optimizer::period, For::kApart, "Steps between exchanges [16; async-ps 1]");
  field(verb, flags, "--staleness", &Optimizer::staleness, For::kApart,
        "async-ps: exchanges that a worker may be ahead of the slowest; -1: any number [-1]");
  field(verb, flags, "--local-period", &Optimizer::local_period, For::kApart,
        "LSGD groups: in a group [a quarter of --period]");
  field(verb, flags, "--loss-window", &Optimizer::loss_window, For::kApart,
        "LSGD: steps whose loss chooses the leader");
  field(verb, flags, "--groups", &Optimizer::groups, For::kApart,
        "LSGD: hosts, one, or a number of groups [hosts]");
  field(verb, flags, "--leader", &Optimizer::choice, For::kApart, "LSGD: best or stochastic [best]");
  field(verb, flags, "--pull", &Optimizer::pull, For::kApart,
        "Strength at an exchange (LSGD; EASGD's alpha) [0.1]");
  field(verb, flags, "--global-pull", &Optimizer::global_pull, For::kApart,
        "LSGD groups: to the leader of all [0.1]");
  field(verb, flags, "--proximal", &Optimizer::proximal, For::kApart,
        "LSGD: pull at each step [the pull / its period]");
  field(verb, flags, "--overlap", &Optimizer::overlap, For::kApart,
        "Exchange beside the next step where the rule allows [true]");
  field(verb, flags, "--block-momentum", &Optimizer::block_momentum, For::kApart, "BMUF [1 - 1/workers]");
  field(verb, flags, "--scope", &Optimizer::scope, For::kApart, "Parle: where gamma and rho start [100]");
  field(verb, flags, "--threads", &Optimizer::threads, For::kApart, "Hogwild [4]");
}

}  // namespace entrain::app
