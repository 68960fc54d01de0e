#include "entrain/sync/device_messages.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "entrain/sync/slices.h"

namespace entrain::sync {
namespace {

// One piece of memory, which the library needs.
bool contiguous(const plan::Slice& slice, const graph::Variable& variable) {
  return slice.axis == 0 || slice.elements == variable.elements();
}

bool summable(const plan::Message& message, const graph::Graph& graph) {
  return message.any_way && std::all_of(message.slices.begin(), message.slices.end(), [&](const auto& slice) {
           return contiguous(slice, graph.variables[slice.variable]);
         });
}

}  // namespace

DeviceMessages::DeviceMessages(DeviceSum& sum, const plan::Plan& plan, const graph::Graph& graph)
    : sum_(sum), plan_(plan), carried_(graph.variables.size(), true) {
  std::vector<bool> carried(plan.messages.size());
  for (size_t m = 0; m < plan.messages.size(); ++m) carried[m] = summable(plan.messages[m], graph);
  // A gradient is in one place: a message of another kind keeps its variables' other messages from going this
  // way.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t m = 0; m < plan.messages.size(); ++m) {
      for (const auto& slice : plan.messages[m].slices) {
        const auto v = static_cast<size_t>(slice.variable);
        changed = changed || carried_[v] != (carried_[v] && carried[m]) ||
                  carried[m] != (carried[m] && carried_[v]);
        carried_[v] = carried_[v] && carried[m];
        carried[m] = carried[m] && carried_[v];
      }
    }
  }
  std::vector<int> last(plan.messages.size());  // gradient of each
  for (size_t m = 0; m < plan.messages.size(); ++m) {
    for (const auto& slice : plan.messages[m].slices) {
      last[m] = std::max(last[m], graph.variables[slice.variable].ready_order);
    }
    if (carried[m]) order_.push_back(m);
  }
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return last[a] < last[b]; });
}

void DeviceMessages::begin() {
  sum_.check();
  next_ = 0;
  gradients_.assign(carried_.size(), {});
  done_.clear();
  done_.resize(plan_.messages.size());
  missing_.clear();
  for (const auto& message : plan_.messages) {
    std::set<int> variables;
    for (const auto& slice : message.slices) variables.insert(slice.variable);
    missing_.push_back(static_cast<int>(variables.size()));
  }
}

std::vector<size_t> DeviceMessages::ready(size_t v, torch::Tensor gradient) {
  gradients_[v] = std::move(gradient);
  for (const int m : plan_.messages_of[v]) --missing_[m];
  std::vector<size_t> started;
  for (; next_ < order_.size() && missing_[order_[next_]] == 0; ++next_) {
    start(order_[next_]);
    started.push_back(order_[next_]);
  }
  return started;
}

void DeviceMessages::start(size_t m) {
  std::vector<torch::Tensor> slices;
  for (const auto& slice : plan_.messages[m].slices)
    slices.push_back(narrowed(gradients_[slice.variable], slice));
  done_[m] = std::make_unique<c10::Event>(slices.front().device().type());
  sum_.sum(slices, *done_[m]);
}

void DeviceMessages::await(size_t v, torch::Device device) const {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  for (const int m : plan_.messages_of[v]) done_[m]->block(stream);
}

}  // namespace entrain::sync
