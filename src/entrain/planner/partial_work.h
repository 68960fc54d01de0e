// How much of the work a host can do when its link carries only so much: the link part of the bound
// (README.md, step 5), for a host that computes neither nothing nor everything.
//
// s_l in [0, 1]: the host's share of the examples at layer l; w_l: seconds of work per example; N: examples.
// Its work is u = N sum w_l s_l. Layers with 0 < s_l < 1 (Q) are spread: p_l bytes enter and leave for each.
// Over the cut after layer l at least N o_l |s_l - s_(l+1)| bytes flow in each direction. So each direction
// carries at least b(u), the least over all s with this work. Two lower bounds of b, both used:
//
//   knapsack   Not all layers are spread, so either the shares reach from 0 to 1, which takes N a bytes
//              (a = least o_l), or those of Q carry c = min(u, W - u) alone, so that some share differs from
//              0 or 1 by c / (N w(Q)):  b >= p(Q) + a c / w(Q),  p(Q) at least the fractional knapsack's.
//   labels     For a given pattern the cost is linear in the shares, and one equation fixes the work, so an
//              optimum has one value s strictly between 0 and 1 at most: each layer has label 0, s or 1. For
//              s in [lo, hi], dynamic programming over the layers finds the least bytes for each amount of
//              work: |0-s| costs lo, |s-1| costs 1-hi, work is rounded down. What rounding hides is given
//              back: the cost for u is the least of all entries that may stand for u.
#pragma once

#include <vector>

namespace entrain::planner {

// Layers from the first trained one.
struct LinkLayers {
  double examples = 1;         // N, per update
  std::vector<double> work;    // w_l: least seconds per example, on a rank of speed 1
  std::vector<double> spread;  // p_l: bytes in each direction when the layer is spread
  std::vector<double> flow;    // o_l: per example, from layer l to l + 1; one fewer than layers

  double all_work() const;    // W, of all examples
  double all_spread() const;  // of all layers
};

class PartialWork {
 public:
  explicit PartialWork(LinkLayers layers);

  // The most work u <= `limit`, in (0, W), that leaves some layer unspread and fits `total_bytes` in each
  // direction, `flow_bytes` of them between layers. Never too small; 0: none.
  double most(double limit, double total_bytes, double flow_bytes) const;

 private:
  double most_apart(double total_bytes, double flow_bytes) const;  // c of the knapsack
  double last_below(double limit, double least, double total_bytes) const;
  void fill_table();

  LinkLayers layers_;
  double least_flow_ = 0;                        // a
  std::vector<double> knapsack_w_, knapsack_p_;  // its corners: work per example, bytes
  double bucket_ = 0;                            // seconds of work per entry of the table
  std::vector<double> table_;                    // bytes, by work
};

}  // namespace entrain::planner
