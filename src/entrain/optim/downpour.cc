// DOWNPOUR (Dean et al.: Large Scale Distributed Deep Networks, 2012), in its form that pushes what the base
// optimizer did.
//
//   each step          x <- base(x)
//   every period       u = x - p;  c += u;  x = p = c           p: x as it was pulled last
//
// u travels to the centre c, and c back: 2 B bytes an exchange of one worker. The worker waits for its own
// answer, and for nobody else.
#include "entrain/optim/async_rules.h"
#include "entrain/optim/centre.h"
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

CentreRule downpour_centre() {
  return [](torch::Tensor& c, const torch::Tensor& u) { return c.add_(u).clone(); };
}

class Downpour : public DistributedOptimizer {
 public:
  Downpour(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        pulled_(worker_.x.detach().clone()),
        link_(worker_, downpour_centre()) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    worker_.base.step();
    pushed_ = false;
    if (++step_ % settings_.period == 0) exchange();
  }

  void finish() override {
    const torch::NoGradGuard no_grad;
    if (!pushed_) exchange();
  }

  torch::Tensor test_parameters() override { return link_.value(); }

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
  }

  const strategy::Optimizer settings_;
  Worker worker_;
  int64_t step_ = 0;
  torch::Tensor pulled_;
  bool pushed_ = true;  // nothing has happened since the last exchange
  CentreLink link_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_downpour(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<Downpour>(settings, std::move(worker));
}

}  // namespace entrain::optim
