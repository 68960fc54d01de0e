#include "entrain/job/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/job/control.h"
#include "entrain/strategy/stored.h"

namespace entrain::job {
namespace {

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

// A line per variable: its name, the kind of its gradient (s: sparse, d: dense, -: none), its rows.
std::string kinds_of(const graph::Capture& captured) {
  std::string lines;
  for (size_t v = 0; v < captured.variables.size(); ++v) {
    const auto& variable = captured.graph.variables[v];
    const char kind = variable.sparse ? 's' : captured.variables[v].grad().defined() ? 'd' : '-';
    lines += fmt::format("{} {} {}\n", kind, variable.rows_per_step, variable.name);
  }
  return lines;
}

}  // namespace

void agree_on_gradients(Context& context, graph::Capture& captured) {
  const auto all = gather_from_workers(context, kinds_of(captured), transport::tags::kGradientKinds,
                                       Deadline::after(context.job.timeout_s), "kinds of gradients");
  if (context.rank() != 0) return;
  std::vector<bool> dense(captured.variables.size());
  for (const std::string& lines : all) {
    std::istringstream in(lines);
    char kind = '-';
    int64_t rows = 0;
    for (std::string name; in >> kind >> rows && std::getline(in >> std::ws, name);) {
      const int v = captured.graph.find(name);
      if (v < 0) continue;  // another model: agree_on_graph() says so
      auto& variable = captured.graph.variables[v];
      dense[v] = dense[v] || kind == 'd';
      variable.sparse = !dense[v] && (variable.sparse || kind == 's');
      variable.rows_per_step = variable.sparse ? std::max(variable.rows_per_step, rows) : 0;
    }
  }
}

graph::Graph agree_on_graph(transport::Transport& transport, const std::optional<graph::Graph>& own,
                            Deadline deadline) {
  const std::string mine = transport.rank() == 0 ? graph::to_binary(*own) : "";
  const graph::Graph agreed = graph::graph_from_binary(
      transport::broadcast(transport, 0, mine, transport::tags::kGraph, deadline, "agreement on the model"));
  if (own) check_same(*own, agreed, transport.rank());
  return agreed;
}

strategy::Strategy agree_on_strategy(transport::Transport& transport, const strategy::Strategy& own,
                                     Deadline deadline) {
  const std::string mine = transport.rank() == 0 ? strategy::to_binary(own) : "";
  return strategy::from_binary(transport::broadcast(transport, 0, mine, transport::tags::kStrategy, deadline,
                                                    "agreement on the strategy"));
}

void agree_on_resumed_step(Context& context, int64_t step) {
  const auto deadline = Deadline::after(context.job.timeout_s);
  const auto told = tell_workers(context, std::to_string(step), transport::tags::kResumedStep, deadline,
                                 "step to resume from");
  if (told == std::to_string(step)) return;
  const auto in_words = [](const std::string& of) { return of == "-1" ? "absent" : "of step " + of; };
  bad_input(
      "`resume`: the newest checkpoint is {} on rank {}, {} on rank 0; every rank must read the same folder",
      in_words(std::to_string(step)), context.rank(), in_words(told));
}

}  // namespace entrain::job
