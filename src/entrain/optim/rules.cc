#include "entrain/optim/rules.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/optim/async_rules.h"

namespace entrain::optim {
namespace {

void refuse_groups_of_one(const RuleWorker& worker) {
  if (worker.groups.size() < 2) return;
  for (const auto& group : worker.groups) {
    if (group.size() == 1) {
      bad_input("optimizer: groups makes a group of one worker (rank {}), allowed: groups of 2 or more",
                group.front());
    }
  }
}

struct Make {
  using Made = std::unique_ptr<DistributedOptimizer>;
  RuleWorker& worker;  // moved from

  Made operator()(const strategy::Lsgd& rule) const {
    refuse_groups_of_one(worker);
    return make_lsgd(rule, std::move(worker));
  }
  Made operator()(const strategy::LsgdAsync& rule) const {
    refuse_groups_of_one(worker);
    return make_lsgd_async(rule, std::move(worker));
  }
  Made operator()(const strategy::Easgd& rule) const { return make_easgd(rule, std::move(worker)); }
  Made operator()(const strategy::EasgdAsync& rule) const {
    return make_easgd_async(rule, std::move(worker));
  }
  Made operator()(const strategy::Downpour& rule) const { return make_downpour(rule, std::move(worker)); }
  Made operator()(const strategy::AsyncPs& rule) const { return make_async_ps(rule, std::move(worker)); }
  Made operator()(const strategy::LocalSgd& rule) const { return make_local_sgd(rule, std::move(worker)); }
  Made operator()(const strategy::Bmuf& rule) const { return make_bmuf(rule, std::move(worker)); }
  Made operator()(const strategy::Parle& rule) const { return make_parle(rule, std::move(worker)); }
};

const torch::Tensor* find(const State& state, std::string_view name) {
  const auto at = std::find_if(state.begin(), state.end(), [&](const auto& e) { return e.first == name; });
  return at == state.end() ? nullptr : &at->second;
}

const torch::Tensor& need(const State& state, std::string_view name) {
  const torch::Tensor* found = find(state, name);
  if (!found)
    bad_input("the checkpoint has no '{}' of the distributed optimizer: another rule wrote it", name);
  return *found;
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_rule(const strategy::Rule& rule, RuleWorker worker) {
  return std::visit(Make{worker}, rule);
}

torch::Tensor mean_over(Crew& crew, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  torch::Tensor sum = x.detach().clone();
  crew.all_reduce(sum);
  return sum.div_(crew.count());
}

void pull_both(torch::Tensor& x, const torch::Tensor& z, double p, const torch::Tensor& z_all, double p_all) {
  torch::Tensor to_all;  // taken before x moves
  if (z_all.defined()) to_all = (z_all - x).mul_(p_all);
  if (z.defined()) x.lerp_(z, p);
  if (to_all.defined()) x.add_(to_all);
}

void put(State& state, std::string name, int64_t counter) {
  state.emplace_back(std::move(name), torch::tensor(counter, torch::kInt64));
}

void put(State& state, std::string name, const torch::Tensor& tensor) {
  if (tensor.defined())
    state.emplace_back(std::move(name), tensor.detach().to(torch::kCPU, tensor.scalar_type(), false, true));
}

int64_t counter_in(const State& state, std::string_view name) { return need(state, name).item<int64_t>(); }

torch::Tensor tensor_in(const State& state, std::string_view name, const torch::Tensor& like) {
  const torch::Tensor& saved = need(state, name);
  if (saved.sizes() != like.sizes() || saved.scalar_type() != like.scalar_type()) {
    bad_input("the checkpoint's '{}' has {} elements of {}, allowed: {} of {}", name, saved.numel(),
              torch::toString(saved.scalar_type()), like.numel(), torch::toString(like.scalar_type()));
  }
  return saved.to(like.device(), like.scalar_type(), false, /*copy=*/true);
}

torch::Tensor tensor_in(const State& state, std::string_view name) { return need(state, name).clone(); }

bool has(const State& state, std::string_view name) { return find(state, name) != nullptr; }

}  // namespace entrain::optim
