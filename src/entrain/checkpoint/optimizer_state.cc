#include "entrain/checkpoint/optimizer_state.h"

#include <c10/util/Type.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <sstream>
#include <typeinfo>
#include <unordered_map>

#include "entrain/base/error.h"

namespace entrain::checkpoint {
namespace {

namespace optim = torch::optim;
using StateMap = std::remove_reference_t<decltype(std::declval<optim::Optimizer&>().state())>;
using Named = std::vector<std::pair<std::string, torch::Tensor>>;
using Saved = std::map<std::string, torch::Tensor>;

// ---- the optimizers we know: the fields of their per-parameter state

struct Sgd {
  using Optimizer = optim::SGD;
  using State = optim::SGDParamState;
  static constexpr const char* kName = "SGD";
  static void visit(auto& state, auto&& field) { field("momentum_buffer", state.momentum_buffer()); }
};

template <typename OptimizerType, typename StateType>
struct AdamFamily {
  using Optimizer = OptimizerType;
  using State = StateType;
  static void visit(auto& state, auto&& field) {
    field("step", state.step());
    field("exp_avg", state.exp_avg());
    field("exp_avg_sq", state.exp_avg_sq());
    field("max_exp_avg_sq", state.max_exp_avg_sq());
  }
};
struct Adam : AdamFamily<optim::Adam, optim::AdamParamState> {
  static constexpr const char* kName = "Adam";
};
struct AdamW : AdamFamily<optim::AdamW, optim::AdamWParamState> {
  static constexpr const char* kName = "AdamW";
};

struct Adagrad {
  using Optimizer = optim::Adagrad;
  using State = optim::AdagradParamState;
  static constexpr const char* kName = "Adagrad";
  static void visit(auto& state, auto&& field) {
    field("step", state.step());
    field("sum", state.sum());
  }
};

struct RmsProp {
  using Optimizer = optim::RMSprop;
  using State = optim::RMSpropParamState;
  static constexpr const char* kName = "RMSprop";
  static void visit(auto& state, auto&& field) {
    field("step", state.step());
    field("square_avg", state.square_avg());
    field("momentum_buffer", state.momentum_buffer());
    field("grad_avg", state.grad_avg());
  }
};

// Calls f(Kind) with the first kind that `optimizer` is.
template <typename First, typename... Rest, typename F>
auto with_kind_of(const optim::Optimizer& optimizer, F&& f) {
  if (dynamic_cast<const typename First::Optimizer*>(&optimizer) != nullptr) return f(First{});
  if constexpr (sizeof...(Rest) > 0) {
    return with_kind_of<Rest...>(optimizer, std::forward<F>(f));
  } else {
    const auto& type = typeid(optimizer);
    bad_input("the state of optimizer {} cannot be stored; allowed: SGD, Adam, AdamW, Adagrad, RMSprop",
              c10::demangle(type.name()));
  }
}
template <typename F>
auto with_kind(const optim::Optimizer& optimizer, F&& f) {
  return with_kind_of<Sgd, Adam, AdamW, Adagrad, RmsProp>(optimizer, std::forward<F>(f));
}

// ---- names

// libtorch 2 keys the state by the parameter's address, 1.13 by that address printed.
template <typename Key>
Key state_key(const torch::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;
    text << static_cast<const void*>(parameter.unsafeGetTensorImpl());
    return text.str();
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}
auto state_key_of(const torch::Tensor& parameter) { return state_key<StateMap::key_type>(parameter); }

// Calls f(prefix, parameter) for each parameter of the optimizer; the prefix is "optimizer.GROUP.PARAMETER".
void for_each_parameter(const optim::Optimizer& optimizer, const torch::nn::Module& module,
                        const std::function<void(const std::string&, const torch::Tensor&)>& f) {
  std::unordered_map<const void*, std::string> names;
  for (const auto& item : module.named_parameters()) {
    names.emplace(item.value().unsafeGetTensorImpl(), item.key());  // a tied parameter goes by its first name
  }
  const auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& parameters = groups[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto name = names.find(parameters[i].unsafeGetTensorImpl());
      if (name == names.end()) {
        bad_input("parameter {} of the optimizer's group {} is not a parameter of the model", i, g);
      }
      f(fmt::format("optimizer.{}.{}", g, name->second), parameters[i]);
    }
  }
}

std::string lr_name(size_t group) { return fmt::format("optimizer.{}.lr", group); }

// ---- saving

void collect(Named& to, const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor.layout() == torch::kSparse) {
    to.emplace_back(name + ".indices", tensor._indices());
    to.emplace_back(name + ".values", tensor._values());
    to.emplace_back(name + ".coalesced", torch::tensor(tensor.is_coalesced()));
  } else {
    to.emplace_back(name, tensor);
  }
}

// ---- restoring

// Hands out saved tensors and remembers which, so that what nobody asked for is found.
class Source {
 public:
  explicit Source(const Saved& saved) : saved_(saved) {}

  // Undefined when there is none of that name.
  torch::Tensor take(const std::string& name) {
    const auto found = saved_.find(name);
    if (found == saved_.end()) return {};
    taken_.insert(name);
    return found->second;
  }

