// Mail between cells that are threads: a slot for each parcel, that its sender fills and its receiver
// empties.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/pipeline/run/mail.h"

namespace entrain::pipeline {

// Shared by all workers; thread-safe. No worker takes a lock that another may hold: with one shelf for all,
// each parcel woke every waiter, and eight cells lost more time to that than to their bubble.
//
// Whoever waits looks for `patience` before sleeping (patience.h).
class ThreadMail : public Mail {
 public:
  ThreadMail(size_t edges, int micro_batches, Seconds patience);

  void send(const Parcel& parcel, torch::Tensor value) override;
  void expect(const Parcel&) override {}
  torch::Tensor receive(const Parcel& parcel, Waited& waited) override;

  // A worker has failed: everyone who waits, now or later, gets its error. The first counts.
  void fail(std::exception_ptr error);
  // Forgets parcels and failure. Requires: no worker runs.
  void clear();

 private:
  enum State : uint32_t { kEmpty, kFull, kFailed };
  struct alignas(64) Slot {  // a cache line of its own: its receiver looks at it all the time
    std::atomic<uint32_t> state = kEmpty;
    torch::Tensor value;  // the sender's until kFull, then the receiver's
  };

  Slot& slot(const Parcel& parcel);

  const int micro_batches_;
  const Seconds patience_;
  std::vector<Slot> slots_;  // by edge, micro-batch, direction
  std::mutex mutex_;
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace entrain::pipeline
