#include "entrain/pipeline/plan/memory.h"

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

int64_t peak_activations(const Schedule& schedule, int device, const std::vector<CellCost>& costs,
                         Remat remat) {
  int64_t now = 0, peak = 0;
  for (const Work& work : schedule.work[device]) {
    const CellCost& cost = costs[work.cell];
    const bool again = recomputes(remat, work.micro_batch, schedule.micro_batches);
    const int64_t stored = again ? cost.input_bytes : cost.internal_bytes;
    if (work.kind == Kind::kForward) {
      now += stored;
      peak = std::max(peak, now);
    } else {
      peak = std::max(peak, now + (again ? cost.internal_bytes : 0));
      now -= stored;
    }
  }
  return peak;
}

}  // namespace

std::vector<DeviceMemory> peak_memory(const Schedule& schedule, const std::vector<CellCost>& costs,
                                      Remat remat, int optimizer_slots) {
  if (static_cast<int>(costs.size()) != schedule.cells) {
    bad_input("memory: {} cell costs: must be {}, one a cell", costs.size(), schedule.cells);
  }
  std::vector<DeviceMemory> memory(schedule.devices);
  for (int c = 0; c < schedule.cells; ++c) {
    memory[schedule.device_of(c)].parameter_bytes += costs[c].parameter_bytes * (2 + optimizer_slots);
  }
  for (int k = 0; k < schedule.devices; ++k) {
    memory[k].activation_bytes = peak_activations(schedule, k, costs, remat);
  }
  return memory;
}

int64_t activation_formula(const std::string& schedule, int devices, int device, int micro_batches,
                           Remat remat, int64_t input_bytes, int64_t internal_bytes) {
  if (schedule != "gpipe" && schedule != "1f1b") {
    bad_input("memory formula: schedule '{}': must be gpipe or 1f1b", schedule);
  }
  const bool fill_drain = schedule == "gpipe";
  const int64_t in_flight = fill_drain ? micro_batches : std::min(micro_batches, devices - device);
  const int64_t all_inputs = in_flight * input_bytes;
  if (remat == Remat::kNever) return in_flight * internal_bytes;
  if (remat == Remat::kAlways) return all_inputs + internal_bytes;
  const int64_t with_last_kept = all_inputs - input_bytes + internal_bytes;
  if (fill_drain) return with_last_kept;
  const int64_t at_the_end = with_last_kept + (in_flight > 1 ? internal_bytes : 0);
  return micro_batches > in_flight ? std::max(all_inputs + internal_bytes, at_the_end) : at_the_end;
}

}  // namespace entrain::pipeline
