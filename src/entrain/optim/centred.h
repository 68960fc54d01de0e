// What rules share that keep a centre at every worker and meet every period: EASGD, BMUF, Parle. Such a rule
// is the formula of its exchange, and what it does besides the base's step.
#pragma once

#include "entrain/optim/rules.h"

namespace entrain::optim {

class Centred : public DistributedOptimizer {
 public:
  Centred(int64_t period, RuleWorker worker);

  void step(double loss) final;
  void finish() final {}  // nothing is ever under way between steps
  torch::Tensor test_parameters() final;
  State state() const override;
  void restore(const State& state) override;  // the centre stays undefined where it was

 protected:
  // The centre has just been set, to the mean of the workers.
  virtual void started() {}
  virtual void own_step() { worker_.own_update(); }
  // After the own step that ends a period. Collective; leaves the same bits in centre_ at all.
  virtual void exchange() = 0;

  const int64_t period_;
  RuleWorker worker_;
  Crew crew_;
  int64_t step_ = 0;      // that have been made before the one under way
  torch::Tensor centre_;  // undefined before the first step; the same bits at all workers

 private:
  void ensure_centre();
};

}  // namespace entrain::optim
