// AutoDist's graph_item file: a TensorFlow graph with its gradients, as G.
#pragma once

#include <set>
#include <string>

#include "entrain/graph/graph.h"

namespace entrain::dataset {

struct GraphItem {
  graph::Graph graph;
  bool complete;  // entrain wrote it: all of G is there
};

// The variables among `wanted` (as strategies name them: "W:0"), in the order of the TensorFlow graph, which
// is that of creation, with shape, dtype and sparseness. Times, edges and the order of gradients are only in
// files that entrain wrote. Throws InputError when it is not a GraphItem.
GraphItem read_graph_item(const std::string& bytes, const std::set<std::string>& wanted);

// Variables only: G holds no TensorFlow operations that AutoDist could run.
std::string to_graph_item(const graph::Graph& graph);

}  // namespace entrain::dataset
