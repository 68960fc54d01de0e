// Mail between cells that are threads: a shelf that all of them reach.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "entrain/pipeline/mail.h"

namespace entrain::pipeline {

// Shared by all workers; thread-safe.
class ThreadMail : public Mail {
 public:
  void send(const Parcel& parcel, torch::Tensor value) override;
  void expect(const Parcel&) override {}
  torch::Tensor receive(const Parcel& parcel, Waited& waited) override;

  // A worker has failed: everyone who waits, now or later, gets its error. The first counts.
  void fail(std::exception_ptr error);
  // Forgets parcels and failure. Requires: no worker runs.
  void clear();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Parcel, torch::Tensor> shelf_;  // guarded by mutex_
  std::exception_ptr error_;               // guarded by mutex_
};

}  // namespace entrain::pipeline
