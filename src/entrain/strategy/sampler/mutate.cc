// A few changes to a strategy, drawn by weight.
#include "entrain/strategy/sampler/compressors.h"
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/mutation.h"

#include <algorithm>

namespace entrain::strategy::sampling {
namespace {

struct Choice {
  Change change;
  double weight;
  bool published;  // stays in AutoSync's space
};

constexpr Choice kChoices[] = {
    {change_partition, 4, true},   {change_synchronizer, 4, true},
    {change_destination, 3, true}, {change_group, 2, true},
    {change_priority, 1, false},   {move_server, 1, true},
    {recut_large, 2, true},        {place_anew, 2, true},
    {merge_anew, 2, true},         {split_group, 1, true},
    {join_groups, 1, true},        {change_topology, 2, false},
    {change_priorities, 1, false}, {serve_all_at_fastest, 0.5, true},
    {reduce_all, 0.5, true},       {move_share, 2, true},
    {toggle_proxies, 0.5, true},   {switch_sparse, 1, false},
    {change_compressor, 2, false},
};

}  // namespace

int Mutation::draw_variable() {
  if (chance(rng, 0.7)) return pick_weighted(rng, facts.traffic);
  return static_cast<int>(below(rng, static_cast<int64_t>(strategy.variables.size())));
}

int Mutation::draw_host() {
  if (own() && chance(rng, 0.5)) return pick_weighted(rng, facts.bandwidth);
  return static_cast<int>(below(rng, static_cast<int64_t>(facts.bandwidth.size())));
}

int Mutation::draw_group() {
  const auto reduced = parts(Kind::kAllReduce);
  if (reduced.empty()) return -1;
  return std::get<AllReduce>(pick(rng, reduced).in(strategy).synchronizer).group;
}

void Mutation::make_collective(int variable, Part& part, const AllReduce& like) {
  if (!facts.variables[variable].sparse) {
    part.synchronizer = like;
  } else if (own()) {
    part.synchronizer = AllGather{};
  }
}

void Mutation::make_served(Part& part, int host) {
  const std::string& address = facts.cluster.hosts[host].address;
  if (auto* server = std::get_if<ParameterServer>(&part.synchronizer)) {
    server->destination = address;
  } else {
    const auto* reduce = std::get_if<AllReduce>(&part.synchronizer);
    const Compression compression = reduce != nullptr ? compression_of(*reduce) : Compression{};
    part.synchronizer = ParameterServer{address, facts.shared_hosts, true, 0};
    set_compression(part.synchronizer, compression);  // as far as a server knows it
  }
}

AllReduce Mutation::some_all_reduce() {
  AllReduce result;
  const auto reduced = parts(Kind::kAllReduce);
  if (!reduced.empty()) {
    result = std::get<AllReduce>(pick(rng, reduced).in(strategy).synchronizer);
  } else if (own()) {
    GroupTopology chosen = draw_group_topology(facts, rng);
    result.topology = chosen.topology;
    result.ring_order = std::move(chosen.ring_order);
  }
  result.group = next_group++;
  return result;
}

Strategy mutated(Strategy parent, const DomainFacts& facts, const SamplerOptions& options, Rng& rng) {
  if (parent.variables.empty()) return parent;
  std::vector<double> weights;
  for (const Choice& choice : kChoices) {
    const bool lossless = choice.change == change_compressor && options.compressors.empty();
    weights.push_back((choice.published || options.space == Space::kOwn) && !lossless ? choice.weight : 0);
  }
  Mutation mutation{parent, facts, options, rng, groups_above(parent)};
  const int64_t wanted = between(rng, 1, 4);
  // Some changes never apply to a model (one scalar on one host): it then stays as it is.
  constexpr int kMostTries = 30;
  for (int done = 0, tries = 0; done < wanted && tries < kMostTries; ++tries) {
    if (kChoices[pick_weighted(rng, weights)].change(mutation)) ++done;
  }
  drop_impossible_compressors(parent, facts);
  hold_to_max_groups(parent, facts, options, rng);
  renumber(parent, facts);
  return parent;
}

}  // namespace entrain::strategy::sampling
