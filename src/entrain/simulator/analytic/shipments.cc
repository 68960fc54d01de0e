#include "entrain/simulator/analytic/shipments.h"

namespace entrain::simulator {
namespace {

// A slice along another axis than the first does not lie in one piece: it is copied out, and the result back.
double packed_bytes(const plan::Message& message, const graph::Graph& graph) {
  double bytes = 0;
  for (const auto& slice : message.slices) {
    const auto& v = graph.variables[slice.variable];
    if (slice.axis == 0 || slice.elements == v.elements()) continue;
    bool whole_before = true;
    for (int axis = 0; axis < slice.axis; ++axis) whole_before &= v.shape[axis] == 1;
    if (!whole_before) bytes += 2.0 * static_cast<double>(slice.elements * v.element_size());
  }
  return bytes;
}

// Seconds of a worker's engine to make a message ready for the wire, and to read the result.
double preparing(const plan::Message& message, const graph::Graph& graph, const Calibration& k) {
  const double packing = packed_bytes(message, graph) / k.pack_bytes_per_s;
  const auto bytes = static_cast<double>(message.bytes());
  if (message.wire_type()) return packing + 2 * bytes / k.cast_bytes_per_s;
  if (message.exchange == plan::Exchange::kTopK) return packing + 4 * bytes / k.cast_bytes_per_s;
  if (message.exchange != plan::Exchange::kLowRank) return packing;
  // M Q, M^T P, and P Q^T twice (the sum, and what is kept as the error): 2 flops per element and column
  // each.
  return packing + 8 * static_cast<double>(message.elements()) * message.rank / k.matmul_flops;
}

}  // namespace

Shipment shipment_of(const plan::Message& message, const graph::Graph& graph, const Routes& routes,
                     const Calibration& calibration, double ready) {
  const auto found = routes.find(message);
  return {found.route, message.priority, found.bytes, ready, preparing(message, graph, calibration)};
}

double after_arrival(const plan::Message& message, const Route& route, const Calibration& calibration) {
  return message.exchange == plan::Exchange::kLowRank ? route.depth * calibration.latency_s : 0;
}

}  // namespace entrain::simulator
