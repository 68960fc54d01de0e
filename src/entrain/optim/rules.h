// The rules, one per file, as make_rule (rules.cc) picks them; and what their files share.
#pragma once

#include <memory>
#include <string_view>

#include "entrain/base/clock.h"
#include "entrain/optim/crew.h"
#include "entrain/optim/distributed_optimizer.h"

namespace entrain::optim {

std::unique_ptr<DistributedOptimizer> make_lsgd(const strategy::Lsgd& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_easgd(const strategy::Easgd& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_local_sgd(const strategy::LocalSgd& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_bmuf(const strategy::Bmuf& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_parle(const strategy::Parle& rule, RuleWorker worker);

// The mean of everyone's x: a new tensor, the same bits at all. Collective.
torch::Tensor mean_over(Crew& crew, const torch::Tensor& x);

// LSGD with groups: x <- x - p (x - z) - p_all (x - z_all), both pulls taken at the same x. An undefined z
// does not pull.
void pull_both(torch::Tensor& x, const torch::Tensor& z, double p, const torch::Tensor& z_all, double p_all);

// Adds the time until it goes out of scope to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

// Writing and reading State. A tensor that a rule does not have yet is left out. Reading throws InputError
// naming what is absent or of another size.
void put(State& state, std::string name, int64_t counter);
void put(State& state, std::string name, const torch::Tensor& tensor);
int64_t counter_in(const State& state, std::string_view name);
torch::Tensor tensor_in(const State& state, std::string_view name, const torch::Tensor& like);
torch::Tensor tensor_in(const State& state, std::string_view name);  // of any size
bool has(const State& state, std::string_view name);

}  // namespace entrain::optim
