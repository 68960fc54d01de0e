// Runs several strategies in one standing job, one after the other: no restart between them, and every step
// of every strategy without a shape is a step of the same training. Shapes follow, on a model of their own.
#pragma once

#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/plan/link_bound.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/strategy.h"

namespace entrain::trials {

struct CompareOptions {
  std::string model;
  std::vector<strategy::Request> strategies;
  int64_t batch_size = 2;  // per rank; few, so that links decide and not cores that hosts share
  int64_t steps = 4;       // measured, of each strategy
  int64_t warmup = 1;      // of each strategy, thrown away
  uint64_t seed = 0;
  bool shapes =
      false;  // then also one host alone, a plain pipeline, and the shape that is planned to be best
  bool progress = true;
};

struct Compared {
  strategy::Strategy strategy;     // of a shape: its id says what it is
  std::vector<double> step_times;  // seconds
  plan::LinkBound link_bound;
};

struct Comparison {
  std::vector<Compared> rows;  // in the order asked for; those with a measured step
  bool interrupted = false;  // a rank was told to end (Context::stop): rows are missing, or have fewer steps
  double link_bound_best = 0;
  graph::Graph graph;
};

// Collective over all ranks, servers too. The result is filled on rank 0.
Comparison compare(job::Context& context, const CompareOptions& options);

}  // namespace entrain::trials
