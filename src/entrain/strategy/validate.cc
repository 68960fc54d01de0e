#include "entrain/strategy/validate.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>

#include "entrain/base/error.h"
#include "entrain/strategy/compression.h"

namespace entrain::strategy {
namespace {

constexpr const char* kAsynchronous =
    "asynchronous training is `optimizer` async-ps with a `staleness`, which training takes from a file "
    "whose "
    "variables all say so";

// What the first part of a merge group said; the others must agree, for they travel in one message.
struct Group {
  std::string variable;
  std::string dtype;
  Synchronizer synchronizer;
};

class Validator {
 public:
  Validator(const graph::Graph& graph, const cluster::Cluster& cluster) : graph_(graph), cluster_(cluster) {
    for (size_t i = 0; i < cluster.hosts.size(); ++i) {
      if (!cluster.hosts[i].server_only()) worker_hosts_.push_back(static_cast<int>(i));
    }
    for (const graph::Variable& v : graph.variables) by_name_[v.name] = &v;
  }

  void check(const Strategy& strategy) {
    std::set<std::string> seen;
    for (const VariableConfig& config : strategy.variables) {
      const auto found = by_name_.find(config.name);
      if (found == by_name_.end()) {
        bad_input("strategy is for another model: it has {}, the model {} has no such variable", config.name,
                  graph_.model);
      }
      if (!seen.insert(config.name).second) bad_input("variable {}: var_name appears twice", config.name);
      check_partition(config, *found->second);
      for (const Part& part : config.parts) {
        std::visit([&](const auto& s) { check_synchronizer(s, *found->second); }, part.synchronizer);
      }
    }
    for (const graph::Variable& v : graph_.variables) {
      if (!seen.count(v.name)) {
        bad_input("strategy is for another model: the model {} has {}, the strategy has no such variable",
                  graph_.model, v.name);
      }
    }
  }

 private:
  void check_partition(const VariableConfig& config, const graph::Variable& v) const {
    const size_t shards = config.partition ? config.partition->shards : 1;
    if (config.partition) {
      const auto [axis, count] = *config.partition;
      const int dims = static_cast<int>(v.shape.size());
      if (dims == 0) bad_input("variable {}: partitioner cuts a scalar, allowed: none", v.name);
      if (axis < 0 || axis >= dims) {
        bad_input("variable {}: partitioner cuts axis {}, allowed: 0 to {}", v.name, axis, dims - 1);
      }
      if (v.sparse && axis != 0) {
        bad_input("variable {}: partitioner cuts axis {}, allowed: 0 (its gradient is sparse, made of rows)",
                  v.name, axis);
      }
      if (v.shape[axis] < 2) {
        bad_input("variable {}: partitioner cuts axis {} of size {}, allowed: an axis of 2 or more", v.name,
                  axis, v.shape[axis]);
      }
      if (count < 2 || count > v.shape[axis]) {
        bad_input("variable {}: partitioner makes {} shards of axis {}, allowed: 2 to {}", v.name, count,
                  axis, v.shape[axis]);
      }
    }
    if (config.parts.size() != shards) {
      bad_input("variable {}: part_config has {} parts, allowed: {}", v.name, config.parts.size(), shards);
    }
  }

  void check_synchronizer(const ParameterServer& ps, const graph::Variable& v) const {
    if (cluster_.find(ps.destination) < 0) {
      std::vector<std::string> hosts;
      for (const cluster::Host& host : cluster_.hosts) hosts.push_back(host.address);
      bad_input("variable {}: reduction_destination is \"{}\", allowed: {}", v.name, ps.destination,
                fmt::join(hosts, ", "));
    }
    if (!ps.sync) {
      bad_input("variable {}: sync is false, allowed where gradients meet every step: true ({})", v.name,
                kAsynchronous);
    }
    if (ps.staleness != 0) {
      bad_input("variable {}: staleness is {}, allowed where gradients meet every step: 0 ({})", v.name,
                ps.staleness, kAsynchronous);
    }
    if (ps.group.value_or(0) < 0)
      bad_input("variable {}: group is {}, allowed: 0 or more, or none", v.name, *ps.group);
    check_compressor(ps.compressor, v);
    if (!is_cast(ps.compressor) && ps.compressor != Compressor::kNone) {
      bad_input("variable {}: compressor of a PSSynchronizer is {}, allowed: none, fp16, fp16-ef, bf16",
                v.name, name_of(ps.compressor));
    }
    if (v.sparse && ps.compressor != Compressor::kNone) {
      bad_input("variable {}: compressor is {} and its gradient is sparse, allowed: none", v.name,
                name_of(ps.compressor));
    }
  }

  void check_compressor(Compressor compressor, const graph::Variable& v) const {
    if (compressor == Compressor::kNone || v.dtype == "float32") return;
    bad_input("variable {}: compressor is {} and its dtype {}, allowed: None, or dtype float32", v.name,
              name_of(compressor), v.dtype);
  }

  void check_synchronizer(const AllReduce& s, const graph::Variable& v) {
    if (v.sparse) {
      bad_input(
          "variable {}: AllReduceSynchronizer would densify its sparse gradient, allowed: PSSynchronizer, "
          "SparseAllGather",
          v.name);
    }
    check_compressor(s.compressor, v);
    if (s.rank < 1) bad_input("variable {}: rank is {}, allowed: 1 or more", v.name, s.rank);
    if (!(s.share > 0 && s.share <= 1)) {
      bad_input("variable {}: share is {}, allowed: above 0, at most 1", v.name, s.share);
    }
    if (!s.ring_order.empty() &&
        (s.ring_order.size() != worker_hosts_.size() ||
         !std::is_permutation(s.ring_order.begin(), s.ring_order.end(), worker_hosts_.begin()))) {
      bad_input(
          "variable {}: ring_order is [{}], allowed: each of [{}] once (the hosts that train), or empty",
          v.name, fmt::join(s.ring_order, ", "), fmt::join(worker_hosts_, ", "));
    }
    join_group(s.group, s, v);
  }

  void check_synchronizer(const AllGather& s, const graph::Variable& v) {
    if (!v.sparse) {
      bad_input(
          "variable {}: SparseAllGather is for sparse gradients and this one is dense, allowed: "
          "PSSynchronizer, "
          "AllReduceSynchronizer",
          v.name);
    }
    join_group(s.group, s, v);
  }

  void join_group(int id, const Synchronizer& synchronizer, const graph::Variable& v) {
    if (id < 0) bad_input("variable {}: group is {}, allowed: 0 or more", v.name, id);
    const auto [place, added] = groups_.try_emplace(id, Group{v.name, v.dtype, synchronizer});
    if (added) return;
    const Group& group = place->second;
    if (v.dtype != group.dtype) {
      bad_input("variable {}: group {} holds dtype {} of variable {}, allowed: a group of its own dtype {}",
                v.name, id, group.dtype, group.variable, v.dtype);
    }
    // With the group number equal, what differs is the kind, topology, compressor or ring order.
    if (synchronizer != group.synchronizer) {
      bad_input(
          "variable {}: group {} travels as one message, but variable {} in it has another synchronizer, "
          "spec, "
          "compressor or ring_order; allowed: the same ones, or another group",
          v.name, id, group.variable);
    }
  }

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  std::vector<int> worker_hosts_;
  std::map<std::string, const graph::Variable*> by_name_;
  std::map<int, Group> groups_;
};

}  // namespace

void validate(const Strategy& strategy, const graph::Graph& graph, const cluster::Cluster& cluster) {
  Validator(graph, cluster).check(strategy);
}

}  // namespace entrain::strategy
