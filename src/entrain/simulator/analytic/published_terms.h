// AutoSync's analytic model: time on the wire, by server and by merge group, as published.
//
// A part of b bits, its server on host s, worker hosts k with n_k ranks, bandwidth B(s, k):
//   PS        transmission  sum over k != s of  b / B(s, k)  to send  +  r_k b / B(s, k)  to receive
//                           r_k = 1 with local replication, else n_k; sparse rows also send n_k b
//             overhead      workers that take part: hosts to send + (hosts or ranks) to receive
//             latency       2 max n_k
//   all-reduce  transmission  b / min over worker hosts of B      (published without 2(n-1)/n)
//             overhead      1, latency max n_k: once per merge group, which is one message
// All-gather is not in the published space; it is priced alike: every rank must receive (n-1) b.
//
// Servers add up their parts, groups theirs; the total is the sum or the maximum over servers and groups.
// The published code weighs overhead and latency by 0; so do the defaults here.
//
// Left behind are its mistakes: overhead of a group counted for each part in the features, a host's
// bandwidth to itself taken for a link, hosts that only serve counted as workers.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "entrain/simulator/parts.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

struct Terms {
  double transmission = 0;  // seconds
  double overhead = 0;      // counts
  double latency = 0;
};

// The 4 terms of one part, as the learned rankers read them.
struct PartTerms {
  Terms terms;
  bool server;  // PS, else a collective
};

// {max, sum} over servers, then {max, sum} over groups, of {transmission, overhead, latency}.
inline constexpr int kPublishedFeatures = 12;
using PublishedFeatures = std::array<double, kPublishedFeatures>;
const std::array<std::string_view, kPublishedFeatures>& published_feature_names();

// The terms of one (G, D). Thread-safe; copies what it needs.
class PublishedTerms {
 public:
  PublishedTerms(const graph::Graph& graph, const cluster::Cluster& cluster);

  // Requires for all: the strategy passes validate().
  PublishedFeatures features(const strategy::Strategy& strategy) const;
  PartTerms part(const PartView& view) const;  // as if alone in its group

  // Calls visit(const Terms&, bool server) for each server and each group that has parts.
  template <typename Visit>
  void each_total(const strategy::Strategy& strategy, Visit&& visit) const;

  const PartWalk& walk() const { return walk_; }

 private:
  struct Server {  // seconds per bit between this host and each other worker host, or each of its ranks
    double hosts = 0, ranks = 0;
  };
  struct Group {
    int id = -1;
    Terms terms;
  };
  // Buffers of a thread, kept between strategies: nothing is allocated in the steady state.
  struct Scratch {
    std::vector<Terms> servers;
    std::vector<Group> groups;  // open addressing; its size is a power of two
    std::vector<int> used;      // slots of `groups`
  };
  static Scratch& scratch();

  Terms server_terms(const PartView& view) const;
  double collective_seconds(const PartView& view) const;
  void accumulate(const strategy::Strategy& strategy, Scratch& scratch) const;

  PartWalk walk_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<Server> servers_;       // by host
  double group_seconds_per_bit_ = 0;  // all-reduce
  double worker_hosts_ = 0, workers_ = 0, most_local_ = 0;
};

template <typename Visit>
void PublishedTerms::each_total(const strategy::Strategy& strategy, Visit&& visit) const {
  Scratch& buffers = scratch();
  accumulate(strategy, buffers);
  for (const Terms& server : buffers.servers) {
    if (server.overhead > 0) visit(server, true);
  }
  for (const int slot : buffers.used) visit(static_cast<const Terms&>(buffers.groups[slot].terms), false);
}

// "published-sum" and "published-max".
class PublishedSimulator final : public Simulator {
 public:
  enum class Total { kSum, kMax };
  struct Weights {  // seconds per unit of overhead and of latency
    double overhead = 0, latency = 0;
  };

  PublishedSimulator(const graph::Graph& graph, const cluster::Cluster& cluster, Total total,
                     Weights weights);
  PublishedSimulator(const graph::Graph& graph, const cluster::Cluster& cluster, Total total)
      : PublishedSimulator(graph, cluster, total, Weights{}) {}

  std::string name() const override { return total_ == Total::kSum ? "published-sum" : "published-max"; }
  std::vector<double> score(std::span<const strategy::Strategy> strategies) const override;

 private:
  PublishedTerms terms_;
  Total total_;
  Weights weights_;
};

}  // namespace entrain::simulator
