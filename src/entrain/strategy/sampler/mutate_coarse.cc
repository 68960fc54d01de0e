// Changes to many variables at once: what the fine ones would take a hundred steps for.
#include <algorithm>
#include <set>

#include "entrain/strategy/sampler/mutation.h"
#include "entrain/strategy/sampler/partition.h"
#include "entrain/strategy/sampler/placement.h"

namespace entrain::strategy::sampling {
namespace {

AllReduce& reduced_part(Mutation& m, const PartRef& ref) {
  return std::get<AllReduce>(ref.in(m.strategy).synchronizer);
}

void merge_all(Mutation& m) {
  const auto reduced = m.parts(Kind::kAllReduce);
  const MergeScheme scheme = m.own() ? own_scheme(reduced.size(), m.facts, m.options, m.rng)
                                     : published_scheme(reduced.size(), m.facts, m.options, m.rng);
  merge(m.strategy, reduced, scheme, m.facts, m.rng);
  for (const PartRef& ref : reduced) m.next_group = std::max(m.next_group, reduced_part(m, ref).group + 1);
}

void place_all(Mutation& m) {
  const Balancer balancer = m.own() ? own_balancer(m.facts, m.rng) : published_balancer(m.facts, m.rng);
  place(m.strategy, m.parts(Kind::kServer), balancer, m.facts, m.rng);
}

}  // namespace

bool move_server(Mutation& m) {
  const auto served = m.parts(Kind::kServer);
  if (served.empty() || m.facts.bandwidth.size() < 2) return false;
  const auto address_of = [&](const PartRef& ref) {
    return std::get<ParameterServer>(ref.in(m.strategy).synchronizer).destination;
  };
  const std::string from = address_of(pick(m.rng, served));
  const int to = m.draw_host();
  for (const PartRef& ref : served) {
    if (address_of(ref) == from) m.make_served(ref.in(m.strategy), to);
  }
  return m.facts.cluster.hosts[to].address != from;
}

bool recut_large(Mutation& m) {
  const int64_t part_bytes = draw_part_bytes(m.facts, m.rng);
  const AxisRule rule = chance(m.rng, 0.7) ? AxisRule::kFirst : AxisRule::kLongest;
  bool changed = false;
  for (const int variable : m.facts.dense) {
    VariableConfig& config = m.strategy.variables[variable];
    if (m.facts.variables[variable].bytes <= m.options.lower_bytes && !config.partition) continue;
    const MaybePartition partition = cut_to(variable, part_bytes, rule, m.facts, m.options, m.rng);
    if (partition == config.partition) continue;
    recut(config, partition);
    changed = true;
  }
  if (!changed) return false;
  if (chance(m.rng, 0.8)) merge_all(m);
  if (chance(m.rng, 0.5)) place_all(m);
  return true;
}

bool place_anew(Mutation& m) {
  if (m.parts(Kind::kServer).empty()) return false;
  place_all(m);
  return true;
}

bool merge_anew(Mutation& m) {
  if (m.parts(Kind::kAllReduce).empty()) return false;
  merge_all(m);
  return true;
}

bool split_group(Mutation& m) {
  const int group = m.draw_group();
  std::vector<PartRef> members;
  for (const PartRef& ref : m.parts(Kind::kAllReduce)) {
    if (reduced_part(m, ref).group == group) members.push_back(ref);
  }
  if (members.size() < 2) return false;
  const auto from = static_cast<size_t>(between(m.rng, 1, static_cast<int64_t>(members.size()) - 1));
  const int fresh = m.next_group++;
  for (size_t i = from; i < members.size(); ++i) reduced_part(m, members[i]).group = fresh;
  return true;
}

bool join_groups(Mutation& m) {
  const auto reduced = m.parts(Kind::kAllReduce);
  if (reduced.empty()) return false;
  const AllReduce into = reduced_part(m, pick(m.rng, reduced));
  const int from = m.draw_group();
  if (from == into.group) return false;
  for (const PartRef& ref : reduced) {
    if (reduced_part(m, ref).group == from) reduced_part(m, ref) = into;
  }
  return true;
}

bool change_topology(Mutation& m) {
  const auto reduced = m.parts(Kind::kAllReduce);
  if (reduced.empty()) return false;
  if (chance(m.rng, 0.3)) {
    choose_topologies(m.strategy, reduced, m.facts, m.rng);
    return true;
  }
  const GroupTopology chosen = draw_group_topology(m.facts, m.rng);
  const bool all = chance(m.rng, 0.5);
  const int group = m.draw_group();
  for (const PartRef& ref : reduced) {
    AllReduce& s = reduced_part(m, ref);
    if (!all && s.group != group) continue;
    s.topology = chosen.topology;
    s.ring_order = chosen.ring_order;
  }
  return true;
}

bool change_priorities(Mutation& m) {
  set_priorities(m.strategy, draw_priority_order(m.rng), m.facts, m.rng);
  return true;
}

bool serve_all_at_fastest(Mutation& m) {
  const int host = m.facts.fastest_hosts[0];
  const auto reduced = m.parts(Kind::kAllReduce);
  for (const PartRef& ref : reduced) m.make_served(ref.in(m.strategy), host);
  return !reduced.empty();
}

bool reduce_all(Mutation& m) {
  AllReduce like = m.some_all_reduce();
  bool changed = false;
  for (const PartRef& ref : m.parts(Kind::kServer)) {
    if (m.facts.variables[ref.variable].sparse) continue;
    like.group = m.next_group++;
    ref.in(m.strategy).synchronizer = like;
    changed = true;
  }
  if (changed) merge_all(m);
  return changed;
}

// A share of the all-reduced parts to a server, or of the served ones to all-reduce.
bool move_share(Mutation& m) {
  static constexpr double kShares[] = {0.1, 0.25, 0.5};
  const double share = pick(m.rng, kShares);
  const bool to_server = chance(m.rng, 0.5);
  AllReduce like = m.some_all_reduce();
  const int host = m.draw_host();
  bool changed = false;
  for (const PartRef& ref : m.parts(to_server ? Kind::kAllReduce : Kind::kServer)) {
    if (m.facts.variables[ref.variable].sparse || !chance(m.rng, share)) continue;
    Part& part = ref.in(m.strategy);
    if (to_server) {
      m.make_served(part, host);
    } else {
      like.group = m.next_group++;
      part.synchronizer = like;
    }
    changed = true;
  }
  if (changed && !to_server && chance(m.rng, 0.5)) merge_all(m);
  return changed;
}

bool toggle_proxies(Mutation& m) {
  const auto served = m.parts(Kind::kServer);
  if (!m.facts.shared_hosts || served.empty()) return false;
  const auto& first = std::get<ParameterServer>(pick(m.rng, served).in(m.strategy).synchronizer);
  const bool proxy = !first.local_replication;
  for (const PartRef& ref : served) {
    std::get<ParameterServer>(ref.in(m.strategy).synchronizer).local_replication = proxy;
  }
  return true;
}

bool switch_sparse(Mutation& m) {
  if (m.facts.sparse.empty()) return false;
  const bool all = chance(m.rng, 0.5);
  const int one = pick(m.rng, m.facts.sparse);
  const bool to_server = kind_of(m.strategy.variables[one].parts[0]) != Kind::kServer;
  for (const int variable : m.facts.sparse) {
    if (!all && variable != one) continue;
    for (Part& part : m.strategy.variables[variable].parts) {
      if (to_server) {
        m.make_served(part, m.draw_host());
      } else {
        m.make_collective(variable, part, {});
      }
    }
  }
  return true;
}

}  // namespace entrain::strategy::sampling
