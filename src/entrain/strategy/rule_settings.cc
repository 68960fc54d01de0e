#include "entrain/strategy/rule_settings.h"

namespace entrain::strategy {
namespace {

// What LSGD's two forms share.
template <typename Leader>
void put_leader(Optimizer& settings, const Leader& rule) {
  settings.pull = rule.pull;
  settings.proximal = rule.proximal.value_or(settings.proximal);
  settings.groups = rule.groups;
  settings.local_period = rule.local_period.value_or(settings.local_period);
  settings.global_pull = rule.global_pull;
  settings.loss_window = rule.loss_window.value_or(settings.loss_window);
  settings.choice = rule.choice;
}

struct Put {
  Optimizer& settings;

  void operator()(const Lsgd& rule) const {
    settings.rule = "lsgd";
    put_leader(settings, rule);
    settings.overlap = rule.overlap;
  }
  void operator()(const LsgdAsync& rule) const {
    settings.rule = "lsgd-async";
    put_leader(settings, rule);
  }
  void operator()(const Easgd& rule) const {
    settings.rule = "easgd";
    settings.pull = rule.pull;
  }
  void operator()(const EasgdAsync& rule) const {
    settings.rule = "easgd-async";
    settings.pull = rule.pull;
  }
  void operator()(const Downpour&) const { settings.rule = "downpour"; }
  void operator()(const LocalSgd& rule) const {
    settings.rule = "local-sgd";
    settings.overlap = rule.overlap;
  }
  void operator()(const Bmuf& rule) const {
    settings.rule = "bmuf";
    settings.block_momentum = rule.block_momentum.value_or(settings.block_momentum);
    settings.block_rate = rule.block_rate;
  }
  void operator()(const Parle& rule) const {
    settings.rule = "parle";
    settings.scope = rule.scope;
  }
  void operator()(const AsyncPs& rule) const {
    settings.rule = "async-ps";
    settings.staleness = rule.staleness.value_or(settings.staleness);
  }
};

}  // namespace

Optimizer settings_of(const Rule& rule) {
  Optimizer settings;
  std::visit(Put{settings}, rule);
  settings.period = std::visit([](const auto& chosen) { return chosen.period; }, rule);
  validate(settings);
  return settings;
}

}  // namespace entrain::strategy
