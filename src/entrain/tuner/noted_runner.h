// The trial under way, in a file: one that takes the whole job down with it can be recorded as failed by
// whoever starts the job anew.
#pragma once

#include <filesystem>
#include <string>

#include "entrain/tuner/trial_runner.h"

namespace entrain::tuner {

// Notes each trial before it runs; the note goes when the trial has a result.
class NotedRunner final : public TrialRunner {
 public:
  // `number`: of the next trial, kept by the caller. All outlive this.
  NotedRunner(TrialRunner& runner, std::filesystem::path note, std::string domain, const int& number)
      : runner_(runner), note_(std::move(note)), domain_(std::move(domain)), number_(number) {}

  Measured run(const strategy::Strategy& strategy, double deadline_s) override;

 private:
  TrialRunner& runner_;
  std::filesystem::path note_;
  std::string domain_;
  const int& number_;
};

// Takes the note away, and appends the trial that it names to `log`, as failed, unless it is there. False:
// there was no note, or no log.
bool record_breakdown(const std::filesystem::path& note, const std::filesystem::path& log,
                      const std::string& domain);

}  // namespace entrain::tuner
