// A progress line on stderr: a bar on a terminal, else a plain line every few seconds.
#pragma once

#include <cstdint>
#include <string>

#include "entrain/base/clock.h"

namespace entrain {

class Progress {
 public:
  // `total` steps of something called `label`; 0: unknown. Silent when `enabled` is false.
  Progress(std::string label, int64_t total, bool enabled = true);
  ~Progress();  // ends the line

  // `done` of `total` steps are finished; `note` is shown behind rate and ETA. The rate is that of this run:
  // a job that was resumed begins with the steps of the run before it, which took no time here.
  void update(int64_t done, const std::string& note = "");

 private:
  std::string label_;
  int64_t total_;
  bool enabled_;
  bool terminal_;
  bool drawn_ = false;
  int64_t first_done_ = 0;  // of the first update
  Clock::time_point start_ = Clock::now();
  Clock::time_point first_{}, last_{};  // updates
};

// Whether stderr is a terminal that understands control sequences.
bool stderr_is_terminal();

// What to print before any other line on stderr, so that it does not run into a progress line, whichever
// process of the job has drawn that one: clears the line on a terminal, nothing elsewhere.
const char* before_stderr_line();

namespace detail {

// What a progress line shows.
struct ProgressState {
  std::string label;
  int64_t done = 0;
  int64_t total = 0;   // 0: unknown
  double rate = 0;     // steps per second; 0: not known yet
  double elapsed = 0;  // seconds
  std::string note;
};

// At most `columns` wide: the bar shrinks first and goes, then the rate, then the note is cut. 0: any width
// and no bar, for a file or pipe.
std::string progress_line(const ProgressState& state, int columns);

std::string format_rate(double per_second);  // "104k it/s", "12.3 it/s", "4.2 s/it"
std::string format_eta(double seconds);      // whole seconds, at least 1: "8 s", "2 min 30 s"

}  // namespace detail

}  // namespace entrain
