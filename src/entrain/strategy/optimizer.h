// The distributed optimizer, one part of a strategy: which rule, around which base, how often.
// Values and their allowed ranges; the rules themselves are in optim/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace entrain::strategy {

// The rules by name. "sgd" is synchronous SGD: gradients meet every step, as the variables' synchronizers
// say. The others let every worker step on its own copy of the parameters.
const std::vector<std::string>& rule_names();

// As flags set it and files store it: the settings of all rules side by side. Rules themselves take only
// theirs (rules.h; rule_settings.h goes between the two).
struct Optimizer {
  std::string rule = "sgd";
  std::string base = "sgd";  // of each worker's own step: sgd, momentum, nesterov, adam
  double learning_rate = 0.01;
  double weight_decay = 0;
  // Worker i of l has rate * f(i): same: 1; linear: (i+1)/l; powers: 2^-(i mod 4). As the authors offer.
  std::string rate_variant = "same";
  // The rate over a job, by the share p of it that is done: constant; linear: 1 - p; cosine: (1 + cos pi
  // p)/2; steps: 1, and a tenth of it after each of p = 1/2 and 3/4.
  std::string rate_schedule = "constant";
  double warmup = 0;     // share of the job in which the rate rises to that of the schedule
  double clip_norm = 0;  // gradients are scaled down to this norm over all variables; 0: as they are

  int64_t period = 16;       // see default_period(); steps between exchanges (LSGD: of the global leader)
  int64_t local_period = 0;  // LSGD with groups: steps between exchanges in a group; 0: a quarter of period
  int64_t loss_window = 0;   // LSGD: steps whose mean loss chooses the leader; 0: the local period
  std::string groups = "hosts";  // LSGD: hosts (one group when a host has one worker), one, or a count "2"
  std::string choice = "best";   // LSGD's leader: best (lowest loss), stochastic (softmax of -loss)

  int64_t staleness = -1;  // async-ps: exchanges that a worker may be ahead of the slowest; -1: any number

  double pull = 0.1;         // LSGD: towards the leader at an exchange; EASGD: alpha
  double global_pull = 0.1;  // LSGD with groups: towards the leader of all
  double proximal = -1;      // LSGD: pull at each step; -1: the pull / its period
  bool overlap = true;  // LSGD, Local SGD: the exchange runs beside the next step, and is applied after it
  double block_momentum = -1;  // BMUF; -1: 1 - 1/workers
  double block_rate = 1;       // BMUF
  double scope = 100;          // Parle: gamma and rho start at it and are annealed by (1 - 1/(2 batches))
  int threads = 4;             // Hogwild

  friend bool operator==(const Optimizer&, const Optimizer&) = default;

  // Every step is local: parameters differ between workers.
  bool apart() const { return rule != "sgd"; }
  // A dead worker is dropped. Nobody waits for a round, unless staleness bounds it.
  bool asynchronous() const;
  // Of worker `index` of `workers`.
  double rate_of(int index, int workers) const;
  // What the schedule makes of the rate when the share `progress` (0..1) of the job is done.
  double rate_factor(double progress) const;
};

// Of a rule whose period is not given: 1 where every step is an exchange by nature (async-ps), else 16.
int64_t default_period(const std::string& rule);

// Sets rule, base and the default period to what a name on a command line means: "lsgd" is a rule (around the
// base there is), "adam" a base of synchronous SGD. Throws InputError listing what is allowed.
void set_rule(Optimizer& optimizer, const std::string& name);

// Throws InputError naming the field, its value and what is allowed.
void validate(const Optimizer& optimizer);

}  // namespace entrain::strategy
