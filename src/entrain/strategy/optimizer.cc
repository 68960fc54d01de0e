#include "entrain/strategy/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/limits.h"

namespace entrain::strategy {
namespace {

using Names = std::vector<std::string>;

void one_of(const char* field, const std::string& value, const Names& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  bad_input("optimizer: {} is '{}', allowed: {}", field, value, fmt::join(allowed, ", "));
}

void at_least_one(const char* field, int64_t value) {
  if (value < 1) bad_input("optimizer: {} is {}, allowed: 1 or more", field, value);
}

// Written so that NaN fails too.
void between(const char* field, double value, double low, double high) {
  if (!(value > low && value < high)) {
    bad_input("optimizer: {} is {}, allowed: more than {} and less than {}", field, value, low, high);
  }
}

void check_groups(const std::string& groups) {
  if (groups == "hosts" || groups == "one") return;
  int count = 0;
  const auto [end, error] = std::from_chars(groups.data(), groups.data() + groups.size(), count);
  if (error != std::errc() || *end != '\0' || count < 1) {
    bad_input("optimizer: groups is '{}', allowed: hosts, one, or a number of groups", groups);
  }
}

// To or from async-ps, what the old rule had for a period and a bound does not suit the new one.
void change_rule(Optimizer& optimizer, const std::string& rule) {
  if ((optimizer.rule == "async-ps") != (rule == "async-ps")) {
    optimizer.period = default_period(rule);
    optimizer.staleness = Optimizer().staleness;
  }
  optimizer.rule = rule;
}

}  // namespace

const Names& rule_names() {
  static const Names names = {"sgd",      "lsgd",     "lsgd-async", "easgd", "easgd-async", "eamsgd",
                              "downpour", "async-ps", "local-sgd",  "bmuf",  "parle",       "hogwild"};
  return names;
}

bool Optimizer::asynchronous() const {
  return rule == "lsgd-async" || rule == "easgd-async" || rule == "downpour" || rule == "async-ps";
}

int64_t default_period(const std::string& rule) { return rule == "async-ps" ? 1 : Optimizer().period; }

double Optimizer::rate_of(int index, int workers) const {
  if (rate_variant == "linear") return learning_rate * (index + 1) / workers;
  if (rate_variant == "powers") return learning_rate * std::ldexp(1.0, -(index % 4));
  return learning_rate;
}

double Optimizer::rate_factor(double progress) const {
  const double p = std::clamp(progress, 0.0, 1.0);
  double factor = 1;
  if (rate_schedule == "linear") factor = 1 - p;
  if (rate_schedule == "cosine") factor = 0.5 * (1 + std::cos(M_PI * p));
  if (rate_schedule == "steps") factor = p < 0.5 ? 1 : p < 0.75 ? 0.1 : 0.01;
  return p < warmup ? factor * p / warmup : factor;
}

void set_rule(Optimizer& optimizer, const std::string& name) {
  const Names& rules = rule_names();
  if (std::find(rules.begin(), rules.end(), name) != rules.end()) {
    change_rule(optimizer, name);
    if (name == "eamsgd") optimizer.base = "nesterov";
  } else if (name == "momentum" || name == "nesterov" || name == "adam") {
    change_rule(optimizer, "sgd");
    optimizer.base = name;
  } else {
    bad_input("unknown optimizer '{}'; allowed: {}, momentum, nesterov, adam", name, fmt::join(rules, ", "));
  }
}

void validate(const Optimizer& o) {
  one_of("rule", o.rule, rule_names());
  one_of("base", o.base, {"sgd", "momentum", "nesterov", "adam"});
  one_of("rate variant", o.rate_variant, {"same", "linear", "powers"});
  one_of("rate schedule", o.rate_schedule, {"constant", "linear", "cosine", "steps"});
  if (!(o.warmup >= 0 && o.warmup < 1)) {
    bad_input("optimizer: warm-up is {}, allowed: 0 to less than 1 (a share of the job)", o.warmup);
  }
  if (!(o.clip_norm >= 0 && std::isfinite(o.clip_norm))) {
    bad_input("optimizer: clip norm is {}, allowed: 0 (off) or more", o.clip_norm);
  }
  one_of("choice", o.choice, {"best", "stochastic"});
  check_groups(o.groups);
  between("learning rate", o.learning_rate, 0, INFINITY);
  if (!(o.weight_decay >= 0 && std::isfinite(o.weight_decay))) {
    bad_input("optimizer: weight decay is {}, allowed: 0 or more", o.weight_decay);
  }
  at_least_one("period", o.period);
  if (o.local_period < 0) bad_input("optimizer: local period is {}, allowed: 1 to period", o.local_period);
  if (o.local_period > o.period) {
    bad_input("optimizer: local period is {}, allowed: 1 to the (global) period, {}", o.local_period,
              o.period);
  }
  if (o.staleness < -1) {
    bad_input("optimizer: staleness is {}, allowed: 0 or more, or -1 (no bound)", o.staleness);
  }
  if (o.staleness != -1 && o.rule != "async-ps") {
    bad_input("optimizer: staleness is {} and the rule {}, allowed with async-ps", o.staleness, o.rule);
  }
  if (o.loss_window < 0) bad_input("optimizer: loss window is {}, allowed: 1 or more", o.loss_window);
  between("pull strength", o.pull, 0, 1);
  between("global pull strength", o.global_pull, 0, 1);
  // -1 stands for the default in both.
  if (o.proximal != -1 && !(o.proximal >= 0 && o.proximal < 1)) {
    bad_input("optimizer: proximal strength is {}, allowed: 0 to less than 1", o.proximal);
  }
  if (o.block_momentum != -1 && !(o.block_momentum >= 0 && o.block_momentum < 1)) {
    bad_input("optimizer: block momentum is {}, allowed: 0 to less than 1", o.block_momentum);
  }
  between("block rate", o.block_rate, 0, INFINITY);
  between("scope", o.scope, 0, INFINITY);
  at_least_one("threads", o.threads);
  if (o.threads > kMaxRanks) {
    bad_input("optimizer: threads is {}, allowed: up to {}", o.threads, kMaxRanks);
  }
}

}  // namespace entrain::strategy
