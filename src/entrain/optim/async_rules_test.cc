// Asynchronous rules: the mathematics with the interleaving forced, and what happens when workers are lost,
// silent or slow.
#include "entrain/optim/distributed_optimizer.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <latch>
#include <numeric>
#include <random>

#include "entrain/base/error.h"
#include "entrain/optim/coordinator.h"
#include "entrain/optim/hogwild.h"
#include "entrain/strategy/rule_settings.h"
#include "support/ranks.h"

namespace entrain::optim {
namespace {

using Vector = std::vector<double>;

// Worker i sees f_i(x) = sum_j a_j (x_j - b_ij)^2 / 2.
struct Quadratic {
  Vector a;
  std::vector<Vector> b;

  static Quadratic random(int workers, int size, bool shared_optimum) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(0.5, 2);
    Quadratic q{Vector(size), std::vector<Vector>(workers, Vector(size))};
    for (double& value : q.a) value = uniform(random);
    for (Vector& each : q.b) {
      for (double& value : each) value = uniform(random);
      if (shared_optimum) each = q.b[0];
    }
    return q;
  }
  Vector gradient(int worker, const Vector& x) const {
    Vector g(x.size());
    for (size_t j = 0; j < x.size(); ++j) g[j] = a[j] * (x[j] - b[worker][j]);
    return g;
  }
  double loss(int worker, const Vector& x) const {
    double sum = 0;
    for (size_t j = 0; j < x.size(); ++j) sum += a[j] * (x[j] - b[worker][j]) * (x[j] - b[worker][j]) / 2;
    return sum;
  }
};

Vector values(const torch::Tensor& x) { return {x.data_ptr<double>(), x.data_ptr<double>() + x.numel()}; }

void axpy(Vector& y, double a, const Vector& x) {
  for (size_t j = 0; j < y.size(); ++j) y[j] += a * x[j];
}
// y += a (z - y)
void pull_to(Vector& y, double a, const Vector& z) {
  for (size_t j = 0; j < y.size(); ++j) y[j] += a * (z[j] - y[j]);
}

constexpr double kRate = 0.1;

// One worker: x, its base and its rule. Made together with the others, so that they train at the same
// time.
struct Trainee {
  const Quadratic& problem;
  int index;
  torch::Tensor x;
  torch::optim::SGD base;
  std::unique_ptr<DistributedOptimizer> rule;

  Trainee(const Quadratic& q, const strategy::Optimizer& settings, std::vector<int> ranks,
          transport::Transport& t, std::vector<std::vector<int>> groups = {})
      : problem(q),
        index(t.rank()),
        x(torch::zeros({static_cast<int64_t>(q.a.size())}, torch::kFloat64)),
        base({x}, torch::optim::SGDOptions(kRate)) {
    RuleWorker worker{.x = x, .base = base, .transport = t, .ranks = ranks, .groups = groups};
    worker.timeout_s = 30;
    rule = make_rule(strategy::rule_of(settings), std::move(worker));
  }
  void step() {
    const Vector before = values(x);
    const Vector g = problem.gradient(index, before);
    x.mutable_grad() = torch::tensor(g, torch::kFloat64);
    rule->step(problem.loss(index, before));
  }
  // Slow enough that the others get their share of a busy machine.
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      step();
    }
  }
};

// Lets worker schedule[0] act, then schedule[1], ...
class Turns {
 public:
  explicit Turns(std::vector<int> schedule) : schedule_(std::move(schedule)) {}
  void all_of(int worker, const std::function<void(size_t turn)>& act) {
    for (size_t turn = 0; turn < schedule_.size(); ++turn) {
      if (schedule_[turn] != worker) continue;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return now_ == turn; });
      lock.unlock();
      act(turn);
      lock.lock();
      ++now_;
      changed_.notify_all();
    }
  }

 private:
  const std::vector<int> schedule_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t now_ = 0;
};

// Everyone once, in a random order; again and again.
std::vector<int> shuffled_rounds(int workers, int rounds) {
  std::mt19937 random(3);
  std::vector<int> schedule, round(workers);
  std::iota(round.begin(), round.end(), 0);
  for (int i = 0; i < rounds; ++i) {
    std::shuffle(round.begin(), round.end(), random);
    schedule.insert(schedule.end(), round.begin(), round.end());
  }
  return schedule;
}

