// The asynchronous parameter server: what it equals, how far apart its workers get, where they end, and who
// is not waited for.
#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/optim/base.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/optim/problems.h"
#include "entrain/strategy/rule_settings.h"
#include "support/ranks.h"

namespace entrain::optim {
namespace {

using strategy::Optimizer;

constexpr int kWorkers = 4;

Optimizer settings_of(int64_t staleness, double rate = 0.05) {
  Optimizer o;
  o.rule = "async-ps";
  o.period = 1;
  o.staleness = staleness;
  o.learning_rate = rate;
  return o;
}

// Every worker has its own rows, all start at the same x.
Problem shards() {
  Problem problem = least_squares(kWorkers, 12, 6, 5).problem();
  const torch::Tensor start = problem.start(0);
  problem.start = [start](int) { return start.clone(); };
  return problem;
}

// One process that steps by the mean of the workers' gradients.
std::vector<torch::Tensor> synchronous(const Problem& problem, const Optimizer& settings, int64_t steps) {
  torch::Tensor x = problem.start(0);
  const auto base = make_base(settings, {x}, 0, 1);
  std::vector<torch::Tensor> positions = {x.clone()};
  for (int64_t k = 0; k < steps; ++k) {
    torch::Tensor mean = torch::zeros_like(x);
    for (int i = 0; i < kWorkers; ++i) mean += problem.gradient(x, i, k) / kWorkers;
    x.mutable_grad() = mean;
    base->step();
    positions.push_back(x.clone());
  }
  return positions;
}

TEST(AsyncPs, WithStalenessZeroIsSynchronousTraining) {
  const Problem problem = shards();
  for (const char* base : {"sgd", "momentum", "nesterov"}) {
    Optimizer settings = settings_of(0);
    settings.base = base;
    settings.weight_decay = 1e-3;
    const auto expected = synchronous(problem, settings, 60);
    const Trace trace = run_rule_on(problem, settings, kWorkers, 60);
    for (size_t k = 0; k < expected.size(); ++k) {
      for (const auto& x : trace.positions[k]) {
        ASSERT_TRUE(torch::allclose(x, expected[k], 0, 1e-12)) << base << ", step " << k;
      }
    }
    EXPECT_EQ(trace.journals[0].greatest_lead, 0);
  }
}

// A whole period is one exchange: then it is Local SGD.
TEST(AsyncPs, WithAPeriodTheWorkersMeetAtItsEnd) {
  const Problem problem = shards();
  Optimizer settings = settings_of(0);
  settings.period = 5;
  const Trace got = run_rule_on(problem, settings, kWorkers, 40);
  settings.staleness = -1;
  settings.rule = "local-sgd";
  settings.overlap = false;
  const Trace expected = run_rule_on(problem, settings, kWorkers, 40);
  for (size_t k = 0; k < expected.positions.size(); ++k) {
    for (int i = 0; i < kWorkers; ++i) {
      ASSERT_TRUE(torch::allclose(got.positions[k][i], expected.positions[k][i], 0, 1e-12)) << "step " << k;
    }
  }
}

// One worker whose x, base and rule are made together with the other workers'.
struct Trainee {
  torch::Tensor x;
  std::unique_ptr<torch::optim::Optimizer> base;
  std::unique_ptr<DistributedOptimizer> rule;
  const Problem& problem;
  const int rank;
  int64_t k = 0;

