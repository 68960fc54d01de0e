// S: who computes what, and how each variable is synchronized. Value types; the stored forms are in stored.h,
// checks against (G, D) in validate.h, hand-made strategies in builders/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/strategy/optimizer.h"
#include "entrain/strategy/shape.h"

namespace entrain::strategy {

enum class Topology { kAuto, kRing, kHalvingDoubling, kTree, kHierarchical, kReduceScatter };
// What a dense gradient becomes on its way (compression.h). Horovod's is float16; EF is with error feedback.
enum class Compressor { kNone, kHorovod, kHorovodEF, kPowerSgd, kBf16, kTopK };

// Gradients are summed at a host and sent back from there. Dense parts with the same group that go the same
// way (server, local replication, compressor, type) travel as one message; a group is no promise, so a part
// that is moved to another server just leaves it.
struct ParameterServer {
  std::string destination;         // host address
  bool local_replication = false;  // a host sums its own ranks first, so only one copy leaves and enters it
  bool sync = true;                // with staleness: see asynchrony.h
  int staleness = 0;
  Compressor compressor = Compressor::kNone;  // a cast; not kPowerSgd, kTopK
  std::optional<int> group = {};              // unset: a message of its own
  friend bool operator==(const ParameterServer&, const ParameterServer&) = default;
};

// Gradients are summed among the workers. Parts with the same group travel as one message.
struct AllReduce {
  Topology topology = Topology::kAuto;
  Compressor compressor = Compressor::kNone;
  int group = 0;
  std::vector<int> ring_order;  // hosts in ring order; empty: as listed
  int rank = 4;                 // kPowerSgd: columns of the factors
  double share = 0.01;          // kTopK: of the elements that are sent
  friend bool operator==(const AllReduce&, const AllReduce&) = default;
};

// Sparse gradients only: everyone sends its rows to everyone.
struct AllGather {
  int group = 0;
  friend bool operator==(const AllGather&, const AllGather&) = default;
};

using Synchronizer = std::variant<ParameterServer, AllReduce, AllGather>;

// Lower goes first. Unset: the variable's place in data-flow order, since the next
// forward needs it in that order.
struct Part {
  Synchronizer synchronizer;
  std::optional<int> priority;
  friend bool operator==(const Part&, const Part&) = default;
};

// "1,4,1": axis 1 is cut into 4 near equal shards (the first dim % 4 hold one more).
struct Partition {
  int axis = 0;
  int shards = 1;
  friend bool operator==(const Partition&, const Partition&) = default;
};

struct VariableConfig {
  std::string name;
  std::optional<Partition> partition;
  std::vector<Part> parts;  // one, or one a shard
  friend bool operator==(const VariableConfig&, const VariableConfig&) = default;
};

struct Strategy {
  std::string id;  // builder's name or the tuner's number
  std::vector<VariableConfig> variables;
  std::vector<std::string> replicas;   // devices that train, as AutoDist writes them ("10.0.0.1:CPU:0")
  std::optional<Pipeline> pipeline;    // asked for: becomes a shape when model and cluster are known
  std::optional<Shape> shape;          // unset: every worker holds all layers
  std::optional<Optimizer> optimizer;  // unset: the caller's own, around synchronized gradients
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

}  // namespace entrain::strategy