std::vector<int> first(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// x of whoever acted, after each turn.
std::vector<Vector> run_in_turns(const Quadratic& q, const strategy::Optimizer& settings,
                                 const std::vector<int>& schedule, Vector* tested = nullptr,
                                 std::atomic<uint64_t>* bytes = nullptr,
                                 const std::vector<std::vector<int>>& groups = {}) {
  const int workers = static_cast<int>(q.b.size());
  std::vector<Vector> trace(schedule.size());
  Turns turns(schedule);
  std::latch made(workers), done(workers);
  testing::run_ranks(workers, [&](int rank, transport::Transport& t) {
    Trainee trainee(q, settings, first(workers), t, groups);
    made.arrive_and_wait();
    turns.all_of(rank, [&](size_t turn) {
      trainee.step();
      trace[turn] = values(trainee.x);
      if (tested && turn + 1 == schedule.size()) *tested = values(trainee.rule->test_parameters());
    });
    done.arrive_and_wait();  // who leaves early is not counted any more
    if (bytes) *bytes += t.bytes_sent();
  });
  return trace;
}

void expect_near(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) ASSERT_NEAR(a[i][j], b[i][j], 1e-12) << "turn " << i;
  }
}

TEST(Downpour, EqualsTheFormula) {
  const Quadratic q = Quadratic::random(3, 5, false);
  strategy::Optimizer settings;
  settings.rule = "downpour";
  settings.period = 3;
  const auto schedule = shuffled_rounds(3, 40);
  Vector tested;
  const auto trace = run_in_turns(q, settings, schedule, &tested);

  std::vector<Vector> x(3, Vector(5)), pulled = x, expected;
  std::vector<int> steps(3);
  Vector c(5);
  for (const int w : schedule) {
    axpy(x[w], -kRate, q.gradient(w, x[w]));
    if (++steps[w] % 3 == 0) {
      axpy(c, 1, x[w]);
      axpy(c, -1, pulled[w]);
      x[w] = pulled[w] = c;
    }
    expected.push_back(x[w]);
  }
  expect_near(trace, expected);
  expect_near({tested}, {c});
}

TEST(EasgdAsync, EqualsTheFormula) {
  const Quadratic q = Quadratic::random(3, 5, false);
  strategy::Optimizer settings;
  settings.rule = "easgd-async";
  settings.period = 2;
  settings.pull = 0.3;
  const auto schedule = shuffled_rounds(3, 40);
  Vector tested;
  const auto trace = run_in_turns(q, settings, schedule, &tested);

  std::vector<Vector> x(3, Vector(5)), expected;
  std::vector<int> steps(3);
  Vector c(5);
  for (const int w : schedule) {
    axpy(x[w], -kRate, q.gradient(w, x[w]));
    if (++steps[w] % 2 == 0) {
      const Vector before = x[w];
      pull_to(x[w], 0.3, c);
      pull_to(c, 0.3, before);
    }
    expected.push_back(x[w]);
  }
  expect_near(trace, expected);
  expect_near({tested}, {c});
}

TEST(LsgdAsync, EqualsTheFormula) {
  const Quadratic q = Quadratic::random(3, 5, false);
  strategy::Optimizer settings;
  settings.rule = "lsgd-async";
  settings.period = 4;
  settings.loss_window = 2;
  settings.pull = 0.3;
  settings.proximal = 0.05;
  const auto schedule = shuffled_rounds(3, 60);
  const auto trace = run_in_turns(q, settings, schedule);

  // A worker's z, the z that has arrived and not been looked at, whether it is told to lead; its last losses.
  struct State {
    Vector x = Vector(5), z, arrived;
    bool leads = false;
    double losses[2] = {-1, -1};
    double mean() const { return losses[1] < 0 ? losses[0] : (losses[0] + losses[1]) / 2; }
  };
  std::vector<State> workers(3);
  std::vector<Vector> expected;
  int count = 0;
  for (const int w : schedule) {
    State& self = workers[w];
    self.losses[1] = std::exchange(self.losses[0], q.loss(w, self.x));
    const Vector g = q.gradient(w, self.x);
    if (!self.z.empty()) pull_to(self.x, 0.05, self.z);
    axpy(self.x, -kRate, g);
    if (++count == 4 * 3) {
      count = 0;
      std::min_element(workers.begin(), workers.end(), [](auto& a, auto& b) {
        return a.mean() < b.mean();
      })->leads = true;
    }
    if (std::exchange(self.leads, false)) {
      for (State& other : workers) other.arrived = self.x;
      self.arrived.clear();
      self.z = self.x;
    } else if (!self.arrived.empty()) {
      self.z = std::exchange(self.arrived, {});
      pull_to(self.x, 0.3, self.z);
    }
    expected.push_back(self.x);
  }
  expect_near(trace, expected);
}

