// A message's schedule as transfers that open one another.
//
//   worker 1 ──push──┐
//   worker 2 ──push──┼─▶ [gate at the server: needs 3] ──▶ pull, pull, pull
//   worker 3 ──push──┘
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "entrain/plan/plan.h"

namespace entrain::simulator {

struct Hop {
  int from, to;  // ranks
  double share;  // of a segment's bytes
  bool reduce;
  int opens, opens_count;  // Route::opens: the gates that wait for it
  double messages = 1;     // that it stands for, one after the other
};

// What a rank sends of one chunk when `needs` others have brought it there; 0: when the message is ready.
struct Gate {
  int rank;
  int needs;
  int hops, hops_count;
  bool own = true;  // the rank has a part of the message itself, which it must have made, too
};

struct Route {
  int number = 0;  // of all routes
  int chunks = 1;
  int depth = 0;          // longest chain of transfers that wait for one another
  int hidden_rounds = 0;  // of a condensed schedule: rounds of that chain that its hops do not show
  std::vector<Gate> gates;
  std::vector<Hop> hops;   // by gate
  std::vector<int> opens;  // gates, by hop
  // Gates by rank, for messages whose parts are made at different times: those of senders[i] are
  // gates_by_sender[first_gate[i]] to gates_by_sender[first_gate[i + 1] - 1].
  std::vector<int> senders;  // ranks, ascending
  std::vector<int> first_gate, gates_by_sender;

  // Of this rank; empty where it sends nothing.
  std::span<const int> gates_of(int rank) const;
};

// Routes by schedule, worked out once each. Thread-safe. `graph` outlives it.
class Routes {
 public:
  // Messages that more than `most_exact` ranks send to each other are condensed, as collectives are
  // (collective/condensed.h).
  explicit Routes(const graph::Graph& graph, int most_exact = std::numeric_limits<int>::max())
      : graph_(graph), most_exact_(most_exact) {}

  struct Found {
    const Route* route;
    double bytes;  // of the message; a chunk has an equal part of them
  };
  Found find(const plan::Message& message) const;
  // One transfer, nothing summed.
  const Route* straight(int from, int to) const;

 private:
  Route sparse(const plan::Message& message) const;

  const graph::Graph& graph_;
  int most_exact_;
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<const void*, std::unique_ptr<Route>> by_schedule_;  // guarded by mutex_
  // By root (-1: all-gather) and ranks; guarded by mutex_.
  mutable std::map<std::pair<int, const void*>, std::unique_ptr<Route>> by_root_;
  mutable std::map<std::pair<int, int>, std::unique_ptr<Route>> straight_;  // guarded by mutex_
};

}  // namespace entrain::simulator
