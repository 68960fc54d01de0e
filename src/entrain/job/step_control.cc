#include "entrain/job/step_control.h"

#include <utility>

namespace entrain::job {

Order::Kind StepControl::next(bool change, bool stop, bool last) {
  using Kind = Order::Kind;
  if (context_.rank() != 0) {
    if (!std::exchange(started_, true)) return Kind::kGo;
    return take_order(context_, stream_).kind;
  }
  const Kind now = decided_;
  if (now == Kind::kStop || last) return now;
  decided_ = stop || context_.stop_signal() != 0 ? Kind::kStop : change ? Kind::kSwitch : Kind::kGo;
  post_order(context_, To::kWorkers, {decided_}, stream_);
  return now;
}

void StepControl::end() {
  if (context_.rank() != 0 && std::exchange(started_, false)) take_order(context_, stream_);
}

bool StepControl::all_end() {
  const bool first_call = !std::exchange(started_, true);
  if (context_.rank() == 0) {
    if (context_.stop_signal() == 0) return false;
    if (std::exchange(decided_, Order::Kind::kStop) != Order::Kind::kStop) {
      post_order(context_, To::kWorkers, {decided_}, stream_);
    }
    return true;
  }
  if (first_call) {
    told_ = std::make_shared<std::atomic<bool>>(false);
    context_.transport->post_recv(0, tag_of_orders(stream_), {}, {Deadline::never(), "an order to stop"},
                                  [told = told_](const transport::Result& result) {
                                    if (!result.error) *told = true;  // else rank 0 has ended or is lost
                                  });
  }
  return *told_;
}

}  // namespace entrain::job