// As above with two groups. The periods make a local and a global exchange due at the same report again and
// again; both happen, and a worker that finds both z new is pulled to both from the same x.
TEST(LsgdAsync, EqualsTheFormulaWithGroups) {
  const Quadratic q = Quadratic::random(4, 5, false);
  const std::vector<std::vector<int>> scopes = {{0, 1}, {2, 3}, {0, 1, 2, 3}};
  const double pulls[] = {0.3, 0.2};  // to the leader of the group, of all
  strategy::Optimizer settings;
  settings.rule = "lsgd-async";
  settings.period = 6;
  settings.local_period = 2;
  settings.loss_window = 1;
  settings.pull = pulls[0];
  settings.global_pull = pulls[1];
  const double proximal[] = {pulls[0] / 2, pulls[1] / 6};
  const auto schedule = shuffled_rounds(4, 60);
  const auto trace = run_in_turns(q, settings, schedule, nullptr, nullptr, {scopes[0], scopes[1]});

  struct State {
    Vector x = Vector(5), z[2], arrived[2];  // of the group's leader, of the leader of all
    bool leads[2] = {};
    double loss = INFINITY;
  };
  std::vector<State> workers(4);
  const auto pull_both = [](Vector& x, const Vector* z, const double* strength) {
    const Vector before = x;
    for (int i = 0; i < 2; ++i) {
      for (size_t j = 0; j < x.size() && !z[i].empty(); ++j) x[j] += strength[i] * (z[i][j] - before[j]);
    }
  };
  std::vector<Vector> expected;
  int counts[3] = {}, both_new = 0;
  for (const int w : schedule) {
    State& self = workers[w];
    self.loss = q.loss(w, self.x);
    const Vector g = q.gradient(w, self.x);
    pull_both(self.x, self.z, proximal);
    axpy(self.x, -kRate, g);
    for (int scope = 0; scope < 3; ++scope) {
      const auto& members = scopes[scope];
      if (std::find(members.begin(), members.end(), w) == members.end()) continue;
      if (++counts[scope] < static_cast<int>(members.size()) * (scope == 2 ? 6 : 2)) continue;
      counts[scope] = 0;
      const int leader = *std::min_element(members.begin(), members.end(),
                                           [&](int a, int b) { return workers[a].loss < workers[b].loss; });
      workers[leader].leads[scope == 2] = true;
    }
    for (int global = 0; global < 2; ++global) {
      if (!std::exchange(self.leads[global], false)) continue;
      for (const int other : scopes[global ? 2 : w / 2]) workers[other].arrived[global] = self.x;
      self.arrived[global].clear();
      self.z[global] = self.x;
    }
    both_new += !self.arrived[0].empty() && !self.arrived[1].empty();
    pull_both(self.x, self.arrived, pulls);
    for (int global = 0; global < 2; ++global) {
      if (!self.arrived[global].empty()) self.z[global] = std::exchange(self.arrived[global], {});
    }
    expected.push_back(self.x);
  }
  EXPECT_GT(both_new, 5) << "the case that this test is about";
  expect_near(trace, expected);
}

// Every worker a thread; they begin together.
void train_together(int workers, const Quadratic& q, const strategy::Optimizer& settings,
                    const std::function<void(int rank, transport::Transport& t, Trainee&)>& body,
                    const std::vector<std::vector<int>>& groups = {}) {
  std::latch made(workers);
  testing::run_ranks(workers, [&](int rank, transport::Transport& t) {
    Trainee trainee(q, settings, first(workers), t, groups);
    made.arrive_and_wait();
    body(rank, t, trainee);
  });
}

