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
  StandingRunner(StandingJob& job, MeasureOptions options) : job_(job), options_(options) {}

  // A step that takes 8 times as long as the best ends its trial: it has lost anyway.
  tuner::Measured run(const strategy::Strategy& strategy, double deadline_s) override {
    MeasureOptions options = options_;
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
  MeasureOptions options_;
  double best_ = 0;  // seconds a step, of the trials so far
};

}  // namespace entrain::trials
