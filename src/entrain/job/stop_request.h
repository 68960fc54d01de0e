// A job ends early, in order, when any of its ranks is told to: schedulers evict single hosts, so a signal
// may reach one rank only.
//
//   signal at rank k ─▶ rank k's thread ─▶ rank 0 ─▶ its next order is kStop (step_control.h) ─▶ all workers
//
// Nobody's step waits for it, and ranks that only serve tell rank 0 in the same way.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "entrain/job/context.h"

namespace entrain::job {

// One per rank, for as long as the job can be stopped: Context::stop. All ranks make one.
class StopRequest {
 public:
  // `told`: the signal that has told this rank to end, 0: none so far. Called on a thread, several times per
  // second.
  StopRequest(const Context& context, std::function<int()> told);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The signal that has told this rank to end, at rank 0: the first that has told any rank. 0: none.
  int signal() const;

 private:
  struct Heard;
  void watch();

  const std::shared_ptr<transport::Transport> transport_;
  const std::function<int()> told_;
  const std::shared_ptr<Heard> heard_;  // rank 0's, of the others

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace entrain::job
