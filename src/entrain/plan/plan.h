// (G, D, S) as messages: what travels, by which schedule, in which order of importance.
//
// A strategy speaks of variables, the network of messages. The plan stands between: the
// sync engine runs its messages and the simulator prices them, so both mean the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/collective/reduce.h"
#include "entrain/collective/schedule.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::plan {

// Indices [begin, end) of one axis of a variable.
struct Slice {
  int variable;
  int axis;
  int64_t begin;
  int64_t end;
  int64_t elements;
};

enum class Exchange {
  kDense,            // the schedule sums the slices in place
  kSparseServer,     // workers push their rows to `root`, which sums and sends the union back
  kSparseAllGather,  // workers send their rows to each other
  kLowRank,          // PowerSGD: the schedule sums two factors of each slice, one after the other
  kTopK,             // workers send their largest elements to each other
};

struct Message {
  Exchange exchange = Exchange::kDense;
  std::vector<Slice> slices;                      // dense: merged in this order; sparse: one, along axis 0
  int priority = 0;                               // lower goes first
  std::string what;                               // "all-reduce of fc1.weight and 3 more"
  std::shared_ptr<const std::vector<int>> ranks;  // that train these variables, ascending: they sum them
  collective::Type type = collective::Type::kFloat32;
  std::shared_ptr<const collective::Schedule> schedule;  // dense
  bool any_way = false;  // dense: the strategy leaves the topology open, so a library may sum it instead
  int root = -1;         // kSparseServer: rank that serves
  strategy::Compressor compressor = strategy::Compressor::kNone;
  int rank = 0;               // kLowRank: columns of the factors
  int64_t wire_elements = 0;  // kLowRank: of all factors, and of slices that would not shrink
  double share = 0;           // kTopK: of the elements

  // True when `schedule` moves it.
  bool scheduled() const { return exchange == Exchange::kDense || exchange == Exchange::kLowRank; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * collective::size_of(type); }
  // What the schedule moves. Requires: scheduled().
  int64_t schedule_bytes() const;
  // What a cast makes of `type` on the wire; unset: it travels as it is.
  std::optional<collective::Type> wire_type() const;
  // kTopK: how many elements a worker sends. At least one.
  int64_t top_k() const;
};

// Bytes that one worker contributes to the message in a step, as the sync engine sends them: what the
// schedule moves; of a top-k the elements and their indices; of a sparse variable the rows and their indices.
// Bounds and simulation count with it.
double wire_bytes(const Message& message, const graph::Graph& graph);

// A dense slice as a matrix: its first axis by the rest.
struct Matrix {
  int64_t rows, columns;
};
Matrix matrix_of(const Slice& slice, const graph::Variable& variable);

struct Plan {
  int world = 0;
  std::vector<int> workers;  // ranks that train something
  std::vector<Message> messages;
  std::vector<std::vector<int>> messages_of;  // by variable
};

// Requires: strategy::validate(strategy, graph, cluster) passed.
Plan make_plan(const strategy::Strategy& strategy, const graph::Graph& graph,
               const cluster::Cluster& cluster);

// Plans of many strategies for one (G, D): what does not depend on S is made once, schedules are shared
// among plans and live as long as the planner. Thread-safe. `graph` and `cluster` outlive it.
class Planner {
 public:
  Planner(const graph::Graph& graph, const cluster::Cluster& cluster);
  // To be priced, not to be run: all-reduces of more than `most_exact` ranks are condensed
  // (collective/condensed.h).
  Planner(const graph::Graph& graph, const cluster::Cluster& cluster, int most_exact);
  ~Planner();

  // Requires: as make_plan(). Message::what is left empty unless `describe`.
  Plan plan(const strategy::Strategy& strategy, bool describe = false) const;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace entrain::plan
