// What all workers do at a step: go on, stop (a signal reaches the ranks at different moments, or only one of
// them), or switch the strategy. Rank 0 decides.
#pragma once

#include <atomic>
#include <memory>

#include "entrain/job/control.h"

namespace entrain::job {

// Rank 0 decides one call ahead, so that nobody waits for its order. One per worker.
class StepControl {
 public:
  // `stream`: of its orders (control.h); each that lives at the same time has its own.
  explicit StepControl(Context& context, int stream = 0) : context_(context), stream_(stream) {}

  // Called by every worker at the same points (the start of a step, or of every period): what comes now, kGo,
  // kStop or kSwitch. `change`, `stop`: rank 0 wants that; the next call returns it. A rank that was told
  // to end (stop_request.h) counts, too. `last`: there is no next call, so nobody would take its order.
  Order::Kind next(bool change, bool stop = false, bool last = false);

  // Called by every worker when there are no more calls though nobody knew that the last one was: takes the
  // order that rank 0 has given for the next. Throws PeerError.
  void end();

  // For workers whose steps are their own (asynchronous rules), at any moment: whether all end now. Rank 0
  // tells the others once; nobody waits. Requires: next() is not called.
  bool all_end();

 private:
  Context& context_;
  int stream_;
  bool started_ = false;                     // the first call always returns kGo
  Order::Kind decided_ = Order::Kind::kGo;   // by rank 0, for the next call
  std::shared_ptr<std::atomic<bool>> told_;  // of all_end(): set on the transport's thread
};

}  // namespace entrain::job
