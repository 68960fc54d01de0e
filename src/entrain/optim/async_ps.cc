// The asynchronous parameter server, with a bound on the staleness or without.
//
//   each step          x <- base(x)
//   every period       u = x - p;  c += u / l;  x = p = c       p: x as it was pulled last, l: the workers
//   then               wait while more than s exchanges ahead of the slowest; c is that of the wait's end
//
// u travels to the centre c, and c back: 2 B bytes an exchange of one worker. With period 1, s = 0 and a base
// that is linear in the gradient (sgd, momentum, nesterov) this is synchronous SGD with the mean gradient:
// all begin a step at the same c and the mean of their u is the u of the mean (up to the rounding of sums in
// the order of arrival). l is fixed: when workers are lost, the rest go on in smaller steps.
#include "entrain/optim/async_rules.h"
#include "entrain/optim/centre.h"
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

CentreRule mean_centre(size_t workers) {
  return [share = 1 / static_cast<double>(workers)](torch::Tensor& c, const torch::Tensor& u) {
    c.add_(u, share);
    return torch::Tensor();  // c, when the worker may go on
  };
}

class AsyncPs : public DistributedOptimizer {
 public:
  AsyncPs(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        pulled_(worker_.x.detach().clone()),
        link_(worker_, mean_centre(worker_.ranks.size()), settings.staleness) {}

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

  const strategy::Optimizer settings_;
  Worker worker_;
  int64_t step_ = 0;
  torch::Tensor pulled_;
  bool pushed_ = true;  // nothing has happened since the last exchange
  CentreLink link_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_async_ps(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<AsyncPs>(settings, std::move(worker));
}

}  // namespace entrain::optim
