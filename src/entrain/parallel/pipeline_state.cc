#include "entrain/parallel/pipeline_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/checkpoint/optimizer_state.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {
namespace {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

bool contains(const std::vector<torch::Tensor>& tensors, const torch::Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.is_same(tensor); });
}

// Whether an entry of the optimizer's state is of one of these parameters (or of none: a group's rate).
bool is_of(const std::string& entry, const torch::nn::Module& module,
           const std::vector<torch::Tensor>& parameters) {
  for (const auto& item : module.named_parameters()) {
    if (entry.starts_with("optimizer.0." + item.key() + ".")) return contains(parameters, item.value());
  }
  return true;
}

// model.NAME of parameters and buffers, and what the optimizer remembers of these parameters: after a resume
// it remembers others' too, as they were then.
Named own_state(const pipeline::RankPipeline& engine, const torch::nn::Module& module,
                const torch::optim::Optimizer& optimizer) {
  Named result;
  const auto buffers = engine.buffers();
  auto parameters = engine.parameters();
  std::erase_if(parameters, [&](const torch::Tensor& parameter) { return !engine.counts_here(parameter); });
  for (const auto& item : module.named_parameters()) {
    if (contains(parameters, item.value())) result.emplace_back("model." + item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers()) {
    if (contains(buffers, item.value())) result.emplace_back("model." + item.key(), item.value());
  }
  for (const auto& item : checkpoint::collect_optimizer_state(optimizer, module)) {
    if (is_of(item.first, module, parameters)) result.push_back(item);
  }
  return result;
}

void send_state(transport::Transport& transport, const Named& state, double timeout_s) {
  const auto deadline = [&] { return Deadline::after(timeout_s); };  // of each message
  nlohmann::json outline = nlohmann::json::array();
  for (const auto& [name, tensor] : state) {
    outline.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  const std::string text = outline.dump();
  transport::send(transport, 0, transport::tags::kCellOutline, transport::as_bytes(text),
                  {0, deadline(), "outline of a cell's state"});
  for (size_t i = 0; i < state.size(); ++i) {
    const torch::Tensor tensor = state[i].second.to(torch::kCPU).contiguous();
    transport::send(transport, 0, transport::tags::kCellState + i,
                    {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()},
                    {0, deadline(), state[i].first});
  }
}

Named receive_state(transport::Transport& transport, int rank, double timeout_s) {
  const auto deadline = [&] { return Deadline::after(timeout_s); };  // of each message
  const auto payload = transport::recv(transport, rank, transport::tags::kCellOutline,
                                       {deadline(), "outline of a cell's state"});
  const auto outline = nlohmann::json::parse(transport::as_text(payload.bytes()));
  Named state;
  for (size_t i = 0; i < outline.size(); ++i) {
    const auto sizes = outline[i][2].get<std::vector<int64_t>>();
    torch::Tensor tensor = torch::empty(sizes, static_cast<torch::ScalarType>(outline[i][1].get<int>()));
    const auto name = outline[i][0].get<std::string>();
    transport::recv_into(transport, rank, transport::tags::kCellState + i,
                         {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}, {deadline(), name});
    state.emplace_back(name, tensor);
  }
  return state;
}

}  // namespace

Named named(const torch::nn::Module& module, const std::vector<torch::Tensor>& parameters) {
  Named result;
  for (const auto& item : module.named_parameters()) {
    const auto same = [&](const auto& had) { return had.second.is_same(item.value()); };
    const bool again = std::any_of(result.begin(), result.end(), same);  // a module that is there twice
    if (!again && contains(parameters, item.value())) result.emplace_back(item.key(), item.value());
  }
  if (result.size() != parameters.size()) {
    fail("{} of the cells' {} parameters are the model's", result.size(), parameters.size());
  }
  return result;
}

void keep_only(torch::nn::Module& module, const std::vector<torch::Tensor>& parameters,
               const std::vector<torch::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) {
    if (!contains(parameters, parameter)) parameter.set_data(torch::empty({0}, parameter.options()));
  }
  for (auto& buffer : module.buffers()) {
    if (!contains(buffers, buffer)) buffer.set_data(torch::empty({0}, buffer.options()));
  }
}

void gather_model(job::Context& context, const std::vector<int>& ranks, const pipeline::RankPipeline& engine,
                  torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  if (ranks.front() != 0) return;
  const Named own = own_state(engine, module, optimizer);
  if (context.rank() != 0) {
    send_state(*context.transport, own, context.job.timeout_s);
    return;
  }
  const torch::NoGradGuard no_grad;
  const auto parameters = module.named_parameters();
  const auto buffers = module.named_buffers();
  std::map<std::string, torch::Tensor> remembered;
  for (const auto& item : own) {
    if (!item.first.starts_with("model.")) remembered.insert(item);
  }
  for (size_t i = 1; i < ranks.size(); ++i) {
    for (const auto& [name, tensor] : receive_state(*context.transport, ranks[i], context.job.timeout_s)) {
      if (!name.starts_with("model.")) {
        remembered[name] = tensor;
        continue;
      }
      const std::string key = name.substr(6);
      torch::Tensor target = parameters.contains(key) ? parameters[key] : buffers[key];
      target.copy_(tensor);
    }
  }
  checkpoint::prepare_optimizer_state(remembered, optimizer, module)();
}

}  // namespace entrain::parallel
