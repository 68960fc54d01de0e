// Synchronous elastic averaging (Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD, 2015).
//
//   each step       x_i <- base(x_i)
//   every period    d_i = a (x_i - c);   x_i -= d_i;   c += sum_i d_i
//
// Everyone holds c, and sum_i d_i = a (sum_i x_i - l c): one all-reduce of x, 2 (l - 1) B bytes in all. c
// starts at the mean of the workers. a = pull; stable while l a < 2.
// EAMSGD is the same rule around a Nesterov base: the name forces that base (make_base), and no more.
#include "entrain/optim/centred.h"

namespace entrain::optim {
namespace {

class Easgd : public Centred {
 public:
  Easgd(const strategy::Easgd& rule, RuleWorker worker)
      : Centred(rule.period, std::move(worker)), rule_(rule) {}

 private:
  void exchange() override {
    torch::Tensor sum = worker_.x.detach().clone();
    crew_.all_reduce(sum);
    worker_.x.lerp_(centre_, rule_.pull);
    centre_.add_(sum.sub_(centre_, crew_.count()), rule_.pull);
  }

  const strategy::Easgd rule_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_easgd(const strategy::Easgd& rule, RuleWorker worker) {
  return std::make_unique<Easgd>(rule, std::move(worker));
}

}  // namespace entrain::optim