class Asynchronous : public ::testing::TestWithParam<const char*> {
 protected:
  strategy::Optimizer settings() const {
    strategy::Optimizer settings;
    settings.rule = GetParam();
    settings.period = 2;  // so short that four workers' DOWNPOUR does not overshoot
    return settings;
  }
};

TEST_P(Asynchronous, AWorkerThatVanishesIsDroppedAndTheOthersConverge) {
  const Quadratic q = Quadratic::random(4, 8, true);
  train_together(4, q, settings(), [&](int rank, transport::Transport& t, Trainee& trainee) {
    trainee.steps(30);
    if (rank == 2) return t.close("killed");
    trainee.steps(400);
    trainee.rule->finish();
    EXPECT_LT(q.loss(rank, values(trainee.x)), 1e-4) << "rank " << rank;
    EXPECT_GT(trainee.rule->journal().exchanges, 10);
    if (rank == 0) {
      EXPECT_LT(q.loss(0, values(trainee.rule->test_parameters())), 1e-4);
    }
  });
}

TEST_P(Asynchronous, NobodyWaitsForAWorkerThatNeverSteps) {
  const Quadratic q = Quadratic::random(3, 8, true);
  std::latch others(2);
  train_together(3, q, settings(), [&](int rank, transport::Transport&, Trainee& trainee) {
    if (rank == 2) return others.wait();  // as long as the others train
    trainee.steps(400);
    trainee.rule->finish();
    EXPECT_GT(trainee.rule->journal().exchanges, 10);
    if (rank == 0) {
      EXPECT_LT(q.loss(0, values(trainee.rule->test_parameters())), 1e-4);
    }
    others.count_down();
  });
}

