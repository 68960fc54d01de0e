#include "entrain/trials/advised.h"

namespace entrain::trials {

using Kind = job::Order::Kind;

Kind Advised::before_step(parallel::Distributed& handle, bool stop, bool last) {
  const Kind order = control_.next(wanted_ && !announced_, stop, last);
  if (order == Kind::kStop) return order;
  changed_ = order == Kind::kSwitch;
  if (changed_) {
    handle.switch_strategy(wanted_.value_or(strategy::Strategy{}));
    wanted_.reset();
  }
  announced_ = wanted_.has_value();
  return order;
}

void Advised::after_step(const parallel::Distributed& handle, int64_t step, double seconds) {
  if (advisor_ == nullptr || rank_ != 0 || wanted_) return;
  wanted_ = advisor_->observe({step, seconds, handle.strategy().id, changed_},
                              [&] { return handle.profiled_graph(); });
}

}  // namespace entrain::trials
