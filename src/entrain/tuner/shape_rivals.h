// What a tune's shapes are compared with: the whole model on one host, and the pipelines that a user would
// ask for by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/shape.h"

namespace entrain::tuner {

// All ranks of one host hold all layers, in 1, 2, 4 or 8 micro-batches per rank, nothing recomputed. One host
// of each kind: of equal speed, memory and ranks.
std::vector<strategy::Shape> shapes_of_one_host(const graph::Graph& graph, const cluster::Cluster& cluster,
                                                int64_t examples);

// K in {2, 4} devices, M in {4, 8, 16} micro-batches per pipeline, every schedule, nothing recomputed, cells
// balanced by the layers' times: on the K fastest ranks, and with as many replicas as all ranks allow.
std::vector<strategy::Shape> plain_pipelines(const graph::Graph& graph, const cluster::Cluster& cluster,
                                             int64_t examples);

}  // namespace entrain::tuner
