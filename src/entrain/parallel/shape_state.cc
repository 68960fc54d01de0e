#include "entrain/parallel/shape_state.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unordered_map>

#include "entrain/base/error.h"
#include "entrain/checkpoint/optimizer_state.h"
#include "entrain/plan/moves.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {
namespace {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;
constexpr std::string_view kOutline = "outline of moved layers";

bool has(const std::vector<int>& ranks, int rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// By part: the tensors that a rank has of it, and entries of none (a group's rate) at the end.
std::vector<Named> entries_by_part(const torch::nn::Module& module, const torch::optim::Optimizer& optimizer,
                                   const std::vector<ModelPart>& parts) {
  std::vector<Named> result(parts.size() + 1);
  std::map<std::string, size_t> part_of;
  for (size_t p = 0; p < parts.size(); ++p) {
    result[p].emplace_back("model." + parts[p].name, parts[p].tensor.detach());
    part_of[parts[p].name] = p;
  }
  for (auto& entry : checkpoint::collect_optimizer_state(optimizer, module)) {
    // optimizer.GROUP.PARAMETER.FIELD, where names may have dots: the longest that is a part's counts.
    std::string name = entry.first.substr(entry.first.find('.', sizeof("optimizer.") - 1) + 1);
    auto found = part_of.end();
    while (found == part_of.end() && name.find('.') != std::string::npos) {
      name.resize(name.rfind('.'));
      found = part_of.find(name);
    }
    result[found == part_of.end() ? parts.size() : found->second].push_back(std::move(entry));
  }
  return result;
}

void send_entries(job::Context& context, int to, const Named& entries) {
  const auto deadline = [&] { return Deadline::after(context.job.timeout_s); };  // of each message
  nlohmann::json outline = nlohmann::json::array();
  for (const auto& [name, tensor] : entries) {
    outline.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  const std::string text = outline.dump();
  transport::send(*context.transport, to, transport::tags::kCellOutline, transport::as_bytes(text),
                  {0, deadline(), kOutline});
  for (size_t i = 0; i < entries.size(); ++i) {
    const torch::Tensor tensor = entries[i].second.to(torch::kCPU).contiguous();
    transport::send(*context.transport, to, transport::tags::kCellState + i,
                    {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()},
                    {0, deadline(), entries[i].first});
  }
}

Named receive_entries(job::Context& context, int from, int64_t& bytes) {
  const auto deadline = [&] { return Deadline::after(context.job.timeout_s); };
  const auto payload =
      transport::recv(*context.transport, from, transport::tags::kCellOutline, {deadline(), kOutline});
  const auto outline = nlohmann::json::parse(transport::as_text(payload.bytes()));
  Named entries;
  for (size_t i = 0; i < outline.size(); ++i) {
    const auto sizes = outline[i][2].get<std::vector<int64_t>>();
    const torch::Tensor tensor =
        torch::empty(sizes, static_cast<torch::ScalarType>(outline[i][1].get<int>()));
    const auto name = outline[i][0].get<std::string>();
    transport::recv_into(*context.transport, from, transport::tags::kCellState + i,
                         {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}, {deadline(), name});
    bytes += static_cast<int64_t>(tensor.nbytes());
    entries.emplace_back(name, tensor);
  }
  return entries;
}

// Sends on a thread of its own: two ranks may move layers to each other.
class Sending {
 public:
  Sending(job::Context& context, std::map<int, Named> outgoing)
      : thread_([this, &context, outgoing = std::move(outgoing)] {
          try {
            for (const auto& [to, entries] : outgoing) send_entries(context, to, entries);
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~Sending() {
    if (thread_.joinable()) thread_.join();
  }
  void finish() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::thread thread_;
};

void put(const torch::Tensor& part, const torch::Tensor& value) {
  const torch::NoGradGuard no_grad;
  torch::Tensor target = part;
  if (target.sizes() == value.sizes()) {
    target.copy_(value);
  } else {
    target.set_data(value.to(target.device()));
  }
}

}  // namespace

int64_t ModelPart::bytes() const {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  return elements * static_cast<int64_t>(tensor.element_size());
}

std::vector<ModelPart> parts_of(const torch::nn::Module& module, const layers::Sequence& sequence) {
  std::vector<ModelPart> parts;
  std::unordered_map<const c10::TensorImpl*, size_t> seen;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor, bool parameter) {
    if (!seen.emplace(tensor.unsafeGetTensorImpl(), parts.size()).second) return;
    parts.push_back({name, tensor, parameter, tensor.sizes().vec(), {}});
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value(), true);
  for (const auto& item : module.named_buffers()) add(item.key(), item.value(), false);
  const auto use = [&](const torch::Tensor& tensor, int layer) {
    const auto found = seen.find(tensor.unsafeGetTensorImpl());
    if (found == seen.end()) {
      bad_input("layer '{}' has a parameter that is not the model's", sequence.layers[layer].name);
    }
    auto& of = parts[found->second].layers;
    if (of.empty() || of.back() != layer) of.push_back(layer);
  };
  for (int layer = 0; layer < static_cast<int>(sequence.layers.size()); ++layer) {
    for (const auto& parameter : sequence.layers[layer].parameters()) use(parameter, layer);
    if (!sequence.layers[layer].module) continue;
    for (const auto& buffer : sequence.layers[layer].module->buffers()) use(buffer, layer);
  }
  return parts;
}

Holdings holdings_under(const strategy::Shape& shape, const std::vector<ModelPart>& parts,
                        const std::vector<int>& workers) {
  Holdings result;
  for (const ModelPart& part : parts) {
    std::set<int> ranks;
    if (part.layers.empty()) ranks.insert(workers.begin(), workers.end());
    for (const int layer : part.layers) {
      const auto holders = shape.holders_of(layer);
      ranks.insert(holders.begin(), holders.end());
    }
    result.emplace_back(ranks.begin(), ranks.end());
  }
  return result;
}

int64_t move_parts(job::Context& context, const torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                   const std::vector<ModelPart>& parts, const Holdings& had, const Holdings& wanted) {
  const int rank = context.rank();
  std::vector<plan::Held> things;
  for (size_t p = 0; p < parts.size(); ++p) things.push_back({parts[p].bytes(), had[p], wanted[p]});
  const auto entries = entries_by_part(module, optimizer, parts);
  std::map<int, Named> outgoing;
  std::set<int> sources;
  for (const plan::Move& move : plan::moves(things)) {
    if (move.to == rank) sources.insert(move.from);
    if (move.from != rank) continue;
    auto& to = outgoing[move.to];
    to.insert(to.end(), entries[move.thing].begin(), entries[move.thing].end());
  }
  Sending sending(context, std::move(outgoing));
  int64_t bytes = 0;
  std::map<std::string, torch::Tensor> arrived, remembered;
  for (const int from : sources) {
    for (auto& [name, tensor] : receive_entries(context, from, bytes)) arrived[name] = tensor;
  }
  sending.finish();
  bool changed = !arrived.empty();
  for (size_t p = 0; p < parts.size(); ++p) {
    changed = changed || (has(had[p], rank) && !has(wanted[p], rank));
  }
  if (!changed) return bytes;
  remembered.insert(entries.back().begin(), entries.back().end());
  for (size_t p = 0; p < parts.size(); ++p) {
    if (has(wanted[p], rank) && has(had[p], rank)) {
      remembered.insert(std::next(entries[p].begin()), entries[p].end());
    }
    const auto value = arrived.find("model." + parts[p].name);
    if (value != arrived.end()) put(parts[p].tensor, value->second);
  }
  for (auto& [name, tensor] : arrived) {
    if (!name.starts_with("model.")) remembered[name] = tensor;
  }
  checkpoint::prepare_optimizer_state(remembered, optimizer, module)();
  return bytes;
}

void keep_only_held(int rank, const std::vector<ModelPart>& parts, const Holdings& held) {
  const torch::NoGradGuard no_grad;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (has(held[p], rank)) continue;
    torch::Tensor tensor = parts[p].tensor;
    tensor.mutable_grad().reset();
    tensor.set_data(torch::empty({0}, tensor.options()));
  }
}

}  // namespace entrain::parallel
