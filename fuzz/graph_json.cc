// A graph or profile in JSON; what is read can be written and read again.
#include "target.h"

#include "entrain/graph/graph.h"

FUZZ_TARGET(text) {
  using namespace entrain::graph;
  graph_from_json(to_json(graph_from_json(text)));
}
