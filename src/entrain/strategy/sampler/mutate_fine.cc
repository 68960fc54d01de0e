// Changes to one variable, or one of its parts.
#include "entrain/strategy/sampler/mutation.h"
#include "entrain/strategy/sampler/partition.h"

namespace entrain::strategy::sampling {

bool change_partition(Mutation& m) {
  const int variable = m.draw_variable();
  VariableConfig& config = m.strategy.variables[variable];
  MaybePartition partition;
  if (m.own() && chance(m.rng, 0.3) && config.partition) {
    // A neighbour: one shard more or fewer.
    const int shards = config.partition->shards + (chance(m.rng, 0.5) ? 1 : -1);
    const int64_t most = m.facts.graph.variables[variable].shape[config.partition->axis];
    if (shards > most || shards > m.options.max_shards) return false;
    if (shards >= 2) partition = Partition{config.partition->axis, shards};
  } else if (m.own() && chance(m.rng, 0.6)) {
    partition = cut_to(variable, draw_part_bytes(m.facts, m.rng),
                       chance(m.rng, 0.7) ? AxisRule::kFirst : AxisRule::kAny, m.facts, m.options, m.rng);
  } else {
    partition = draw_partition(variable, m.facts, m.options, m.rng);
  }
  if (partition == config.partition) return false;
  recut(config, partition);
  // Shards that stay in one message have gained nothing.
  if (chance(m.rng, 0.7)) {
    for (Part& part : config.parts) {
      if (auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) reduce->group = m.next_group++;
    }
  }
  if (chance(m.rng, 0.5)) {
    for (Part& part : config.parts) {
      if (kind_of(part) == Kind::kServer) m.make_served(part, m.draw_host());
    }
  }
  return true;
}

bool change_synchronizer(Mutation& m) {
  const int variable = m.draw_variable();
  VariableConfig& config = m.strategy.variables[variable];
  if (m.facts.variables[variable].sparse && !m.own()) return false;
  const bool to_server = kind_of(config.parts[0]) != Kind::kServer;
  const AllReduce like = m.some_all_reduce();
  const int host = m.draw_host();
  const bool whole = config.parts.size() == 1 || chance(m.rng, 0.5);
  for (Part& part : config.parts) {
    if (!whole && chance(m.rng, 0.5)) continue;
    if (to_server) {
      m.make_served(part, host);
    } else {
      m.make_collective(variable, part, like);
    }
  }
  return true;
}

bool change_destination(Mutation& m) {
  const auto served = m.parts(Kind::kServer);
  if (served.empty()) return false;
  const PartRef& ref = pick(m.rng, served);
  const int host = m.draw_host();
  if (chance(m.rng, 0.5)) {
    m.make_served(ref.in(m.strategy), host);
    return true;
  }
  for (Part& part : m.strategy.variables[ref.variable].parts) {
    if (kind_of(part) == Kind::kServer) m.make_served(part, host);
  }
  return true;
}

bool change_group(Mutation& m) {
  const auto reduced = m.parts(Kind::kAllReduce);
  if (reduced.empty()) return false;
  auto& moved = std::get<AllReduce>(pick(m.rng, reduced).in(m.strategy).synchronizer);
  if (chance(m.rng, 0.3)) {
    moved.group = m.next_group++;
    return true;
  }
  const AllReduce other = std::get<AllReduce>(pick(m.rng, reduced).in(m.strategy).synchronizer);
  if (other.group == moved.group) return false;
  moved = other;
  return true;
}

bool change_priority(Mutation& m) {
  const int variable = m.draw_variable();
  const auto count = static_cast<int64_t>(m.strategy.variables.size());
  const bool unset = chance(m.rng, 0.2);
  const int priority = static_cast<int>(below(m.rng, count));
  for (Part& part : m.strategy.variables[variable].parts) {
    part.priority = unset ? std::nullopt : std::optional<int>(priority);
  }
  return true;
}

}  // namespace entrain::strategy::sampling
