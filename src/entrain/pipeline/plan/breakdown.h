// Where a run's wall-clock went, and its last step as a trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/span.h"

namespace entrain::pipeline {

// Of one device, summed over steps, in seconds.
struct DeviceTimes {
  double wall = 0;
  double forward = 0, backward = 0, recompute = 0;
  double waited = 0;    // for a value that had not been sent
  double transfer = 0;  // for one on its way, and handing one over
  double update = 0;    // synchronizing replicas and tied parameters, clipping, the optimizer

  double busy() const { return forward + backward + recompute; }
  void add(const std::vector<Span>& spans, double wall_s);
};

// By device.
nlohmann::json to_json(const std::vector<DeviceTimes>& times);
std::vector<DeviceTimes> device_times_from_json(const nlohmann::json& json);

// Means over devices, in seconds. All parts but `other` are measured; bubble and imbalance are the measured
// wait:
//   imbalance = most busy device - mean busy time, what equal devices would save; at most the wait
//   bubble    = the rest, what equal devices would wait too
struct Breakdown {
  double wall = 0;
  double compute = 0, recompute = 0, bubble = 0, imbalance = 0, transfer = 0, update = 0;
  double other = 0;  // wall - the rest

  double sum() const { return compute + recompute + bubble + imbalance + transfer + update; }
};

// Requires: one device or more.
Breakdown break_down(const std::vector<DeviceTimes>& devices);
nlohmann::json to_json(const Breakdown& breakdown);

// By device.
nlohmann::json to_json(const std::vector<std::vector<Span>>& spans);
std::vector<std::vector<Span>> spans_from_json(const nlohmann::json& json);

// Chrome's trace format (chrome://tracing, Perfetto): one track a cell, one process a device.
std::string chrome_trace(const std::vector<std::vector<Span>>& spans_by_device);

}  // namespace entrain::pipeline
