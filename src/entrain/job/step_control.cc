#include "entrain/job/step_control.h"

#include <atomic>
#include <utility>

namespace entrain::job {
namespace {

std::atomic<bool> stop_requested{false};

}  // namespace

void request_stop() { stop_requested = true; }
bool stop_was_requested() { return stop_requested; }

Order::Kind StepControl::next(bool change, bool stop, bool last) {
  using Kind = Order::Kind;
  if (context_.rank() != 0) {
    if (!std::exchange(started_, true)) return Kind::kGo;
    return take_order(context_, stream_).kind;
  }
  const Kind now = decided_;
  if (now == Kind::kStop || last) return now;
  decided_ = stop_requested || stop ? Kind::kStop : change ? Kind::kSwitch : Kind::kGo;
  post_order(context_, To::kWorkers, {decided_}, stream_);
  return now;
}

void StepControl::end() {
  if (context_.rank() != 0 && std::exchange(started_, false)) take_order(context_, stream_);
}

}  // namespace entrain::job