  Trainee(const Problem& p, const Optimizer& settings, transport::Transport& t, double timeout_s = 30)
      : x(p.start(0)), base(make_base(settings, {x}, 0, 1)), problem(p), rank(t.rank()) {
    RuleWorker worker{.x = x, .base = *base, .transport = t, .ranks = {0, 1, 2, 3}, .groups = {}};
    worker.timeout_s = timeout_s;
    rule = make_rule(strategy::rule_of(settings), std::move(worker));
  }
  void step() {
    x.mutable_grad() = problem.gradient(x, rank, k++);
    rule->step(0);
  }
};

void train_together(const Problem& problem, const Optimizer& settings,
                    const std::function<void(int rank, transport::Transport& t, Trainee&)>& body,
                    double timeout_s = 30) {
  std::latch made(kWorkers);
  testing::run_ranks(kWorkers, [&](int rank, transport::Transport& t) {
    const torch::NoGradGuard no_grad;
    Trainee trainee(problem, settings, t, timeout_s);
    made.arrive_and_wait();
    body(rank, t, trainee);
  });
}

class Staleness : public ::testing::TestWithParam<int64_t> {
 protected:
  const Problem problem = shards();
  const Optimizer settings = settings_of(GetParam());
};

// Also with the slow one at the centre's rank, and with the fast one there.
TEST_P(Staleness, NobodyIsMoreThanSAheadOfASlowWorker) {
  for (const int slow : {0, 2}) {
    std::atomic<int64_t> begun[kWorkers] = {};  // exchanges; the centre has applied these at most
    int64_t lead = 0;
    train_together(problem, settings, [&](int rank, transport::Transport&, Trainee& trainee) {
      for (int64_t k = 1; k <= 25; ++k) {
        if (rank == slow) std::this_thread::sleep_for(std::chrono::milliseconds(4));
        ++begun[rank];
        trainee.step();
        for (const auto& other : begun) EXPECT_GE(other, k - GetParam()) << "rank " << rank;
      }
      if (rank == 0) lead = trainee.rule->journal().greatest_lead;
      trainee.rule->leave();
    });
    EXPECT_LE(lead, GetParam());
  }
}

TEST_P(Staleness, ALostWorkerBlocksNobody) {
  train_together(problem, settings, [&](int rank, transport::Transport& t, Trainee& trainee) {
    for (int k = 0; k < 200; ++k) {
      if (rank == 2 && k == 20) return t.close("killed");
      trainee.step();
    }
    EXPECT_EQ(trainee.rule->journal().exchanges, 200);
  });
}

// The centre's worker, too, may be done long before the others, and stays to hear of them.
TEST_P(Staleness, AWorkerThatHasFinishedBlocksNobody) {
  for (const int first : {0, 3}) {
    std::latch others(kWorkers - 1);
    train_together(problem, settings, [&](int rank, transport::Transport&, Trainee& trainee) {
      for (int k = 0; k < (rank == first ? 5 : 60); ++k) trainee.step();
      trainee.rule->finish();
      trainee.rule->leave();
      rank == first ? others.wait() : others.count_down();
      EXPECT_EQ(trainee.rule->test_parameters().sizes(), trainee.x.sizes());
    });
  }
}

TEST_P(Staleness, AWorkerThatHangsIsLeftOutAndComesBack) {
  for (const int hangs : {0, 1}) {
    std::latch others(kWorkers - 1);
    const auto body = [&](int rank, transport::Transport&, Trainee& trainee) {
      for (int k = 0; k < 40; ++k) {
        if (rank == hangs && k == 10) others.wait();  // until the others have made all their steps
        trainee.step();
      }
      trainee.rule->leave();
      if (rank != hangs) others.count_down();
      EXPECT_EQ(trainee.rule->journal().exchanges, 40);
    };
    train_together(problem, settings, body, /*timeout_s=*/3);
  }
}

TEST_P(Staleness, WithoutTheCentreAWorkerEnds) {
  train_together(problem, settings, [&](int rank, transport::Transport& t, Trainee& trainee) {
    if (rank > 0) {
      EXPECT_THROW(for (;;) trainee.step(), PeerError);
    } else {
      for (int k = 0; k < 10; ++k) trainee.step();
      t.close("out of disk");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Each, Staleness, ::testing::Values(0, 1, 4));

// The centre when all have made their steps.
torch::Tensor train_to_the_end(const Problem& problem, const Optimizer& settings, int64_t steps) {
  torch::Tensor result;
  std::latch ended(kWorkers);
  train_together(problem, settings, [&](int rank, transport::Transport&, Trainee& trainee) {
    for (int64_t k = 0; k < steps; ++k) trainee.step();
    trainee.rule->finish();
    trainee.rule->leave();
    ended.arrive_and_wait();
    if (rank == 0) result = trainee.rule->test_parameters();
  });
  return result;
}

// Where one x fits everybody's rows, every interleaving leads to it.
TEST(AsyncPs, FindsTheCommonOptimumUnderAnyStaleness) {
  LeastSquares data = least_squares(kWorkers, 40, 6, 5);
  const torch::Tensor solution = torch::arange(6, torch::kFloat64);
  for (int i = 0; i < kWorkers; ++i) data.b[i] = data.a[i].mv(solution);
  const Problem problem = data.problem();
  const double start = problem.objective(problem.start(0));
  const double reference = problem.objective(synchronous(problem, settings_of(0), 600).back()) / start;
  for (const int64_t staleness : {0, 1, 4, -1}) {
    const double left = problem.objective(train_to_the_end(problem, settings_of(staleness), 600)) / start;
    fmt::print("staleness {:2}: {:.1e} of the loss left, synchronous {:.1e}\n", staleness, left, reference);
    EXPECT_LT(left, 1e-6) << "staleness " << staleness;
  }
}

// Where every worker has an optimum of its own, a bound keeps any of them from having its way: the loss comes
// within 2% of that of synchronous training. (Without a bound, whoever steps last alone decides.)
TEST(AsyncPs, ABoundKeepsWorkersWithDataOfTheirOwnTogether) {
  const Problem problem = shards();
  const double reference = problem.objective(synchronous(problem, settings_of(0), 600).back());
  for (const int64_t staleness : {0, 1, 4}) {
    const double loss = problem.objective(train_to_the_end(problem, settings_of(staleness), 600));
    fmt::print("staleness {:2}: loss {:.6f}, synchronous {:.6f}\n", staleness, loss, reference);
    EXPECT_LT(loss, 1.02 * reference) << "staleness " << staleness;
  }
}

// Noise keeps the loss at a level that the rate decides: staleness must not raise it by more than a tenth.
TEST(AsyncPs, SettlesAtTheLossOfSynchronousTrainingUnderNoise) {
  const Problem problem = noisy_quadratic(200, 10, 1, 3);
  const auto settled = [&](const Optimizer& settings) {
    const Trace trace = run_rule_on(problem, settings, kWorkers, 2000);
    double sum = 0;
    int records = 0;
    for (size_t k = 1000; k < trace.objective.size(); ++k, ++records)
      sum += problem.objective(trace.positions[k][0]);
    return sum / records;
  };
  double reference = 0;
  int records = 0;
  for (const auto& x : synchronous(problem, settings_of(0, 0.02), 2000)) {
    if (records++ >= 1000) reference += problem.objective(x);
  }
  reference /= records - 1000;
  for (const int64_t staleness : {0, 1, 4, -1}) {
    const double loss = settled(settings_of(staleness, 0.02));
    fmt::print("staleness {:2}: {:.4f}, synchronous {:.4f}\n", staleness, loss, reference);
    EXPECT_LT(loss, 1.1 * reference) << "staleness " << staleness;
  }
}

TEST(AsyncPs, ResumesWhereItWas) {
  const Problem problem = shards();
  Optimizer settings = settings_of(0);
  const auto expected = synchronous(problem, settings, 40);
  std::vector<State> states(kWorkers);
  std::vector<torch::Tensor> positions(kWorkers);
  train_together(problem, settings, [&](int rank, transport::Transport&, Trainee& trainee) {
    for (int k = 0; k < 15; ++k) trainee.step();
    trainee.rule->finish();
    states[rank] = trainee.rule->state();
    positions[rank] = trainee.x.clone();
  });
  std::latch restored(kWorkers);
  train_together(problem, settings, [&](int rank, transport::Transport&, Trainee& trainee) {
    trainee.x.copy_(positions[rank]);
    trainee.rule->restore(states[rank]);
    restored.arrive_and_wait();
    for (int k = 15; k < 40; ++k) trainee.step();
    EXPECT_TRUE(torch::allclose(trainee.x, expected.back(), 0, 1e-12));
  });
}

}  // namespace
}  // namespace entrain::optim
