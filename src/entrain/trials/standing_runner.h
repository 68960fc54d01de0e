// The tuner's trials, run for real in a standing job.
#pragma once

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/trials/standing_job.h"
#include "entrain/tuner/trial_runner.h"

namespace entrain::trials {

// Rank 0 only. `job` outlives it.
class StandingRunner final : public tuner::TrialRunner {
 public:
  // `best_s`: of trials before, if there were any.
  StandingRunner(StandingJob& job, TrialMeasureOptions options, double best_s = 0)
      : job_(job), options_(options), best_(best_s) {}

  // A step that takes 8 times as long as the best ends its trial: it has lost anyway.
  tuner::Measured run(const strategy::Strategy& strategy, double deadline_s) override {
    TrialMeasureOptions options = options_;
    options.deadline_s = best_ > 0 ? std::min(deadline_s, std::max(0.25, 8 * best_)) : deadline_s;
    const Measurement measurement = job_.measure(strategy, options);
    tuner::Measured measured{measurement.seconds, dataset::Status::kOk, ""};
    if (measurement.over_deadline) {
      measured.status = dataset::Status::kDeadline;
      measured.error = fmt::format("a step took {:.2f} s; the limit was {:.2f} s",
                                   measurement.seconds.front(), options.deadline_s);
      return measured;
    }
    const double middle = median(measurement.seconds);
    best_ = best_ == 0 ? middle : std::min(best_, middle);
    return measured;
  }

 private:
  StandingJob& job_;
  TrialMeasureOptions options_;
  double best_;  // seconds per step, of the trials so far
};

}  // namespace entrain::trials
