#include "entrain/pipeline/plan/timeline.h"

#include <algorithm>
#include <numeric>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

constexpr double kNotYet = -1;

void check_timeline(const Schedule& schedule, const std::vector<CellCost>& costs,
                    const TimelineOptions& options) {
  if (static_cast<int>(costs.size()) != schedule.cells) {
    bad_input("timeline: {} cell costs: must be {}, one a cell", costs.size(), schedule.cells);
  }
  if (!options.speed.empty() && static_cast<int>(options.speed.size()) != schedule.devices) {
    bad_input("timeline: {} speeds: must be {}, one a device", options.speed.size(), schedule.devices);
  }
  for (const double speed : options.speed) {
    if (!(speed > 0)) bad_input("timeline: device speed {}: must be above 0", speed);
  }
}

// Plays one schedule. Each pass's arrival is the time at which its consumer on another cell may start.
class Player {
 public:
  Player(const Schedule& schedule, const std::vector<CellCost>& costs, const TimelineOptions& options)
      : schedule_(schedule),
        costs_(costs),
        options_(options),
        next_(schedule.devices, 0),
        free_s_(schedule.devices, 0),
        link_free_s_(static_cast<size_t>(schedule.devices) * schedule.devices, 0),
        arrival_s_(2 * static_cast<size_t>(schedule.cells) * schedule.micro_batches, kNotYet),
        events_(schedule.devices) {}

  double play() {
    size_t left = 0;
    for (const auto& work : schedule_.work) left += work.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (int k = 0; k < schedule_.devices; ++k) {
        while (next_[k] < schedule_.work[k].size() && run(k, schedule_.work[k][next_[k]])) {
          ++next_[k];
          --left;
          moved = true;
        }
      }
    }
    if (left > 0) fail("schedule {} deadlocks: {} passes never start", schedule_.name, left);
    return *std::max_element(free_s_.begin(), free_s_.end());
  }

  const std::vector<std::vector<Event>>& events() const { return events_; }

 private:
  double& arrival(Kind kind, int cell, int micro_batch) {
    const size_t row = static_cast<size_t>(kind == Kind::kBackward) * schedule_.cells + cell;
    return arrival_s_[row * schedule_.micro_batches + micro_batch];
  }

  // False while the pass's input has not arrived. A backward's own forward ran on this device before it.
  bool run(int device, const Work& work) {
    const bool forward = work.kind == Kind::kForward;
    const bool at_end = forward ? work.cell == 0 : work.cell + 1 == schedule_.cells;
    const int from_cell = forward ? work.cell - 1 : work.cell + 1;
    const double ready_s = at_end ? 0 : arrival(work.kind, from_cell, work.micro_batch);
    if (ready_s == kNotYet) return false;
    if (!forward && arrival(Kind::kForward, work.cell, work.micro_batch) == kNotYet) return false;

    const CellCost& cost = costs_[work.cell];
    const double speed = options_.speed.empty() ? 1 : options_.speed[device];
    if (!forward && recomputes(options_.remat, work.micro_batch, schedule_.micro_batches)) {
      const double begin_s = options_.early_recompute ? free_s_[device] : std::max(free_s_[device], ready_s);
      add_event(device, work, true, begin_s, cost.recompute_s / speed);
    }
    const double begin_s = std::max(free_s_[device], ready_s);
    add_event(device, work, false, begin_s, (forward ? cost.forward_s : cost.backward_s) / speed);
    send(device, work);
    return true;
  }

  void add_event(int device, const Work& work, bool recompute, double begin_s, double duration_s) {
    free_s_[device] = begin_s + duration_s;
    events_[device].push_back({device, work, recompute, begin_s, free_s_[device]});
  }

  void send(int device, const Work& work) {
    const bool forward = work.kind == Kind::kForward;
    const int to_cell = work.cell + (forward ? 1 : -1);
    double at_s = free_s_[device];
    if (to_cell >= 0 && to_cell < schedule_.cells && schedule_.device_of(to_cell) != device) {
      const int64_t bytes = costs_[forward ? work.cell : to_cell].boundary_bytes;
      double& link_s =
          link_free_s_[static_cast<size_t>(device) * schedule_.devices + schedule_.device_of(to_cell)];
      // The latency delays this value, not the next one on the link.
      link_s = std::max(link_s, at_s) + static_cast<double>(bytes) * options_.link_s_per_byte;
      at_s = link_s + options_.link_latency_s;
    }
    arrival(work.kind, work.cell, work.micro_batch) = at_s;
  }

  const Schedule& schedule_;
  const std::vector<CellCost>& costs_;
  const TimelineOptions& options_;
  std::vector<size_t> next_;         // by device: its next work
  std::vector<double> free_s_;       // by device
  std::vector<double> link_free_s_;  // from device * devices + to device
  std::vector<double> arrival_s_;
  std::vector<std::vector<Event>> events_;  // by device
};

}  // namespace

Timeline run_schedule(const Schedule& schedule, const std::vector<CellCost>& costs,
                      const TimelineOptions& options) {
  check_timeline(schedule, costs, options);
  Timeline timeline;
  Player player(schedule, costs, options);
  timeline.makespan_s = player.play();

  TimelineOptions free_links = options;
  free_links.link_s_per_byte = free_links.link_latency_s = 0;
  const bool links_cost = options.link_s_per_byte > 0 || options.link_latency_s > 0;
  const double free_links_s = links_cost ? Player(schedule, costs, free_links).play() : timeline.makespan_s;

  double busy_s = 0, recompute_s = 0;
  for (const auto& of_device : player.events()) {
    timeline.busy_s.push_back(0);
    for (const Event& event : of_device) {
      timeline.busy_s.back() += event.end_s - event.begin_s;
      if (event.recompute) recompute_s += event.end_s - event.begin_s;
      timeline.events.push_back(event);
    }
    busy_s += timeline.busy_s.back();
  }
  const double max_busy_s = *std::max_element(timeline.busy_s.begin(), timeline.busy_s.end());
  timeline.recompute_s = recompute_s / schedule.devices;
  timeline.compute_s = busy_s / schedule.devices - timeline.recompute_s;
  timeline.imbalance_s = max_busy_s - busy_s / schedule.devices;
  timeline.bubble_s = free_links_s - max_busy_s;
  timeline.transfer_s = timeline.makespan_s - free_links_s;
  return timeline;
}

}  // namespace entrain::pipeline
