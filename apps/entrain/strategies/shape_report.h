// What a shape means for a model on a cluster: who holds and computes what, and who synchronizes with whom.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/plan/assignment.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/shape.h"
#include "model_outline.h"

namespace entrain::app {

struct ShapeReport {
  struct Work {  // of a rank in one of its cells
    int cell;
    int64_t examples;                // per update
    std::vector<int> micro_batches;  // numbers
  };
  struct Rank {
    int rank;
    int64_t parameter_bytes;
    std::vector<Work> work;           // by cell; none: the shape does not use it
    std::vector<std::string> passes;  // in order: "F0/1", as plan::draw() writes them
  };
  // Parameters that the same ranks hold: these ranks sum their gradients, unless it is one alone.
  struct Group {
    std::vector<int> ranks;   // ascending
    std::vector<int> layers;  // ascending
    int variables = 0;
    int64_t bytes = 0;
  };

  struct Layer {
    std::string name;
    int64_t parameter_bytes;  // tied ones count in each layer that reads them
  };

  std::string model, strategy;
  cluster::Cluster cluster;
  strategy::Shape shape;
  plan::Assignment assignment;
  std::vector<Layer> layers;
  std::vector<Rank> ranks;  // that train
  std::vector<Group> groups;
  // Where the graph has a profile of the layers: see add_prediction().
  std::optional<simulator::Estimate> predicted;
  std::string missing_memory;  // plan::missing_memory(), without slots of the optimizer
};

// Throws InputError where shape, model, cluster and examples per update do not fit.
ShapeReport report_shape(const ModelOutline& outline, const std::string& strategy,
                         const cluster::Cluster& cluster, const strategy::Shape& shape, int64_t examples);

// What an update costs, simulated in the default calibration, and whether the hosts have the memory; nothing
// where the layers of `graph` have no times.
void add_prediction(ShapeReport& report, const graph::Graph& graph, const strategy::Request& strategy);

std::string to_text(const ShapeReport& report);
nlohmann::json to_json(const ShapeReport& report);

}  // namespace entrain::app