  template <typename T>
  std::optional<T> take_scalar(const std::string& name) {
    const torch::Tensor value = take(name);
    if (!value.defined()) return std::nullopt;
    if (value.dim() != 0 || value.scalar_type() != c10::CppTypeToScalarType<T>::value) {
      bad_input("{} in the checkpoint is not one {}", name,
                c10::toString(c10::CppTypeToScalarType<T>::value));
    }
    return value.item<T>();
  }

  void check_all_taken() const {
    for (const auto& item : saved_) {
      if (!taken_.contains(item.first)) {
        bad_input("{} is in the checkpoint, but the optimizer has no place for it", item.first);
      }
    }
  }

 private:
  const Saved& saved_;
  std::set<std::string> taken_;
};

// A copy beside the parameter: same device, same order in memory.
torch::Tensor place(const std::string& name, const torch::Tensor& saved, const torch::Tensor& parameter) {
  if (saved.sizes() != parameter.sizes()) {
    bad_input("{} has shape {} in the checkpoint, but the parameter has {}", name,
              fmt::join(saved.sizes(), "x"), fmt::join(parameter.sizes(), "x"));
  }
  torch::Tensor placed =
      torch::empty_like(parameter.detach(), parameter.options().dtype(saved.scalar_type()));
  return placed.copy_(saved);
}

torch::Tensor place_sparse(const std::string& name, Source& source, const torch::Tensor& parameter) {
  const auto indices = source.take(name + ".indices"), values = source.take(name + ".values");
  const auto coalesced = source.take_scalar<bool>(name + ".coalesced");
  if (!indices.defined() && !values.defined() && !coalesced) return {};
  if (!indices.defined() || !values.defined() || !coalesced) {
    bad_input("{} is incomplete in the checkpoint: it needs indices, values and coalesced", name);
  }
  try {  // the constructor checks the indices against the shape
    auto tensor =
        torch::sparse_coo_tensor(indices, values, parameter.sizes(), values.options().layout(torch::kSparse));
    return tensor._coalesced_(*coalesced).to(parameter.device());
  } catch (const c10::Error& e) {
    bad_input("{} in the checkpoint is not a sparse tensor: {}", name, e.what_without_backtrace());
  }
}

// The state of one parameter; null when the checkpoint holds none.
template <typename Kind>
std::unique_ptr<optim::OptimizerParamState> restore_state(Source& source, const std::string& prefix,
                                                          const torch::Tensor& parameter) {
  auto state = std::make_unique<typename Kind::State>();
  bool any = false;
  Kind::visit(*state, [&](const char* field, auto& value) {
    const std::string name = fmt::format("{}.{}", prefix, field);
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, int64_t>) {
      const auto saved = source.take_scalar<int64_t>(name);
      if (saved) value = *saved, any = true;
    } else {
      const torch::Tensor saved = source.take(name);
      value = saved.defined() ? place(name, saved, parameter) : place_sparse(name, source, parameter);
      any |= value.defined();
    }
  });
  if (!any) return nullptr;
  return state;
}

}  // namespace

std::string optimizer_name(const optim::Optimizer& optimizer) {
  return with_kind(optimizer, [](auto kind) { return std::string(decltype(kind)::kName); });
}

Named collect_optimizer_state(const optim::Optimizer& optimizer, const torch::nn::Module& module) {
  Named named;
  const auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    named.emplace_back(lr_name(g), torch::tensor(groups[g].options().get_lr(), torch::kDouble));
  }
  with_kind(optimizer, [&](auto kind) {
    using Kind = decltype(kind);
    for_each_parameter(optimizer, module, [&](const std::string& prefix, const torch::Tensor& parameter) {
      const auto found = optimizer.state().find(state_key_of(parameter));
      if (found == optimizer.state().end() || found->second == nullptr) return;
      const auto* state = dynamic_cast<const typename Kind::State*>(found->second.get());
      if (state == nullptr) bad_input("{} is not the state of an {} optimizer", prefix, Kind::kName);
      Kind::visit(*state, [&](const char* field, const auto& value) {
        const std::string name = fmt::format("{}.{}", prefix, field);
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, int64_t>) {
          named.emplace_back(name, torch::tensor(value, torch::kLong));
        } else {
          collect(named, name, value);
        }
      });
    });
  });
  return named;
}

std::function<void()> prepare_optimizer_state(const Saved& saved, optim::Optimizer& optimizer,
                                              const torch::nn::Module& module) {
  Source source(saved);
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto rate = source.take_scalar<double>(lr_name(g));
    if (!rate) bad_input("{} is missing in the checkpoint: its optimizer had fewer groups", lr_name(g));
    rates.push_back(*rate);
  }
  auto states = std::make_shared<StateMap>();  // shared, as std::function must be copyable
  with_kind(optimizer, [&](auto kind) {
    for_each_parameter(optimizer, module, [&](const std::string& prefix, const torch::Tensor& parameter) {
      if (auto state = restore_state<decltype(kind)>(source, prefix, parameter)) {
        (*states)[state_key_of(parameter)] = std::move(state);
      }
    });
  });
  source.check_all_taken();
  return [&optimizer, rates = std::move(rates), states] {
    std::swap(optimizer.state(), *states);
    for (size_t g = 0; g < rates.size(); ++g) optimizer.param_groups()[g].options().set_lr(rates[g]);
  };
}

}  // namespace entrain::checkpoint
