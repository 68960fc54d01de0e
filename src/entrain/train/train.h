// A whole training job of a model: what `entrain train` runs on each rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/job/context.h"
#include "entrain/optim/finite.h"
#include "entrain/pipeline/plan/breakdown.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/plan/link_bound.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/optimizer.h"
#include "entrain/strategy/shape.h"
#include "entrain/trials/strategy_advisor.h"

namespace entrain::train {

struct TrainOptions {
  std::string model;
  strategy::Request strategy = "allreduce";
  strategy::Optimizer optimizer;
  strategy::Pipeline pipeline;           // a request, which becomes a shape where cells are ranks
  std::optional<strategy::Shape> shape;  // which ranks hold which layers; none: every rank all of them
  std::filesystem::path trace;           // pipelines: the last step, in Chrome's trace format; empty: none
  // A profile whose layers' times are slept through instead of computed; nothing is learned.
  std::optional<graph::Graph> replay;
  std::string data;            // see data/data.h; empty: made up
  std::string device = "cpu";  // or cuda, whose GPUs the ranks of a host take in turn
  int64_t steps = 20;          // or kUnlimited (steps.h), with `seconds`
  // End after so long, tests not counted; 0: after `steps`. Workers that train apart by a synchronous rule
  // end together where a period does, up to two later: the first to notice, the second for all to have heard.
  double seconds = 0;
  int64_t batch_size = 32;   // examples per update and rank that trains, whatever the shape
  int64_t global_batch = 0;  // examples per update, of all ranks together; 0: by `batch_size`
  uint64_t seed = 0;
  // Training apart: kSkip leaves out the worker's own update (pulls and exchanges go on); parameters that are
  // not finite end the job in any case.
  NonFinite on_nonfinite = NonFinite::kStop;
  bool overlap_forward = true;  // TorchScript models: never, for their operations may run on other threads
  bool progress = true;
  std::filesystem::path out;  // metrics.jsonl and checkpoints; empty: none are written
  // Steps between comparisons of what several ranks hold (parallel/compared_state.h); 0: never. Workers that
  // train apart hold nothing alike.
  int64_t compare_every = 100;
  int64_t checkpoint_every = 0;      // steps; 0: only at the end, when there is `out`
  std::filesystem::path resume;      // a former `out`
  std::filesystem::path init;        // state dict to start from (safetensors, see state_dict.h)
  std::filesystem::path save;        // the trained state dict
  std::filesystem::path save_model;  // the trained model; for TorchScript
  int64_t test_every = 0;     // steps between tests on held-out data; 0: at the end, when there is `data`
  int64_t bn_recompute = 20;  // training batches that batch norm's statistics are taken from for a test
  trials::StrategyAdvisor* advisor = nullptr;  // rank 0's; may change the strategy between any two steps
  // And the shape: the model trains through cells from the start, where several ranks train. The same on all
  // ranks. Requires: it can be cut (cells.h).
  bool shapes_advised = false;
  // Between two steps: strategies to switch to, by step ("10=ps,20=allreduce").
  std::vector<std::pair<int64_t, strategy::Request>> switches;
  // Likewise shapes. With some, the model trains through cells from the start.
  std::vector<std::pair<int64_t, strategy::Shape>> reshapes;
};

// How the model did on held-out data.
struct Test {
  int64_t step = 0;
  double wall_s = 0;  // training only
  double loss = 0;
  double error = -1;               // share of examples got wrong; < 0: the model is no classifier
  double training_loss = 0;        // of the workers, at this step (mean)
  std::vector<double> to_average;  // |x_i - mean| by worker; synchronous rules
  std::vector<double> to_leader;   // |x_i - z| by worker; synchronous LSGD, from the first exchange on
};

// Times are of rank 0 and leave out the warm-up (the first fifth, at most 5 steps).
struct TrainReport {
  std::vector<double> step_times;  // seconds, from the start of a step to the start of the next
  double total_time = 0;           // of all steps of this run, warm-up and changes of strategy too
  double compute_time = 0;         // median of forward and backward, waiting taken out
  double first_loss = 0;           // mean over the examples
  double last_loss = 0;
  std::vector<double> bytes_sent;  // by rank, in a step: measured; as planned for a rank that only serves
  plan::LinkBound link_bound;
  double link_bound_best = 0;
  std::string strategy_id;
  int64_t first_step = 0;  // > 0: resumed
  graph::Graph graph;
  std::vector<Test> tests;        // oldest first
  int64_t skipped_updates = 0;    // of all workers: a loss or gradient was not finite
  uint64_t saturated_values = 0;  // of all ranks: cut to what float16 can hold, on their way
  // Training apart only.
  double comm_share = -1;       // of all workers' time: not computing because of an exchange
  std::vector<int> lost;        // workers that asynchronous rules went on without
  int64_t leader_switches = 0;  // the leader of all became another worker
  int64_t exchanges = 0;
  int64_t greatest_lead = 0;  // async-ps: exchanges that a worker was ahead of the slowest
  std::string shape;          // as text; empty: none was asked for
  // Training through cells only.
  std::optional<pipeline::Breakdown> pipeline;
  std::vector<int> balance;  // layers per cell
  int devices = 0;           // that compute at the same time: ranks, or threads of each rank
  int micro_batches = 0;     // per update; threads: per rank
  bool interrupted = false;  // ended early, after a checkpoint: a rank was told to (Context::stop)
};

// Collective: every rank of the job calls it (servers too). The report is filled on rank 0.
TrainReport train(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
