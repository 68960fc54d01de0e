// The planner: how many devices and micro-batches a model needs, and which choice is fastest.
//
// Predicted from a profile of each layer at one batch size; times and activations grow in proportion to the
// examples of a micro-batch, and each pass of a cell takes a fixed `overhead_s` more, which is what
// makes ever more micro-batches not worth it. The time of a step is timeline.h's makespan (the
// weight update is not in it), its memory is memory.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/cell_cost.h"
#include "entrain/pipeline/plan/memory.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/pipeline/plan/remat.h"

namespace entrain::pipeline {

struct LayerCost {
  std::string name;
  double forward_s = 0;  // of the profiled batch, on a device of speed 1
  double backward_s = 0;
  int64_t parameter_bytes = 0;
  int64_t output_bytes = 0;    // of the profiled batch
  int64_t internal_bytes = 0;  // of the profiled batch: what backward keeps
  double flops = 0;            // forward, of the profiled batch; not used here
};

// What a layer needs of an earlier one, beside the flow: a skip's value, or a tied parameter. Where a cut
// comes between, the later cell holds a copy.
struct Need {
  int from = 0;  // layers
  int to = 0;
  int64_t bytes = 0;
};

struct Device {
  double speed = 1;
  int64_t memory_bytes = 0;  // 0: not limited
};

struct FitRequest {
  std::vector<LayerCost> layers;
  int profiled_batch = 1;        // examples the profile was taken with
  int64_t input_bytes = 0;       // of the profiled batch, into layer 0
  std::vector<Need> skips = {};  // bytes of the profiled batch
  std::vector<Need> ties = {};
  int batch = 1;                // examples a step
  std::vector<Device> devices;  // cell c runs on device c % K; K < devices.size() takes the first K
  int optimizer_slots = 0;
  double overhead_s = 0;
  double link_s_per_byte = 0;
  double link_latency_s = 0;

  // What is tried. Empty micro_batches: 1, 2, 4, ... and the batch size. `chunks` is for "interleaved".
  std::vector<std::string> schedules = {"gpipe", "1f1b"};
  std::vector<Remat> remats = {Remat::kNever, Remat::kExceptLast, Remat::kAlways};
  std::vector<int> micro_batches = {};
  int chunks = 2;
  int pipeline = 0;               // so many devices only; 0: 1..all of them
  std::vector<int> balance = {};  // the user's own; empty: the fastest that fits
};

struct FitPlan {
  Pipeline choice;
  double step_s = 0;
  double bubble_share = 0;
  double imbalance_share = 0;
  double transfer_share = 0;
  std::vector<DeviceMemory> memory;  // by device
  int64_t shortfall_bytes = 0;       // > 0: does not fit, by this much, on:
  int shortfall_device = -1;
};

struct Fit {
  std::vector<FitPlan> plans;  // all that fit: least devices first, then least micro-batches, then fastest
  size_t fastest = 0;          // index into plans
  std::optional<FitPlan> nearest;  // if none fits: the one that falls short by the least
};

// Tries K = 1..devices (or only `pipeline`) with each of the request's micro-batches, schedules and remat
// modes. Each gets its fastest balance that fits (for "interleaved": its fastest, kept if it fits).
// InputError for a request without layers or devices, with a batch < 1, micro-batches not in 1..batch, ...
Fit fit(const FitRequest& request);

// Predicts one choice, such as the user's own balance. InputError where it does not suit the request.
FitPlan predict(const FitRequest& request, const Pipeline& choice);

// One line: "2 devices, 4 micro-batches, 1f1b, remat always, balance 3,5: 120 ms a step, bubble 20%, ...".
std::string describe(const FitPlan& plan);

// "smallest: ...", "fastest: ..."; or "does not fit: by 1.2 GB on device 3, even with ...".
std::string describe(const Fit& result);

}  // namespace entrain::pipeline
