// For tests: small domains whose truth is a known function.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <random>

#include "entrain/simulator/ranker.h"
#include "entrain/strategy/validate.h"

namespace entrain::simulator::testing {

// `layers` dense layers of uneven size, in data-flow order, and a sparse embedding in front.
inline graph::Graph chain_graph(int layers) {
  graph::Graph g;
  g.model = "chain";
  for (int i = 0; i <= layers; ++i) {
    graph::Variable v;
    v.name = i == 0 ? "embedding" : fmt::format("layer{}.weight", i);
    v.shape = i == 0 ? std::vector<int64_t>{1000, 64} : std::vector<int64_t>{64 << (i % 3), 256 << (i % 4)};
    v.sparse = i == 0;
    v.rows_per_step = i == 0 ? 200 : 0;
    v.ready_order = layers - i;
    v.forward_s = 1e-3;
    v.backward_s = 2e-3;
    g.variables.push_back(std::move(v));
    if (i > 0) g.edges.push_back({i - 1, i});
  }
  return g;
}

inline strategy::Strategy random_strategy(const graph::Graph& g, const cluster::Cluster& c,
                                          std::mt19937_64& rng) {
  const auto below = [&](size_t n) { return static_cast<int>(rng() % n); };
  strategy::Strategy s;
  const int servers = below(11);  // of 10 parts: so that strategies differ in kind, not only in detail
  for (const auto& v : g.variables) {
    strategy::VariableConfig config{v.name, std::nullopt, {}};
    int shards = 1;
    if (below(3) == 0) {
      shards = 2 + below(4);
      config.partition = strategy::Partition{0, shards};
    }
    for (int p = 0; p < shards; ++p) {
      strategy::Synchronizer synchronizer = strategy::ParameterServer{c.hosts[below(c.hosts.size())].address};
      if (v.sparse && below(2) == 0) synchronizer = strategy::AllGather{100 + p};
      if (!v.sparse && below(10) >= servers) {
        strategy::AllReduce reduce;
        reduce.group = below(8);
        synchronizer = reduce;
      }
      config.parts.push_back({std::move(synchronizer), std::nullopt});
    }
    s.variables.push_back(std::move(config));
  }
  strategy::validate(s, g, c);
  return s;
}

// A domain with `trials` random strategies, each measured once: truth(strategy) seconds.
using Truth = std::function<double(const strategy::Strategy&)>;
using MakeTruth = std::function<Truth(const graph::Graph&, const cluster::Cluster&)>;
inline dataset::Domain make_domain(const std::string& cluster, int layers, int trials, uint64_t seed,
                                   const MakeTruth& make_truth) {
  dataset::Domain domain;
  domain.graph = chain_graph(layers);
  domain.cluster = cluster::parse(cluster);
  domain.name = fmt::format("chain{}@{}", layers, cluster);
  const Truth truth = make_truth(domain.graph, domain.cluster);
  std::mt19937_64 rng(seed);
  for (int i = 0; i < trials; ++i) {
    dataset::Trial trial;
    trial.number = i;
    trial.strategy = random_strategy(domain.graph, domain.cluster, rng);
    trial.seconds = {truth(trial.strategy)};
    domain.trials.push_back(std::move(trial));
  }
  return domain;
}

// Trials [begin, end) of the domain.
inline Lesson lesson_of(const dataset::Domain& domain, size_t begin, size_t end) {
  Lesson lesson{&domain.graph, &domain.cluster, {}, {}};
  for (size_t i = begin; i < end; ++i) lesson.trials.push_back(&domain.trials[i]);
  return lesson;
}

}  // namespace entrain::simulator::testing
