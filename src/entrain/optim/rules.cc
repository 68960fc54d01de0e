#include "entrain/optim/rules.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/optim/async_rules.h"

namespace entrain::optim {
namespace {

void refuse_groups_of_one(const Worker& worker) {
  if (worker.groups.size() < 2) return;
  for (const auto& group : worker.groups) {
    if (group.size() == 1) {
      bad_input("optimizer: groups makes a group of one worker (rank {}), allowed: groups of 2 or more",
                group.front());
    }
  }
}

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

Rule make_rule(const strategy::Optimizer& settings, Worker worker) {
  if (settings.rule == "lsgd" || settings.rule == "lsgd-async") {
    refuse_groups_of_one(worker);
    return settings.rule == "lsgd" ? make_lsgd(settings, std::move(worker))
                                   : make_lsgd_async(settings, std::move(worker));
  }
  if (settings.rule == "easgd-async") return make_easgd_async(settings, std::move(worker));
  if (settings.rule == "async-ps") return make_async_ps(settings, std::move(worker));
  if (settings.rule == "downpour") return make_downpour(settings, std::move(worker));
  if (settings.rule == "easgd" || settings.rule == "eamsgd") return make_easgd(settings, std::move(worker));
  if (settings.rule == "local-sgd") return make_local_sgd(settings, std::move(worker));
  if (settings.rule == "bmuf") return make_bmuf(settings, std::move(worker));
  if (settings.rule == "parle") return make_parle(settings, std::move(worker));
  bad_input(
      "optimizer: rule is '{}', allowed here: lsgd, lsgd-async, easgd, easgd-async, eamsgd, downpour, "
      "async-ps, local-sgd, bmuf, parle",
      settings.rule);
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
