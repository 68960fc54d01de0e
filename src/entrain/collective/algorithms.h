// The algorithms, each a pure function from who takes part to a Schedule.
//
// n ranks take part, B is the message's bytes. "sent" is what the busiest rank sends;
// every rank receives as much unless said otherwise.
//
//   algorithm            rounds               sent by the busiest rank    good for
//   ring                 2(n-1)               2(n-1)/n B                  large messages, even links
//   direct               2                    2(n-1)/n B                  fewer latencies, n-1 at once
//   halving_doubling     2 log2 n             2(n-1)/n B, +B: see there   small and medium messages
//   tree                 3 ceil(log2 n)       2 B (inner node)            small messages
//   hierarchical         2(m-1) + 2(g-1)      2(m-1)/m B between hosts    m hosts of g ranks
//   rooted               n                    (n-1) B (the root)          a parameter server
//   ring_reduce_scatter  n-1                  (n-1)/n B
//   ring_all_gather      n-1                  (n-1)/n B
//   broadcast            ceil(log2 n)         log2(n) B (the root)
#pragma once

#include <vector>

#include "entrain/collective/schedule.h"

namespace entrain::collective {

// `order` lists the ranks that take part, each once, in the order of the ring. `world` is the
// job's size: Schedule::ranks. All-reduces leave the sum of all participants at each of them.
Schedule ring(const std::vector<int>& order, int world);
Schedule direct(const std::vector<int>& ranks, int world);
Schedule halving_doubling(const std::vector<int>& ranks, int world);
Schedule tree(const std::vector<int>& ranks, int world);

// `groups`: the ranks of each host. Its first rank speaks for the host in a ring of hosts.
Schedule hierarchical(const std::vector<std::vector<int>>& groups, int world);

// A parameter server: `root` sums what `workers` push and sends it back. The root need not be a
// worker (a host that only serves). Sums in the order of `workers`, so the result is the same each time.
Schedule rooted(const std::vector<int>& workers, int root, int world);

// The same with one proxy per host: the ranks of a group first sum at the group's first rank, so
// that only one copy leaves and enters each host.
Schedule rooted_by_group(const std::vector<std::vector<int>>& groups, int root, int world);

// Chunk i ends, summed, at order[i]; and from there at everyone.
Schedule ring_reduce_scatter(const std::vector<int>& order, int world);
Schedule ring_all_gather(const std::vector<int>& order, int world);

// ranks[0]'s message to all of `ranks`, down a binomial tree.
Schedule broadcast(const std::vector<int>& ranks, int world);

}  // namespace entrain::collective
