// Seconds and bytes of consecutive layers, as differences of sums from the first layer on: whichever cell is
// asked for, and whether its layers are alike or not, costs two look-ups.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "entrain/graph/graph.h"

namespace entrain::simulator {

class LayerSums {
 public:
  // Throws InputError naming the first layer whose times are not known. `graph` outlives this.
  explicit LayerSums(const graph::Graph& graph);

  // Of a pass with so many examples: [l] is the sum over the layers before l, [layers] that over all.
  struct Times {
    std::vector<double> forward, backward;
  };
  // Worked out once per number of examples; stays where it is. Thread-safe.
  const Times& times(int64_t examples) const;

 private:
  const graph::Graph& graph_;
  mutable std::shared_mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<const Times>> times_;  // by examples; guarded by mutex_
};

}  // namespace entrain::simulator
