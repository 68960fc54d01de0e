#include "entrain/trials/advised.h"

namespace entrain::trials {

using Kind = job::Order::Kind;

Kind Advised::before_step(const Change& change, bool stop, bool last) {
  const Kind order = control_.next(wanted_ && !announced_, stop, last);
  if (order == Kind::kStop) return order;
  changed_ = order == Kind::kSwitch;
  if (changed_) {
    change(wanted_.value_or(strategy::Strategy{}));
    wanted_.reset();
  }
  announced_ = wanted_.has_value();
  return order;
}

void Advised::after_step(int64_t step, double seconds, const std::string& strategy,
                         const std::function<graph::Graph()>& profile) {
  if (advisor_ == nullptr || rank_ != 0 || wanted_) return;
  wanted_ = advisor_->observe({step, seconds, strategy, changed_}, profile);
}

}  // namespace entrain::trials
