// Between a rule with the settings that it has (rules.h) and the optimizer part of a strategy, which has
// those of all rules and is what flags set and files store (optimizer.h). Nothing else knows both forms.
#pragma once

#include <algorithm>

#include "entrain/strategy/optimizer.h"
#include "entrain/strategy/rules.h"

namespace entrain::strategy {

// The settings of a job under this rule. Throws InputError for a value that the rule cannot have.
Optimizer settings_of(const Rule& rule);

// The rule that the settings name; eamsgd is Easgd, around another base. Requires: they pass validate().
// Throws InputError for sgd, which is no rule of workers that train apart, and for hogwild, which has threads
// instead.
Rule rule_of(const Optimizer& settings);

// What follows from LSGD's settings where it is not set. `Leader`: Lsgd or LsgdAsync.
template <typename Leader>
int64_t local_period_of(const Leader& rule) {
  return rule.local_period.value_or(std::max<int64_t>(1, rule.period / 4));
}
template <typename Leader>
int64_t loss_window_of(const Leader& rule) {
  return rule.loss_window.value_or(local_period_of(rule));
}
// The pull at each step: towards the leader of the group (of all, where there is one group), and with groups
// towards the leader of all.
template <typename Leader>
double proximal_of(const Leader& rule, bool grouped) {
  return rule.proximal.value_or(rule.pull /
                                static_cast<double>(grouped ? local_period_of(rule) : rule.period));
}
template <typename Leader>
double global_proximal_of(const Leader& rule) {
  return rule.proximal.value_or(rule.global_pull / static_cast<double>(rule.period));
}

}  // namespace entrain::strategy
