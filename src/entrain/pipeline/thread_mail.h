// Mail between cells that are threads: a shelf that all of them reach.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "entrain/pipeline/mail.h"

namespace entrain::pipeline {

// Shared by all workers; thread-safe. A value that is not on its receiver's device is moved there when it is
// received.
class ThreadMail : public Mail {
 public:
  // `spin`: who waits looks again and again for a moment before it sleeps. Being woken costs about a tenth of
  // a millisecond, which is much of a short pass; but who spins needs a core of its own.
  explicit ThreadMail(bool spin = false) : spin_(spin) {}

  void send(const Parcel& parcel, torch::Tensor value) override;
  void expect(const Parcel&) override {}
  torch::Tensor receive(const Parcel& parcel, Waited& waited) override;

  // A worker has failed: everyone who waits, now or later, gets its error. The first counts.
  void fail(std::exception_ptr error);
  // Forgets parcels and failure. Requires: no worker runs.
  void clear();

 private:
  bool take(const Parcel& parcel, torch::Tensor& value);

  const bool spin_;
  std::atomic<uint64_t> changes_{0};  // sends and failures so far
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Parcel, torch::Tensor> shelf_;  // guarded by mutex_
  std::exception_ptr error_;               // guarded by mutex_
  int asleep_ = 0;                         // guarded by mutex_
};

}  // namespace entrain::pipeline
