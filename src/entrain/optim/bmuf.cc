// Blockwise model-update filtering (Chen, Huo: Scalable training of deep learning machines by incremental
// block training with intra-block parallel optimization and blockwise model-update filtering, 2016).
//
//   each step       x_i <- base(x_i)
//   every period    G = sum_i x_i / l - x_g;   D <- b G + m D;   x_g += D;   x_i <- x_g
//
// The classical form: workers restart from x_g itself, not from the Nesterov point x_g + m D. x_g starts at
// the mean of the workers, D at 0. b = block_rate, m = block_momentum or 1 - 1/l.
#include "entrain/optim/centred.h"

namespace entrain::optim {
namespace {

class Bmuf : public Centred {
 public:
  Bmuf(const strategy::Bmuf& rule, RuleWorker worker)
      : Centred(rule.period, std::move(worker)), rule_(rule) {}

  State state() const override {
    State state = Centred::state();
    put(state, "block_momentum", delta_);
    return state;
  }

  void restore(const State& state) override {
    Centred::restore(state);
    if (centre_.defined()) delta_ = tensor_in(state, "block_momentum", worker_.x);
  }

 private:
  void started() override { delta_ = torch::zeros_like(centre_); }

  void exchange() override {
    const double momentum = rule_.block_momentum.value_or(1 - 1.0 / crew_.count());
    const torch::Tensor gain = mean_over(crew_, worker_.x).sub_(centre_);
    delta_.mul_(momentum).add_(gain, rule_.block_rate);
    centre_.add_(delta_);
    worker_.x.copy_(centre_);
  }

  const strategy::Bmuf rule_;
  torch::Tensor delta_;  // D; there when the centre is, the same bits at all workers
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_bmuf(const strategy::Bmuf& rule, RuleWorker worker) {
  return std::make_unique<Bmuf>(rule, std::move(worker));
}

}  // namespace entrain::optim