TEST_P(Asynchronous, WithoutTheCentreAWorkerEnds) {
  const Quadratic q = Quadratic::random(3, 8, true);
  train_together(3, q, settings(), [&](int rank, transport::Transport& t, Trainee& trainee) {
    if (rank > 0) {
      EXPECT_THROW(trainee.steps(1'000'000'000), PeerError);
    } else {
      trainee.steps(30);
      t.close("out of disk");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Each, Asynchronous,
                         ::testing::Values("async-ps", "downpour", "easgd-async", "lsgd-async"),
                         [](const auto& rule) {
                           std::string name = rule.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(LsgdAsync, MovesAboutHalfOfTheBytesOfTheOthers) {
  const Quadratic q = Quadratic::random(4, 10'000, false);
  std::map<std::string, uint64_t> bytes;
  for (const char* rule : {"lsgd-async", "easgd-async", "downpour"}) {
    strategy::Optimizer settings;
    settings.rule = rule;
    settings.period = 4;
    std::atomic<uint64_t> total = 0;
    run_in_turns(q, settings, shuffled_rounds(4, 64), nullptr, &total);
    bytes[rule] = total;
  }
  EXPECT_LE(bytes["lsgd-async"], 0.55 * bytes["easgd-async"]);
  EXPECT_LE(bytes["lsgd-async"], 0.55 * bytes["downpour"]);
  EXPECT_GT(bytes["lsgd-async"], 0);
}

TEST(LsgdAsync, GroupsHaveLeadersAndSoHaveAll) {
  const Quadratic q = Quadratic::random(4, 8, true);
  strategy::Optimizer settings;
  settings.rule = "lsgd-async";
  settings.period = 16;
  settings.local_period = 4;
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 3}};
  const auto body = [&](int rank, transport::Transport&, Trainee& trainee) {
    trainee.steps(400);
    EXPECT_LT(q.loss(rank, values(trainee.x)), 1e-4);
    int of_all = 0;
    for (const auto& lead : trainee.rule->journal().leaders) {
      if (lead.local >= 0) {
        EXPECT_EQ(lead.local / 2, rank / 2);
      }
      of_all += lead.global >= 0;
    }
    EXPECT_GT(of_all, 0);
    EXPECT_GT(static_cast<int>(trainee.rule->journal().leaders.size()), of_all);
  };
  train_together(4, q, settings, body, groups);
}

TEST(Coordinator, NamesTheBestAfterAPeriodOfStepsEach) {
  Coordinator coordinator({{{0, 1, 2}, 2}}, "best", 0);
  const double losses[] = {3, 1, 2};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(coordinator.report(i % 3, losses[i % 3]).empty());
  const auto orders = coordinator.report(2, 2);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].leader, 1);
  EXPECT_EQ(orders[0].round, 1);
}

TEST(Coordinator, AGroupAndAllMayBeDueTogether) {
  Coordinator coordinator({{{0, 1}, 1}, {{2, 3}, 1}, {{0, 1, 2, 3}, 2}}, "best", 0);
  std::vector<std::vector<std::pair<int, int>>> seen;  // (scope, leader) by report
  for (int i = 0; i < 8; ++i) {
    seen.emplace_back();
    for (const auto& order : coordinator.report(i % 4, i % 4))
      seen.back().emplace_back(order.scope, order.leader);
  }
  const std::vector<std::vector<std::pair<int, int>>> expected = {{}, {{0, 0}}, {}, {{1, 2}},
                                                                  {}, {{0, 0}}, {}, {{2, 0}, {1, 2}}};
  EXPECT_EQ(seen, expected);
}

TEST(Coordinator, LeavesOutWhoIsSilentLostOrDiverged) {
  Coordinator coordinator({{{0, 1, 2}, 2}}, "best", 0);
  const auto next_leader = [&](std::vector<std::pair<int, double>> reports) {
    for (int i = 0; i < 100; ++i) {
      const auto [worker, loss] = reports[i % reports.size()];
      const auto orders = coordinator.report(worker, loss);
      if (!orders.empty()) return std::pair(orders[0].leader, i + 1);
    }
    return std::pair(-1, 100);
  };
  EXPECT_EQ(next_leader({{0, 3}, {1, 1}, {2, 2}}), std::pair(1, 6));
  EXPECT_EQ(next_leader({{0, 3}, {2, 2}}), std::pair(1, 6));  // 1 may just be slow
  EXPECT_EQ(next_leader({{0, 3}, {2, 2}}), std::pair(2, 4));  // it is silent, and not counted
  EXPECT_EQ(next_leader({{0, 3}, {2, 2}, {1, 1}}).first, 1);  // it is back
  coordinator.lost(1);
  EXPECT_EQ(next_leader({{0, 3}, {2, NAN}}), std::pair(0, 4));
  EXPECT_EQ(next_leader({{0, INFINITY}, {2, NAN}}).first, -1);
}

TEST(Hogwild, ThreadsShareTheParameters) {
  torch::manual_seed(1);
  const torch::Tensor target = torch::randn({4, 3});
  std::vector<torch::nn::Linear> models;
  std::vector<std::unique_ptr<torch::optim::SGD>> bases;
  std::vector<HogwildReplica> replicas;
  torch::Tensor x;
  for (int i = 0; i < 3; ++i) {
    models.emplace_back(4, 3);
    const auto parameters = models.back()->parameters();
    i == 0 ? void(x = flatten(parameters)) : share(x, parameters);
    bases.push_back(std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05)));
    replicas.push_back({parameters, bases.back().get(), [model = models.back(), target](int64_t) mutable {
                          const torch::Tensor input = torch::randn({16, 4});
                          return (model->forward(input) - input.matmul(target)).square().mean();
                        }});
  }
  std::vector<double> losses(900);
  EXPECT_EQ(run_hogwild(replicas, 900, [&](int, int64_t step, double loss) { losses[step] = loss; }), 900);
  EXPECT_LT(losses[899], 0.05 * losses[0]);
  for (auto& model : models) {
    EXPECT_TRUE(torch::allclose(model->weight.t(), target, 0.1, 0.1));
    EXPECT_TRUE(torch::equal(model->weight, models[0]->weight));
  }
}

TEST(Hogwild, TheFirstFailureStopsAll) {
  torch::Tensor x = torch::zeros({2}, torch::requires_grad());
  torch::optim::SGD base({x}, torch::optim::SGDOptions(0.1));
  std::vector<HogwildReplica> replicas;
  replicas.push_back({{x}, &base, [](int64_t) -> torch::Tensor { fail("no more data"); }});
  EXPECT_THROW(run_hogwild(replicas, 1'000'000), Error);
  EXPECT_THROW(share(torch::zeros({5}), {x}), InputError);
}

}  // namespace
}  // namespace entrain::optim
