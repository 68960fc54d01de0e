#include "entrain/optim/push_pull.h"

#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

CentreRule adding(double share) {
  return [share](torch::Tensor& c, const torch::Tensor& u) {
    c.add_(u, share);
    return torch::Tensor();  // c, when the worker may go on
  };
}

class PushPull : public DistributedOptimizer {
 public:
  PushPull(int64_t period, RuleWorker worker, double share, int64_t staleness)
      : period_(period),
        worker_(std::move(worker)),
        pulled_(worker_.x.detach().clone()),
        link_(worker_, adding(share), staleness) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    worker_.own_update();
    pushed_ = false;
    if (++step_ % period_ == 0) exchange();
  }

  void finish() override {
    const torch::NoGradGuard no_grad;
    if (!pushed_) exchange();
  }

  void leave() override { link_.leave(); }

  torch::Tensor test_parameters() override { return link_.value(); }

  // Without the clocks: all begin at 0 again, and those who were ahead by less than the bound stay so.
  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "pulled", pulled_);
    if (Centre* centre = link_.own()) put(state, "centre", centre->value());
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    pulled_ = tensor_in(state, "pulled", worker_.x);
    if (Centre* centre = link_.own()) centre->set(tensor_in(state, "centre"));
  }

 private:
  void exchange() {
    const Stopwatch stopwatch(journal_.communication_s);
    pulled_ = link_.exchange(worker_.x - pulled_);
    worker_.x.copy_(pulled_);
    pushed_ = true;
    ++journal_.exchanges;
    if (Centre* centre = link_.own()) journal_.greatest_lead = centre->greatest_lead();
  }

  const int64_t period_;
  RuleWorker worker_;
  int64_t step_ = 0;
  torch::Tensor pulled_;
  bool pushed_ = true;  // nothing has happened since the last exchange
  CentreLink link_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_push_pull(int64_t period, RuleWorker worker, double share,
                                                     int64_t staleness) {
  return std::make_unique<PushPull>(period, std::move(worker), share, staleness);
}

}  // namespace entrain::optim
