// What the published rankers read: raw features (z_raw) and analytic terms (z_pre) of each part.
//
//   [0, 16)    destination host, one-hot          [16, 80)   merge group, one-hot (its number mod 64)
//   compressor class (3), synchronizer class (PS with and without proxy x dense and sparse, all-reduce; and
//   all-gather, which is ours), size share, bandwidth at the destination, ranks there;
//   transmission, overhead, latency, is a server.
// Transmission is divided by the domain's scale max(compute, best link bound), so that it means the same in
// another domain; within one that changes nothing, since inputs are standardised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "entrain/simulator/analytic/published_terms.h"
#include "entrain/simulator/schema.h"

namespace entrain::simulator {

inline constexpr int kHostColumns = 16;
inline constexpr int kGroupColumns = 64;
inline constexpr int kPartWidth = kHostColumns + kGroupColumns + 3 + 6 + 3 + 4;

const Schema& part_schema();
const Schema& linear_schema();  // the 12 published features

struct PartRows {
  std::vector<float> values;        // kPartWidth each
  std::vector<int64_t> variables;   // by row
  std::vector<int64_t> offsets{0};  // rows of strategy i: [offsets[i], offsets[i + 1])

  int64_t parts(size_t strategy) const { return offsets[strategy + 1] - offsets[strategy]; }
};

// One (G, D). Thread-safe; copies what it needs.
class PartFeatures {
 public:
  PartFeatures(const graph::Graph& graph, const cluster::Cluster& cluster);

  void append(const strategy::Strategy& strategy, PartRows& rows) const;
  // The 12 published features, times over the domain's scale.
  std::vector<float> linear(const strategy::Strategy& strategy) const;

 private:
  struct Host {
    float bandwidth, ranks;
  };
  PublishedTerms terms_;
  std::vector<Host> hosts_;
  float slowest_;
  double scale_;  // seconds
};

}  // namespace entrain::simulator
