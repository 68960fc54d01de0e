// A whole training job of a model of the zoo: what `entrain train` runs on each rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/plan/link_bound.h"
#include "entrain/trainer/context.h"
#include "entrain/trainer/pilot.h"

namespace entrain {

struct TrainOptions {
  std::string model;
  std::string strategy = "allreduce";
  std::string optimizer = "sgd";  // sgd, momentum, adam
  double learning_rate = 0.01;
  int64_t steps = 20;
  int64_t batch_size = 32;  // per rank
  uint64_t seed = 0;
  bool overlap_forward = true;
  bool progress = true;
  std::filesystem::path out;     // metrics.jsonl and checkpoints; empty: none are written
  int64_t checkpoint_every = 0;  // steps; 0: only at the end, when there is `out`
  std::filesystem::path resume;  // a former `out`
  Pilot* pilot = nullptr;        // rank 0's; may change the strategy between any two steps
  // Between two steps: strategies to switch to, by step ("10=ps,20=allreduce").
  std::vector<std::pair<int64_t, std::string>> switches;
};

// Times are of rank 0 and leave out the warm-up (the first fifth, at most 5 steps).
struct TrainReport {
  std::vector<double> step_times;  // seconds, from the start of a step to the start of the next
  double total_time = 0;           // of all steps of this run, warm-up and changes of strategy too
  double compute_time = 0;         // median of forward and backward, waiting taken out
  double first_loss = 0;           // mean over the workers
  double last_loss = 0;
  std::vector<double> bytes_sent;  // by rank, in a step: measured; as planned for a rank that only serves
  plan::LinkBound link_bound;
  double link_bound_best = 0;
  std::string strategy_id;
  int64_t first_step = 0;  // > 0: resumed
  graph::Graph graph;
  bool interrupted = false;  // ended early by Ctrl-C, after a checkpoint
};

// Collective: every rank of the job calls it (servers too). The report is filled on rank 0.
TrainReport train(Context& context, const TrainOptions& options);

// Called from a signal handler: train() ends after the step under way, writes a checkpoint if it
// has an `out`, and reports.
void request_stop();

// p-th quantile (0..1) of `values`, by linear interpolation. Requires: not empty.
double quantile(std::vector<double> values, double p);

}  // namespace entrain
