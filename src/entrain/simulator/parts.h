// A strategy's parts as numbers: which variable, how many bytes, where to, with whom.
//
// Everything that looks at strategies by the part (published terms, features of the rankers) walks them
// here, so that names are resolved in one place, once, and without allocating.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "entrain/base/near_equal.h"
#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::simulator {

enum class PartKind { kServer, kServerProxy, kAllReduce, kAllGather };  // proxy: local_replication

struct PartView {
  int variable;  // index into graph.variables
  PartKind kind;
  bool sparse;
  double share;  // of the variable's elements
  double bytes;  // one worker contributes in a step; sparse: its rows and their indices
  int host;      // a server's, else -1
  int group;     // a collective's, else -1
  const strategy::Part* part;
};

// Thread-safe. `graph` and `cluster` may go after construction.
class PartWalk {
 public:
  PartWalk(const graph::Graph& graph, const cluster::Cluster& cluster);

  // Calls visit(const PartView&) for each part, variable by variable as the strategy lists them.
  // Requires: the strategy passes validate() for (graph, cluster). Throws Error for a variable or host
  // that is not there.
  template <typename Visit>
  void each(const strategy::Strategy& strategy, Visit&& visit) const;

  int variables() const { return static_cast<int>(known_.size()); }
  int hosts() const { return static_cast<int>(addresses_.size()); }
  double step_bytes(int variable) const { return known_[variable].bytes; }
  double total_bytes() const { return total_bytes_; }

 private:
  struct Known {
    std::string name;
    std::vector<int64_t> shape;
    bool sparse;
    double bytes;
  };

  // `position` is the guess that is nearly always right: strategies list variables in G's order.
  int find_variable(const std::string& name, size_t position) const {
    if (position < known_.size() && known_[position].name == name) return static_cast<int>(position);
    return find_by_name(name);
  }
  int find_host(const std::string& address) const {
    for (size_t h = 0; h < addresses_.size(); ++h) {
      if (addresses_[h] == address) return static_cast<int>(h);
    }
    return find_device(address);
  }
  int find_by_name(const std::string& name) const;
  int find_device(const std::string& device) const;  // AutoDist's "10.0.0.1:CPU:0"

  std::vector<Known> known_;
  std::vector<std::string> addresses_;
  std::unordered_map<std::string, int> by_name_;
  double total_bytes_ = 0;
};

template <typename Visit>
void PartWalk::each(const strategy::Strategy& strategy, Visit&& visit) const {
  PartView view{};
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    const strategy::VariableConfig& config = strategy.variables[i];
    view.variable = find_variable(config.name, i);
    const Known& known = known_[view.variable];
    view.sparse = known.sparse;
    const bool cut = config.partition && config.partition->axis < static_cast<int>(known.shape.size());
    const int64_t dimension = cut ? known.shape[config.partition->axis] : 1;
    const NearEqualParts slices(dimension, cut ? config.partition->shards : 1);
    for (size_t p = 0; p < config.parts.size(); ++p) {
      view.part = &config.parts[p];
      view.share = static_cast<double>(slices.size(static_cast<int64_t>(p))) / static_cast<double>(dimension);
      view.bytes = known.bytes * view.share;
      view.host = view.group = -1;
      const auto& synchronizer = view.part->synchronizer;
      if (const auto* server = std::get_if<strategy::ParameterServer>(&synchronizer)) {
        view.kind = server->local_replication ? PartKind::kServerProxy : PartKind::kServer;
        view.host = find_host(server->destination);
      } else if (const auto* reduce = std::get_if<strategy::AllReduce>(&synchronizer)) {
        view.kind = PartKind::kAllReduce;
        view.group = reduce->group;
      } else {
        view.kind = PartKind::kAllGather;
        view.group = std::get<strategy::AllGather>(synchronizer).group;
      }
      visit(static_cast<const PartView&>(view));
    }
  }
}

}  // namespace entrain::simulator
