// The skeleton of a training run, the same for every kind: which steps are made, when the run stops, is
// tested and saved, and the time that counts.
//
//   for each step:  stop? ─▶ make it ─▶ test, when due ─▶ save, when due ─▶ progress
//   then:           complete ─▶ save ─▶ test ─▶ finish: results, summary
#pragma once

#include <cstdint>
#include <optional>

#include "entrain/base/clock.h"
#include "entrain/train/train.h"

namespace entrain::train {

// Seconds of training: stands still while a test runs.
class TrainingClock {
 public:
  double seconds() const { return seconds_since(begin_) - paused_s_; }
  void pause(double seconds) { paused_s_ += seconds; }

 private:
  Clock::time_point begin_ = Clock::now();
  double paused_s_ = 0;
};

// What one kind of training does on one worker. The same calls in the same order on every worker, but for
// asynchronous rules.
class Run {
 public:
  virtual ~Run() = default;

  // Whether the run ends before `step`. `enough`: TrainOptions::seconds have passed here.
  virtual bool stops_before(int64_t step, bool enough) = 0;
  // Makes the step; returns its loss.
  virtual double make(int64_t step, const TrainingClock& clock) = 0;
  // The steps are made: updates that are still under way are waited for.
  virtual void complete() {}
  // After `step` steps: tests the model. The result at rank 0, where there is something to test.
  virtual std::optional<Test> test(int64_t step, TrainingClock& clock) = 0;
  // After `step` steps, if that is a moment to save; `last`: there are no more steps.
  virtual void save(int64_t step, bool last) = 0;
  // No more steps are made, tests and saves are done: writes results, gathers the rest of the report.
  virtual void finish(TrainReport& report) = 0;
};

// From `first_step` on (> 0: resumed).
TrainReport run_loop(job::Context& context, const TrainOptions& options, int64_t first_step, Run& run);

}  // namespace entrain::train
