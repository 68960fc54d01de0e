// One change to a strategy. Each returns false when it does not apply; it then has changed nothing.
#pragma once

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {

struct Mutation {
  Strategy& strategy;
  const DomainFacts& facts;
  const SamplerOptions& options;
  Rng& rng;
  int next_group;  // not in use yet

  bool own() const { return options.space == Space::kOwn; }
  // By traffic mostly (what moves bytes matters), else any. Requires: the model has variables.
  int draw_variable();
  int draw_host();
  int draw_group();  // of the strategy's all-reduces, or -1
  std::vector<PartRef> parts(Kind kind) const { return parts_of(strategy, kind, facts); }
  // Makes a part all-reduced (sparse: all-gathered) or served somewhere.
  void make_collective(int variable, Part& part, const AllReduce& like);
  void make_served(Part& part, int host);
  AllReduce some_all_reduce();  // like one in the strategy, in a group of its own
};

using Change = bool (*)(Mutation&);

// One variable's (mutate_fine.cc).
bool change_partition(Mutation& m);
bool change_synchronizer(Mutation& m);
bool change_destination(Mutation& m);
bool change_group(Mutation& m);
bool change_priority(Mutation& m);
bool change_compressor(Mutation& m);  // compressors.cc

// Many at once (mutate_coarse.cc).
bool move_server(Mutation& m);
bool recut_large(Mutation& m);
bool place_anew(Mutation& m);
bool merge_anew(Mutation& m);
bool split_group(Mutation& m);
bool join_groups(Mutation& m);
bool change_topology(Mutation& m);
bool change_priorities(Mutation& m);
bool serve_all_at_fastest(Mutation& m);
bool reduce_all(Mutation& m);
bool move_share(Mutation& m);
bool toggle_proxies(Mutation& m);
bool switch_sparse(Mutation& m);

}  // namespace entrain::strategy::sampling
