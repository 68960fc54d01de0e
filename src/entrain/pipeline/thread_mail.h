// Mail between cells that are threads: a shelf that all of them reach.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "entrain/base/clock.h"
#include "entrain/pipeline/mail.h"

namespace entrain::pipeline {

// Shared by all workers; thread-safe.
//
// A pass of a small cell takes a millisecond and waking a thread 50 us or more, so whoever waits looks for
// `patience` first and sleeps only then. Looking keeps a core busy: without a core a worker, 0 is right.
class ThreadMail : public Mail {
 public:
  explicit ThreadMail(Seconds patience) : patience_(patience) {}

  void send(const Parcel& parcel, torch::Tensor value) override;
  void expect(const Parcel&) override {}
  torch::Tensor receive(const Parcel& parcel, Waited& waited) override;

  // A worker has failed: everyone who waits, now or later, gets its error. The first counts.
  void fail(std::exception_ptr error);
  // Forgets parcels and failure. Requires: no worker runs.
  void clear();

 private:
  bool take(const Parcel& parcel, torch::Tensor& value);  // Requires: mutex_ held

  const Seconds patience_;
  std::atomic<uint64_t> news_ = 0;  // counts what was sent, and failures
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Parcel, torch::Tensor> shelf_;  // guarded by mutex_
  std::exception_ptr error_;               // guarded by mutex_
};

}  // namespace entrain::pipeline
