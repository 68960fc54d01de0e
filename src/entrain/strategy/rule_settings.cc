#include "entrain/strategy/rule_settings.h"

#include "entrain/base/error.h"

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

template <typename Leader>
Leader leader_of(const Optimizer& settings) {
  Leader rule;
  rule.period = settings.period;
  rule.pull = settings.pull;
  if (settings.proximal >= 0) rule.proximal = settings.proximal;
  rule.groups = settings.groups;
  if (settings.local_period > 0) rule.local_period = settings.local_period;
  rule.global_pull = settings.global_pull;
  if (settings.loss_window > 0) rule.loss_window = settings.loss_window;
  rule.choice = settings.choice;
  return rule;
}

Lsgd lsgd_of(const Optimizer& settings) {
  Lsgd rule = leader_of<Lsgd>(settings);
  rule.overlap = settings.overlap;
  return rule;
}

Bmuf bmuf_of(const Optimizer& settings) {
  Bmuf rule{.period = settings.period, .block_rate = settings.block_rate};
  if (settings.block_momentum >= 0) rule.block_momentum = settings.block_momentum;
  return rule;
}

AsyncPs async_ps_of(const Optimizer& settings) {
  AsyncPs rule{.period = settings.period};
  if (settings.staleness >= 0) rule.staleness = settings.staleness;
  return rule;
}

}  // namespace

Optimizer settings_of(const Rule& rule) {
  Optimizer settings;
  std::visit(Put{settings}, rule);
  settings.period = std::visit([](const auto& chosen) { return chosen.period; }, rule);
  validate(settings);
  return settings;
}

Rule rule_of(const Optimizer& o) {
  if (o.rule == "lsgd") return lsgd_of(o);
  if (o.rule == "lsgd-async") return leader_of<LsgdAsync>(o);
  if (o.rule == "easgd" || o.rule == "eamsgd") return Easgd{o.period, o.pull};
  if (o.rule == "easgd-async") return EasgdAsync{o.period, o.pull};
  if (o.rule == "downpour") return Downpour{o.period};
  if (o.rule == "async-ps") return async_ps_of(o);
  if (o.rule == "local-sgd") return LocalSgd{o.period, o.overlap};
  if (o.rule == "bmuf") return bmuf_of(o);
  if (o.rule == "parle") return Parle{o.period, o.scope};
  bad_input(
      "optimizer: rule is '{}', allowed here: lsgd, lsgd-async, easgd, easgd-async, eamsgd, downpour, "
      "async-ps, local-sgd, bmuf, parle",
      o.rule);
}

}  // namespace entrain::strategy
