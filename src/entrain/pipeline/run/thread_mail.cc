#include "entrain/pipeline/run/thread_mail.h"

#include "entrain/base/error.h"
#include "entrain/pipeline/run/patience.h"

namespace entrain::pipeline {

ThreadMail::ThreadMail(size_t edges, int micro_batches, Seconds patience)
    : micro_batches_(micro_batches), patience_(patience), slots_(edges * micro_batches * 2) {}

ThreadMail::Slot& ThreadMail::slot(const Parcel& parcel) {
  return slots_.at((parcel.edge * micro_batches_ + parcel.micro_batch) * 2 + (parcel.backward ? 1 : 0));
}

void ThreadMail::send(const Parcel& parcel, torch::Tensor value) {
  Slot& to = slot(parcel);
  uint32_t state = to.state;
  if (state == kFull) entrain::fail("edge {}, micro-batch {}: sent twice", parcel.edge, parcel.micro_batch);
  if (state == kFailed) return;
  to.value = std::move(value);
  // It may have failed meanwhile: then it stays so, and nobody looks at the value.
  if (to.state.compare_exchange_strong(state, kFull)) to.state.notify_one();
}

torch::Tensor ThreadMail::receive(const Parcel& parcel, Waited& waited) {
  const auto start = Clock::now();
  Slot& from = slot(parcel);
  look_for(patience_, [&] { return from.state != kEmpty; });
  from.state.wait(kEmpty);
  waited.for_sender += seconds_since(start);
  uint32_t state = from.state;
  if (state == kFailed) {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(error_);
  }
  torch::Tensor value = std::move(from.value);
  from.state.compare_exchange_strong(state, kEmpty);
  return value;
}

void ThreadMail::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  for (Slot& each : slots_) {
    each.state = kFailed;
    each.state.notify_all();
  }
}

void ThreadMail::clear() {
  for (Slot& each : slots_) {
    each.value.reset();
    each.state = kEmpty;
  }
  error_ = nullptr;
}

}  // namespace entrain::pipeline
