// Sums over a strategy's parts: who carries how much, in how many messages, known how late.
#pragma once

#include <array>
#include <vector>

#include "entrain/simulator/parts.h"

namespace entrain::simulator {

// Shares are of the bytes that one worker contributes in a step.
struct Tally {
  double parts = 0, messages = 0, groups = 0, small_messages = 0;
  double most_parts = 0;               // of a variable
  double cut_variables = 0;            // count
  std::array<double, 4> kinds{};       // share by PartKind
  std::array<double, 6> topologies{};  // share by Topology, of all bytes
  double ring_ordered = 0;             // share with a ring order of its own
  double largest_message = 0;          // share
  double largest_group = 0;
  double waiting = 0;                        // sum of share x (message ready - own gradient ready) / backward
  double late = 0;                           // share of messages that are ready in the last tenth of backward
  double prioritised = 0;                    // parts with a priority of their own, of all parts
  double disorder = 0;                       // share-weighted |priority - data-flow place| / variables
  double servers = 0;                        // hosts that serve something, of all
  double served_max = 0;                     // share on the busiest server
  double served_only = 0;                    // share on hosts that only serve
  double served_bandwidth = 0;               // share-weighted bandwidth at destination / largest bandwidth
  double send_bound = 0, receive_bound = 0;  // seconds of the busiest link, by direction
  double link_spread = 0;                    // busiest link / mean over hosts, both directions added
};

// One (G, D). Thread-safe; copies what it needs.
class Tallier {
 public:
  Tallier(const graph::Graph& graph, const cluster::Cluster& cluster);
  Tally tally(const strategy::Strategy& strategy) const;

 private:
  struct Host {
    double bits_per_second = 0;
    double ranks = 0;  // that train
  };
  struct Sums;
  void add_traffic(const PartView& view, Sums& sums) const;
  void finish(const Sums& sums, Tally& tally) const;

  PartWalk walk_;
  std::vector<Host> hosts_;
  std::vector<double> ready_;  // by variable, as a share of backward
  double workers_ = 0, worker_hosts_ = 0, largest_bandwidth_ = 0;
};

}  // namespace entrain::simulator
