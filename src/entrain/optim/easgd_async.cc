// Asynchronous elastic averaging (Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD, 2015).
//
//   each step          x <- base(x)
//   every period       d = a (x - c);  x -= d;  c += d             each worker when its own period is over
//
// x travels to the centre, which computes d, and d back: both sides use the same bits. 2 B bytes per exchange
// of one worker. a = pull. Around a Nesterov base this is asynchronous EAMSGD.
#include "entrain/optim/async_rules.h"
#include "entrain/optim/centre.h"
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

CentreRule easgd_centre(double pull) {
  return [pull](torch::Tensor& c, const torch::Tensor& x) {
    torch::Tensor d = (x - c).mul_(pull);
    c.add_(d);
    return d;
  };
}

class EasgdAsync : public DistributedOptimizer {
 public:
  EasgdAsync(const strategy::EasgdAsync& rule, RuleWorker worker)
      : rule_(rule), worker_(std::move(worker)), link_(worker_, easgd_centre(rule.pull)) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    worker_.own_update();
    if (++step_ % rule_.period != 0) return;
    const Stopwatch stopwatch(journal_.communication_s);
    worker_.x.sub_(link_.exchange(worker_.x));
    ++journal_.exchanges;
  }

  void finish() override {}

  torch::Tensor test_parameters() override { return link_.value(); }

  State state() const override {
    State state;
    put(state, "step", step_);
    if (Centre* centre = link_.own()) put(state, "centre", centre->value());
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    if (Centre* centre = link_.own()) centre->set(tensor_in(state, "centre"));
  }

 private:
  const strategy::EasgdAsync rule_;
  RuleWorker worker_;
  int64_t step_ = 0;
  CentreLink link_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_easgd_async(const strategy::EasgdAsync& rule, RuleWorker worker) {
  return std::make_unique<EasgdAsync>(rule, std::move(worker));
}

}  // namespace entrain::optim
