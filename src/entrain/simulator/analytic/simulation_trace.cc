#include "entrain/simulator/analytic/simulation_trace.h"

#include <algorithm>
#include <map>
#include <vector>

namespace entrain::simulator {
namespace {

// Intervals of one thread must not overlap, so a track gets as many lanes, each a thread, as it needs.
class Lanes {
 public:
  Lanes(Trace& trace, int process) : trace_(trace), process_(process) {}

  int thread_for(const Interval& interval) {
    auto& lanes = lanes_[interval.track];
    for (Lane& lane : lanes) {
      if (lane.free_from > interval.begin + 1e-12) continue;
      lane.free_from = interval.end;
      return lane.thread;
    }
    lanes.push_back({++threads_, interval.end});
    trace_.name_thread(process_, threads_, interval.track);
    return threads_;
  }

 private:
  struct Lane {
    int thread;
    double free_from;
  };

  Trace& trace_;
  int process_;
  int threads_ = 0;
  std::map<std::string, std::vector<Lane>> lanes_;  // by track
};

}  // namespace

void SimulationTrace::add(const std::string& strategy, const SimulatedIteration& iteration) {
  const int process = ++processes_;
  trace_.name_process(process, strategy);
  std::vector<Interval> intervals = iteration.intervals;
  for (Interval interval : iteration.critical_path) {
    interval.name = interval.track + ": " + interval.name;
    interval.track = "critical path";
    intervals.push_back(std::move(interval));
  }
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
  Lanes lanes(trace_, process);
  for (const Interval& interval : intervals) {
    trace_.add(process, lanes.thread_for(interval), interval.name, interval.begin, interval.end);
  }
}

}  // namespace entrain::simulator
