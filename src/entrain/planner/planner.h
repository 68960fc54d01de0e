// Which shapes to try first for a model, a cluster and a number of examples per update: dynamic programming
// over cells (cell_program.h), shapes with co-located cells (colocated.h), all ranked by one closed form
// (estimate.h). Nothing runs and nothing is simulated: improve.h goes on with a simulator as judge.
#pragma once

#include <string>
#include <vector>

#include "entrain/planner/estimate.h"

namespace entrain::planner {

struct PlanOptions {
  Limits limits = {};
  Overheads overheads = {};
  int most = 50;                        // candidates
  std::vector<int> micro_batches = {};  // that are tried; empty: chosen by ranks and examples
  int rests = 16;                       // values of CellProgram's `rest` per setting
};

struct Candidate {
  strategy::Shape shape;
  double seconds = 0;  // estimated
  std::string origin;  // "cells", "co-located", "whole model"
};

// Different shapes that pass strategy::validate() and fit in memory, the fastest first; among them the best
// of each origin, and the best that one host runs alone. Empty: no shape that was found fits.
// Throws InputError for a graph without profiled layers, fewer than one example, or limits of another length.
std::vector<Candidate> plan_shapes(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   int64_t examples, const PlanOptions& options = {});

}  // namespace entrain::planner
