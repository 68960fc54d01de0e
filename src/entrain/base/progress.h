// A progress line on stderr: a bar on a terminal, else a plain line every few seconds.
#pragma once

#include <cstdint>
#include <string>

#include "entrain/base/clock.h"

namespace entrain {

class Progress {
 public:
  // `total` steps of something called `label`; 0: nobody knows how many. Silent when `enabled` is false.
  Progress(std::string label, int64_t total, bool enabled = true);
  ~Progress();  // ends the line

  // `done` of `total` steps are finished; `note` is shown behind it/s and ETA.
  void update(int64_t done, const std::string& note = "");

 private:
  std::string line(int64_t done, const std::string& note) const;

  std::string label_;
  int64_t total_;
  bool enabled_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace entrain
