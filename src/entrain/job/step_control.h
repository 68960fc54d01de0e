// What all workers do at a step: go on, stop (Ctrl-C reaches the ranks at different moments), or switch the
// strategy. Rank 0 decides.
#pragma once

#include "entrain/job/control.h"

namespace entrain::job {

// Called from a signal handler: training ends after the step under way, writes a checkpoint if it has a
// folder for one, and reports.
void request_stop();
bool stop_was_requested();

// Rank 0 decides one call ahead, so that nobody waits for its order. One per worker.
class StepControl {
 public:
  // `stream`: of its orders (control.h); each that lives at the same time has its own.
  explicit StepControl(Context& context, int stream = 0) : context_(context), stream_(stream) {}

  // Called by every worker at the same points (the start of a step, or of every period): what comes now, kGo,
  // kStop or kSwitch. `change`, `stop`: rank 0 wants that; the next call returns it. A requested stop counts,
  // too. `last`: there is no next call, so nobody would take its order.
  Order::Kind next(bool change, bool stop = false, bool last = false);

  // Called by every worker when there are no more calls though nobody knew that the last one was: takes the
  // order that rank 0 has given for the next. Throws PeerError.
  void end();

 private:
  Context& context_;
  int stream_;
  bool started_ = false;                    // the first call always returns kGo
  Order::Kind decided_ = Order::Kind::kGo;  // by rank 0, for the next call
};

}  // namespace entrain::job
