#include "entrain/trainer/agreement.h"

#include <fmt/ranges.h>

#include "entrain/base/error.h"
#include "entrain/strategy/stored.h"
#include "entrain/trainer/worker_talk.h"

namespace entrain {
namespace {

constexpr transport::Tag kGraphTag = transport::kControlTags + 1;
constexpr transport::Tag kStrategyTag = transport::kControlTags + 2;
constexpr transport::Tag kOrderTag = transport::kControlTags + 3;
constexpr transport::Tag kResumedTag = transport::kControlTags + 5;

void check_same(const graph::Graph& own, const graph::Graph& agreed, int rank) {
  for (const auto& v : own.variables) {
    const int found = agreed.find(v.name);
    if (found < 0) fail("rank {} trains another model: variable {} is not in rank 0's", rank, v.name);
    const auto& other = agreed.variables[found];
    if (other.shape != v.shape || other.dtype != v.dtype) {
      fail("rank {} trains another model: {} is {} [{}] here and {} [{}] on rank 0", rank, v.name, v.dtype,
           fmt::join(v.shape, ", "), other.dtype, fmt::join(other.shape, ", "));
    }
  }
  if (own.variables.size() != agreed.variables.size()) {
    fail("rank {} trains another model: {} variables here, {} on rank 0", rank, own.variables.size(),
         agreed.variables.size());
  }
}

}  // namespace

graph::Graph agree_on_graph(transport::Transport& transport, const std::optional<graph::Graph>& own,
                            Deadline deadline) {
  const std::string mine = transport.rank() == 0 ? graph::to_binary(*own) : "";
  const graph::Graph agreed = graph::graph_from_binary(
      transport::broadcast(transport, 0, mine, kGraphTag, deadline, "agreement on the model"));
  if (own) check_same(*own, agreed, transport.rank());
  return agreed;
}

strategy::Strategy agree_on_strategy(transport::Transport& transport, const strategy::Strategy& own,
                                     Deadline deadline) {
  const std::string mine = transport.rank() == 0 ? strategy::to_binary(own) : "";
  return strategy::from_binary(
      transport::broadcast(transport, 0, mine, kStrategyTag, deadline, "agreement on the strategy"));
}

void agree_on_resumed_step(Context& context, int64_t step) {
  const auto deadline = Deadline::after(context.job.timeout_s);
  const auto told = tell_workers(context, std::to_string(step), kResumedTag, deadline, "step to resume from");
  if (told == std::to_string(step)) return;
  bad_input(
      "--resume: the newest checkpoint is of step {} on rank {}, of step {} on rank 0; every rank must read "
      "the same "
      "folder",
      step, context.rank(), told);
}

void give_order(transport::Transport& transport, int server, Order order) {
  const char byte = static_cast<char>(order);
  transport::send(transport, server, kOrderTag, transport::as_bytes({&byte, 1}),
                  {-1, Deadline::never(), "order"});
}

void order_servers(Context& context, Order order) {
  if (context.rank() != 0) return;
  for (int rank = 0; rank < context.world(); ++rank) {
    if (!context.cluster.is_worker(rank)) give_order(*context.transport, rank, order);
  }
}

Order take_order(transport::Transport& transport) {
  const auto payload =
      transport::recv(transport, 0, kOrderTag, {Deadline::never(), "the next order of rank 0"});
  return static_cast<Order>(transport::as_text(payload.bytes()).at(0));
}

}  // namespace entrain
