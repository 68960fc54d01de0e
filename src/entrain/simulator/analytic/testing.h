// For tests: small models whose times are easy to add up, and links that are what they are called.
#pragma once

#include <fmt/format.h>
#include <string>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/simulator/simulator.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/validate.h"

namespace entrain::simulator::testing {

constexpr double kSecond = 125e6;  // bytes of a link of 1 Gbit/s

// Each example takes 1 s forward and 2 s backward per layer, and its output a quarter of a second on a link
// of 1 Gbit/s. A variable of one element per layer.
inline graph::Graph slow_layers(int count) {
  graph::Graph g;
  g.model = "slow layers";
  g.batch_size = 1;
  for (int i = 0; i < count; ++i) {
    graph::Variable v;
    v.name = fmt::format("v{}", i);
    v.shape = {1};
    v.ready_order = count - 1 - i;
    g.variables.push_back(v);
    g.layers.push_back({fmt::format("layer{}", i), {i}, {{1, 1, 2}}, static_cast<int64_t>(kSecond / 4), 0});
  }
  return g;
}

inline Calibration ideal_links() {
  Calibration c;
  c.link_efficiency = 1;
  c.burst_s = 0;
  c.latency_s = c.message_s = 0;
  c.engine_bytes_per_s = c.reduce_bytes_per_s = c.update_bytes_per_s = 1e15;
  return c;
}

// A float32 variable that takes so many seconds of a link of 1 Gbit/s.
inline void resize(graph::Variable& v, double seconds) {
  v.shape = {static_cast<int64_t>(seconds * kSecond / 4)};
}

inline strategy::Strategy shaped(const graph::Graph& g, const cluster::Cluster& d, const std::string& shape,
                                 int64_t examples, const std::string& builder = "allreduce") {
  auto s = strategy::build(builder, g, d);
  s.shape = strategy::parse_shape(shape, static_cast<int>(g.layers.size()));
  strategy::validate(s, g, d);
  strategy::validate(*s.shape, static_cast<int>(g.layers.size()), d, examples);
  return s;
}

}  // namespace entrain::simulator::testing
