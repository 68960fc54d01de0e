#include "entrain/sync/device_messages.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace entrain::sync {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Doubles what it is given, as if another worker had the same, and remembers how many elements that were.
class TwoAlike : public DeviceSum {
 public:
  void sum(const std::vector<torch::Tensor>& tensors, c10::Event&) override {
    int64_t elements = 0;
    for (const auto& tensor : tensors) elements += tensor.mul_(2).numel();
    sums.push_back(elements);
  }
  void check() const override {}

  std::vector<int64_t> sums;
};

// Variables of 1, 2, 3, ... rows of 2; backward makes the last one's gradient first.
graph::Graph graph_of(int variables) {
  graph::Graph graph;
  for (int v = 0; v < variables; ++v) {
    graph::Variable variable;
    variable.shape = {v + 1, 2};
    variable.ready_order = variables - 1 - v;
    graph.variables.push_back(variable);
  }
  return graph;
}

plan::Slice whole(int v) { return {v, 0, 0, v + 1, 2 * (v + 1)}; }

plan::Plan plan_of(int variables, const std::vector<std::vector<plan::Slice>>& messages) {
  plan::Plan plan;
  plan.world = 2;
  plan.messages_of.resize(static_cast<size_t>(variables));
  for (const auto& slices : messages) {
    for (const auto& slice : slices) {
      plan.messages_of[static_cast<size_t>(slice.variable)].push_back(static_cast<int>(plan.messages.size()));
    }
    plan::Message message;
    message.slices = slices;
    message.any_way = true;
    plan.messages.push_back(message);
  }
  return plan;
}

TEST(DeviceMessages, GoInTheGraphsOrderWhateverComesFirst) {
  const auto graph = graph_of(3);
  const auto plan = plan_of(3, {{whole(0)}, {whole(1), whole(2)}});
  TwoAlike devices;
  DeviceMessages messages(devices, plan, graph);
  messages.begin();
  std::vector<torch::Tensor> gradients;
  for (int v = 0; v < 3; ++v) gradients.push_back(torch::ones({v + 1, 2}));
  EXPECT_THAT(messages.ready(0, gradients[0]), IsEmpty());  // the other message is the first everywhere
  EXPECT_THAT(messages.ready(2, gradients[2]), IsEmpty());
  EXPECT_THAT(messages.ready(1, gradients[1]), ElementsAre(1, 0));
  EXPECT_THAT(devices.sums, ElementsAre(4 + 6, 2));
  for (const auto& gradient : gradients) EXPECT_TRUE(gradient.eq(2).all().item<bool>());
}

TEST(DeviceMessages, AVariableThatAlsoTravelsAnotherWayStaysInHostMemory) {
  const auto graph = graph_of(4);
  // Variable 1 in halves: one by a server. Its other half goes with variable 2, which so stays too; 0 and 3
  // do not.
  auto plan = plan_of(4, {{whole(0)}, {{1, 0, 0, 1, 2}}, {{1, 0, 1, 2, 2}, whole(2)}, {whole(3)}});
  plan.messages[1].any_way = false;
  TwoAlike devices;
  const DeviceMessages messages(devices, plan, graph);
  EXPECT_TRUE(messages.carries(0));
  EXPECT_FALSE(messages.carries(1));
  EXPECT_FALSE(messages.carries(2));
  EXPECT_TRUE(messages.carries(3));
}

TEST(DeviceMessages, ASliceThatIsNotOnePieceOfMemoryStaysInHostMemory) {
  const auto graph = graph_of(2);
  const auto plan = plan_of(2, {{whole(0)}, {{1, 1, 0, 1, 2}}, {{1, 1, 1, 2, 2}}});  // columns
  TwoAlike devices;
  const DeviceMessages messages(devices, plan, graph);
  EXPECT_TRUE(messages.carries(0));
  EXPECT_FALSE(messages.carries(1));
}

}  // namespace
}  // namespace entrain::sync
