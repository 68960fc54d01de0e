// A graph or profile in the binary form of protobuf; what is read can be written and read again.
#include "target.h"

#include "entrain/graph/graph.h"

FUZZ_TARGET(text) {
  using namespace entrain::graph;
  graph_from_binary(to_binary(graph_from_binary(text)));
}
