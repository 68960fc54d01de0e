// The rules under which workers train apart, each with the settings that it has; their formulas are in
// optim/, one file per rule. A value that is not set follows from the others, as its comment says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace entrain::strategy {

// Leader SGD: every worker is pulled towards the one with the lowest loss.
struct Lsgd {
  int64_t period = 16;                       // steps between exchanges (with groups: of the leader of all)
  double pull = 0.1;                         // towards the leader, at an exchange
  std::optional<double> proximal = {};       // towards it, at each step; the pull / period
  std::string groups = "hosts";              // hosts (one where each host has one worker), one, or a count
  std::optional<int64_t> local_period = {};  // steps between exchanges in a group; a quarter of period
  double global_pull = 0.1;                  // with groups: towards the leader of all
  std::optional<int64_t> loss_window = {};   // steps whose mean loss chooses the leader; the local period
  std::string choice = "best";               // best (lowest loss) or stochastic (softmax of -loss)
  bool overlap = true;                       // an exchange runs beside the next step
};
// The same without rounds: nobody waits for a slow worker.
struct LsgdAsync {
  int64_t period = 16;
  double pull = 0.1;
  std::optional<double> proximal = {};
  std::string groups = "hosts";
  std::optional<int64_t> local_period = {};
  double global_pull = 0.1;
  std::optional<int64_t> loss_window = {};
  std::string choice = "best";
};
// Elastic averaging SGD: workers and a centre pull each other. Eamsgd: with Nesterov momentum in the workers.
struct Easgd {
  int64_t period = 16;
  double pull = 0.1;  // alpha
};
struct EasgdAsync {
  int64_t period = 16;
  double pull = 0.1;
};
// Workers push what they have changed to a centre, and go on from what it holds.
struct Downpour {
  int64_t period = 16;
};
// Parameters are averaged every period.
struct LocalSgd {
  int64_t period = 16;
  bool overlap = true;
};
// The same with momentum over whole periods.
struct Bmuf {
  int64_t period = 16;
  std::optional<double> block_momentum = {};  // 1 - 1/workers
  double block_rate = 1;
};
struct Parle {
  int64_t period = 16;
  double scope = 100;  // gamma and rho start at it
};
// The asynchronous parameter server: each worker steps on the parameters of rank 0, which others change
// meanwhile.
struct AsyncPs {
  int64_t period = 1;
  std::optional<int64_t> staleness = {};  // exchanges that a worker may be ahead of the slowest; any number
};

using Rule = std::variant<Lsgd, LsgdAsync, Easgd, EasgdAsync, Downpour, LocalSgd, Bmuf, Parle, AsyncPs>;

}  // namespace entrain::strategy
