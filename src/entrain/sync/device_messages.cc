#include "entrain/sync/device_messages.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>

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
    : sum_(sum),
      plan_(plan),
      variables_(counts_of(variables_by_message(plan))),
      carried_(graph.variables.size(), true) {
  // A gradient is in one place: a message of another kind takes its variables along, and these their
  // messages.
  const auto members = variables_by_message(plan);
  std::vector<bool> carried(plan.messages.size());
  std::vector<size_t> left_out;
  for (size_t m = 0; m < plan.messages.size(); ++m) {
    carried[m] = summable(plan.messages[m], graph);
    if (!carried[m]) left_out.push_back(m);
  }
  while (!left_out.empty()) {
    const size_t m = left_out.back();
    left_out.pop_back();
    for (const size_t v : members[m]) {
      carried_[v] = false;
      for (const int other : plan.messages_of[v]) {
        if (carried[other]) left_out.push_back(static_cast<size_t>(other));
        carried[other] = false;
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
  missing_ = variables_;
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
