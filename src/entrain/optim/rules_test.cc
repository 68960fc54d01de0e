// Each rule equals, step by step, its formula in plain double arithmetic with all workers in one loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "entrain/optim/base.h"
#include "entrain/optim/leader.h"
#include "entrain/optim/problems.h"
#include "entrain/strategy/rule_settings.h"
#include "support/ranks.h"

namespace entrain::optim {
namespace {

using strategy::Optimizer;
using Vec = std::vector<double>;
using Positions = std::vector<std::vector<Vec>>;  // by step and worker
using Groups = std::vector<std::vector<int>>;

constexpr int kWorkers = 4;
constexpr int kDimensions = 7;
constexpr int kSteps = 40;
const Groups kOne = {{0, 1, 2, 3}};
const Groups kPairs = {{0, 1}, {2, 3}};

Vec plain(const torch::Tensor& t) { return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()}; }

// The least-squares problem without tensors.
struct Plain {
  explicit Plain(const LeastSquares& of) {
    for (int i = 0; i < kWorkers; ++i) {
      start.push_back(plain(of.problem().start(i)));
      b.push_back(plain(of.b[i]));
      a.emplace_back();
      for (int64_t r = 0; r < of.a[i].size(0); ++r) a[i].push_back(plain(of.a[i][r].contiguous()));
    }
  }
  Vec misses(int i, const Vec& x) const {
    Vec miss = b[i];
    for (size_t r = 0; r < miss.size(); ++r) {
      miss[r] = std::inner_product(x.begin(), x.end(), a[i][r].begin(), 0.0) - b[i][r];
    }
    return miss;
  }
  Vec gradient(int i, const Vec& x) const {
    const Vec miss = misses(i, x);
    Vec g(x.size());
    for (size_t r = 0; r < miss.size(); ++r) {
      for (size_t j = 0; j < x.size(); ++j) g[j] += a[i][r][j] * miss[r] / static_cast<double>(miss.size());
    }
    return g;
  }
  double objective(const Vec& x) const {
    double sum = 0;
    for (int i = 0; i < kWorkers; ++i) {
      const Vec miss = misses(i, x);
      sum += std::inner_product(miss.begin(), miss.end(), miss.begin(), 0.0) / (2.0 * kWorkers * miss.size());
    }
    return sum;
  }
  std::vector<Vec> start;
  std::vector<std::vector<Vec>> a;
  std::vector<Vec> b;
};

void sgd(const Plain& f, std::vector<Vec>& x, double rate) {
  for (int i = 0; i < kWorkers; ++i) {
    const Vec g = f.gradient(i, x[i]);
    for (int j = 0; j < kDimensions; ++j) x[i][j] -= rate * g[j];
  }
}

Vec mean(const std::vector<Vec>& x) {
  Vec m(kDimensions);
  for (const Vec& one : x) {
    for (int j = 0; j < kDimensions; ++j) m[j] += one[j] / kWorkers;
  }
  return m;
}

// ---- the references

// x <- x - w (x - z) - w_all (x - z_all), both taken at the same x; an empty z does not pull.
void pull(Vec& x, const Vec& z, double w, const Vec& z_all, double w_all) {
  const Vec before = x;
  for (size_t j = 0; j < x.size(); ++j) {
    if (!z.empty()) x[j] -= w * (before[j] - z[j]);
    if (!z_all.empty()) x[j] -= w_all * (before[j] - z_all[j]);
  }
}

// Who leads `workers`, by the mean of their last losses.
int leader_among(const std::vector<int>& workers, const std::vector<Vec>& losses, const Optimizer& o,
                 uint64_t seed, int64_t k) {
  Vec means;
  for (const int i : workers) {
    const auto window = std::min<int64_t>(o.loss_window, k);
    means.push_back(std::accumulate(losses[i].end() - window, losses[i].end(), 0.0) / window);
  }
  return workers[o.choice == "best" ? best_leader(means) : stochastic_leader(means, uniform_at(seed, k))];
}

// z, arrived: of the group (or of all, where there is one group); z_all, arrived_all: of all groups.
Positions reference_lsgd(const Plain& f, const Optimizer& o, const Groups& groups, uint64_t seed) {
  const bool grouped = groups.size() > 1;
  const int64_t period = grouped ? o.local_period : o.period;
  const double m = o.proximal >= 0 ? o.proximal : o.pull / period;
  const double m_all = o.proximal >= 0 ? o.proximal : o.global_pull / o.period;
  std::vector<Vec> x = f.start, z(kWorkers), z_all(kWorkers), losses(kWorkers);
  std::vector<Vec> arrived(kWorkers), arrived_all(kWorkers);  // empty: nothing
  std::vector<int> leader(kWorkers);
  int leader_all = -1;
  const auto apply = [&] {
    for (int i = 0; i < kWorkers; ++i) {
      pull(x[i], i == leader[i] ? Vec() : arrived[i], o.pull, i == leader_all ? Vec() : arrived_all[i],
           o.global_pull);
      if (!arrived[i].empty()) z[i] = std::exchange(arrived[i], {});
      if (!arrived_all[i].empty()) z_all[i] = std::exchange(arrived_all[i], {});
    }
  };
  Positions all = {x};
  for (int64_t k = 1; k <= kSteps; ++k) {
    for (int i = 0; i < kWorkers; ++i) {
      losses[i].push_back(f.objective(x[i]));
      const Vec g = f.gradient(i, x[i]);
      pull(x[i], z[i], m, z_all[i], m_all);
      for (int j = 0; j < kDimensions; ++j) x[i][j] -= o.learning_rate * g[j];
    }
    apply();
    if (grouped && k % o.period == 0) {
      leader_all = leader_among(kOne[0], losses, o, seed, k);
      arrived_all.assign(kWorkers, x[leader_all]);
    }
    for (const auto& group : groups) {
      for (const int i : group) {
        if (k % period != 0) continue;
        leader[i] = leader_among(group, losses, o, seed, k);
        arrived[i] = x[leader[i]];
      }
    }
    if (!o.overlap) apply();
    all.push_back(x);
  }
  return all;
}

Positions reference_easgd(const Plain& f, const Optimizer& o) {
  std::vector<Vec> x = f.start;
  Vec c = mean(x);
  Positions all = {x};
  for (int64_t k = 1; k <= kSteps; ++k) {
    sgd(f, x, o.learning_rate);
    if (k % o.period == 0) {
      const Vec before = c;
      for (int i = 0; i < kWorkers; ++i) {
        for (int j = 0; j < kDimensions; ++j) {
          const double d = o.pull * (x[i][j] - before[j]);
          x[i][j] -= d;
          c[j] += d;
        }
      }
    }
    all.push_back(x);
  }
  return all;
}

Positions reference_local_sgd(const Plain& f, const Optimizer& o) {
  std::vector<Vec> x = f.start, before;
  Positions all = {x};
  for (int64_t k = 1; k <= kSteps; ++k) {
    sgd(f, x, o.learning_rate);
    if (!before.empty()) {
      const Vec average = mean(before);
      for (int i = 0; i < kWorkers; ++i) {
        for (int j = 0; j < kDimensions; ++j) x[i][j] += average[j] - before[i][j];
      }
      before.clear();
    }
    if (k % o.period == 0 && o.overlap) before = x;
    if (k % o.period == 0 && !o.overlap) x.assign(kWorkers, mean(x));
    all.push_back(x);
  }
  return all;
}

Positions reference_bmuf(const Plain& f, const Optimizer& o) {
  std::vector<Vec> x = f.start;
  Vec global = mean(x), delta(kDimensions);
  const double momentum = o.block_momentum >= 0 ? o.block_momentum : 1 - 1.0 / kWorkers;
  Positions all = {x};
  for (int64_t k = 1; k <= kSteps; ++k) {
    sgd(f, x, o.learning_rate);
    if (k % o.period == 0) {
      const Vec average = mean(x);
      for (int j = 0; j < kDimensions; ++j) {
        delta[j] = o.block_rate * (average[j] - global[j]) + momentum * delta[j];
        global[j] += delta[j];
      }
      x.assign(kWorkers, global);
    }
    all.push_back(x);
  }
  return all;
}

Positions reference_parle(const Plain& f, const Optimizer& o) {
  std::vector<Vec> y = f.start, x(kWorkers, mean(y)), z = x;
  Vec xbar = mean(y);
  double gamma = std::max(1.0, o.scope), rho = std::max(0.1, o.scope);
  Positions all = {y};
  for (int64_t k = 1; k <= kSteps; ++k) {
    for (int i = 0; i < kWorkers; ++i) {
      const Vec g = f.gradient(i, y[i]);
      for (int j = 0; j < kDimensions; ++j) {
        y[i][j] -= o.learning_rate * (g[j] + (y[i][j] - x[i][j]) / gamma);
        z[i][j] = 0.75 * z[i][j] + 0.25 * y[i][j];
      }
      if (k % o.period != 0) continue;
      for (int j = 0; j < kDimensions; ++j) {
        x[i][j] = z[i][j] - std::min(1.0, o.learning_rate / rho) * (x[i][j] - xbar[j]);
      }
    }
    if (k % o.period == 0) {
      xbar = mean(x);
      y = z = x;
      const double s = 1 - 1 / 800.0;  // 400 steps an epoch
      gamma = std::max(1.0, gamma * s);
      rho = std::max(0.1, rho * s);
    }
    all.push_back(y);
  }
  return all;
}

// ---- the comparison

Optimizer settings_of(const std::string& rule) {
  Optimizer o;
  o.rule = rule;
  o.learning_rate = 0.05;
  o.period = 6;
  o.local_period = 2;
  o.loss_window = 3;
  o.pull = 0.2;
  o.global_pull = 0.15;
  o.scope = 0.5;
  return o;
}

void expect_equal(const Trace& trace, const Positions& reference) {
  ASSERT_EQ(trace.positions.size(), reference.size());
  for (size_t k = 0; k < reference.size(); ++k) {
    for (int i = 0; i < kWorkers; ++i) {
      const Vec x = plain(trace.positions[k][i]);
      for (int j = 0; j < kDimensions; ++j) {
        ASSERT_NEAR(x[j], reference[k][i][j], 1e-11) << "step " << k << ", worker " << i << ", x_" << j;
      }
    }
  }
}

class LsgdTest : public ::testing::TestWithParam<std::tuple<bool, bool, const char*>> {};

TEST_P(LsgdTest, EqualsThePlainReference) {
  const auto [overlap, grouped, choice] = GetParam();
  Optimizer o = settings_of("lsgd");
  o.overlap = overlap;
  o.choice = choice;
  const Groups groups = grouped ? kPairs : kOne;
  for (const double proximal : {-1.0, 0.03}) {
    o.proximal = proximal;
    for (const auto& [period, local_period] : {std::pair(6, 2), std::pair(5, 2), std::pair(1, 1)}) {
      o.period = period;
      o.local_period = local_period;
      const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 3);
      const Trace trace = run_rule_on(f.problem(), o, kWorkers, kSteps, {.groups = groups, .seed = 11});
      expect_equal(trace, reference_lsgd(Plain(f), o, groups, 11));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, LsgdTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(),
                                            ::testing::Values("best", "stochastic")),
                         [](const auto& p) {
                           return fmt::format("{}_{}_{}", std::get<0>(p.param) ? "overlapped" : "waiting",
                                              std::get<1>(p.param) ? "groups" : "one", std::get<2>(p.param));
                         });

TEST(Rules, EasgdEqualsThePlainReference) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 4);
  const Optimizer o = settings_of("easgd");
  expect_equal(run_rule_on(f.problem(), o, kWorkers, kSteps), reference_easgd(Plain(f), o));
}

TEST(Rules, LocalSgdEqualsThePlainReference) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 5);
  Optimizer o = settings_of("local-sgd");
  for (const bool overlap : {false, true}) {
    o.overlap = overlap;
    for (const int period : {6, 1}) {
      o.period = period;
      o.local_period = 1;
      expect_equal(run_rule_on(f.problem(), o, kWorkers, kSteps), reference_local_sgd(Plain(f), o));
    }
  }
}

TEST(Rules, BmufEqualsThePlainReference) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 6);
  Optimizer o = settings_of("bmuf");
  o.block_rate = 0.8;
  for (const double momentum : {-1.0, 0.4}) {
    o.block_momentum = momentum;
    expect_equal(run_rule_on(f.problem(), o, kWorkers, kSteps), reference_bmuf(Plain(f), o));
  }
}

TEST(Rules, ParleEqualsThePlainReference) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 7);
  Optimizer o = settings_of("parle");
  for (const double scope : {100.0, 1.001, 0.1001}) {  // no limit, gamma's, both
    o.scope = scope;
    expect_equal(run_rule_on(f.problem(), o, kWorkers, kSteps), reference_parle(Plain(f), o));
  }
}

TEST(Rules, EamsgdIsEasgdAroundNesterov) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 8);
  Optimizer easgd = settings_of("easgd");
  easgd.base = "nesterov";
  const Trace wanted = run_rule_on(f.problem(), easgd, kWorkers, kSteps);
  const Trace trace = run_rule_on(f.problem(), settings_of("eamsgd"), kWorkers, kSteps);
  for (int i = 0; i < kWorkers; ++i) {
    EXPECT_TRUE(trace.positions.back()[i].equal(wanted.positions.back()[i]));
  }
}

// ---- what is tested with, what is recorded, what travels

TEST(Rules, TestParametersAreTheCentreOrTheMeanOfTheGroup) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 9);
  const Trace one = run_rule_on(f.problem(), settings_of("lsgd"), kWorkers, 20);
  EXPECT_TRUE(one.tested.allclose(torch::stack(one.positions.back()).mean(0)));
  const Trace pairs = run_rule_on(f.problem(), settings_of("lsgd"), kWorkers, 20, {.groups = kPairs});
  EXPECT_TRUE(pairs.tested.allclose((pairs.positions.back()[0] + pairs.positions.back()[1]) / 2));
  const Trace bmuf = run_rule_on(f.problem(), settings_of("bmuf"), kWorkers, 6);
  EXPECT_TRUE(bmuf.tested.equal(bmuf.positions.back()[0]));
}

TEST(Rules, TheJournalSaysWhoLedWhen) {
  const LeastSquares f = least_squares(kWorkers, 10, kDimensions, 10);
  const Trace one = run_rule_on(f.problem(), settings_of("lsgd"), kWorkers, 20);
  ASSERT_EQ(one.journals[0].leaders.size(), 3U);
  EXPECT_EQ(one.journals[0].exchanges, 3);
  for (int e = 0; e < 3; ++e) {
    const Journal::Lead& lead = one.journals[0].leaders[e];
    EXPECT_EQ(lead.step, 6 * (e + 1));
    EXPECT_EQ(lead.local, lead.global);
    EXPECT_EQ(one.journals[3].leaders[e].global, lead.global);
  }
  const Trace pairs = run_rule_on(f.problem(), settings_of("lsgd"), kWorkers, 12, {.groups = kPairs});
  const auto& leaders = pairs.journals[2].leaders;
  ASSERT_EQ(leaders.size(), 6U);
  for (const auto& lead : leaders) {
    EXPECT_TRUE(lead.local == 2 || lead.local == 3) << lead.local;
    EXPECT_EQ(lead.global >= 0, lead.step % 6 == 0) << lead.step;
  }
}

TEST(Rules, LsgdMovesAboutHalfOfEasgdsBytes) {
  const LeastSquares f = least_squares(kWorkers, 4, 4000, 12);
  for (const bool overlap : {false, true}) {
    Optimizer lsgd = settings_of("lsgd");
    lsgd.overlap = overlap;
    const Trace leader = run_rule_on(f.problem(), lsgd, kWorkers, 30, {.record_every = 30});
    const Trace elastic = run_rule_on(f.problem(), settings_of("easgd"), kWorkers, 30, {.record_every = 30});
    EXPECT_EQ(leader.journals[0].exchanges, elastic.journals[0].exchanges);
    EXPECT_GT(leader.bytes_sent, 0U);
    EXPECT_LE(static_cast<double>(leader.bytes_sent), 0.55 * static_cast<double>(elastic.bytes_sent));
  }
}

// ---- stop and go on

struct Saved {
  torch::Tensor x;
  State state;
};

// Steps [from, to) of every worker, from `saved` where given; leaves what a checkpoint holds in `saved`.
void run_part(const Problem& f, const Optimizer& o, const Groups& groups, int from, int to,
              std::vector<Saved>& saved) {
  std::vector<Saved> after(kWorkers);
  entrain::testing::run_ranks(kWorkers, [&](int rank, transport::Transport& transport) {
    const torch::NoGradGuard no_grad;
    torch::Tensor x = from > 0 ? saved[rank].x.clone() : f.start(rank);
    const auto base = make_base(o, {x}, rank, kWorkers);
    const auto rule =
        make_rule(strategy::rule_of(o),
                  {.x = x, .base = *base, .transport = transport, .ranks = {0, 1, 2, 3}, .groups = groups});
    if (from > 0) rule->restore(saved[rank].state);
    for (int k = from; k < to; ++k) {
      x.mutable_grad() = f.gradient(x, rank, k);
      rule->step(f.objective(x));
    }
    rule->finish();
    after[rank] = {x.clone(), rule->state()};
  });
  saved = std::move(after);
}

void expect_exact_resume(const Optimizer& o, const Groups& groups) {
  const Problem f = least_squares(kWorkers, 10, kDimensions, 13).problem();
  std::vector<Saved> whole;
  run_part(f, o, groups, 0, 17, whole);
  for (const int stop : {1, 2, 5, 6, 7, 12}) {
    std::vector<Saved> parts;
    run_part(f, o, groups, 0, stop, parts);
    run_part(f, o, groups, stop, 17, parts);
    for (int i = 0; i < kWorkers; ++i) {
      EXPECT_TRUE(parts[i].x.equal(whole[i].x)) << o.rule << " stopped at " << stop << ", worker " << i;
      ASSERT_EQ(parts[i].state.size(), whole[i].state.size());
      for (size_t s = 0; s < whole[i].state.size(); ++s) {
        EXPECT_EQ(parts[i].state[s].first, whole[i].state[s].first);
        EXPECT_TRUE(parts[i].state[s].second.equal(whole[i].state[s].second)) << whole[i].state[s].first;
      }
    }
  }
}

TEST(Resume, IsExactToTheBit) {
  for (const char* rule : {"lsgd", "easgd", "local-sgd", "bmuf", "parle"}) {
    Optimizer o = settings_of(rule);
    expect_exact_resume(o, kOne);
    o.overlap = false;
    expect_exact_resume(o, kOne);
  }
  Optimizer o = settings_of("lsgd");
  expect_exact_resume(o, kPairs);
  o.choice = "stochastic";
  expect_exact_resume(o, kPairs);
}

// Formerly a checkpoint held one message, and whether it was of all.
TEST(Resume, ReadsAnExchangeUnderWayOfFormerCheckpoints) {
  const Problem f = least_squares(kWorkers, 10, kDimensions, 13).problem();
  const Optimizer o = settings_of("lsgd");
  std::vector<Saved> now, former;
  run_part(f, o, kOne, 0, 6, now);
  former = now;
  for (Saved& saved : former) {
    for (auto& [name, tensor] : saved.state) {
      if (name == "arrived_local") name = "arrived";
    }
    saved.state.emplace_back("arrived_global", torch::tensor(int64_t{0}));
  }
  run_part(f, o, kOne, 6, 9, now);
  run_part(f, o, kOne, 6, 9, former);
  for (int i = 0; i < kWorkers; ++i) EXPECT_TRUE(former[i].x.equal(now[i].x)) << i;
}

TEST(Resume, RefusesAnotherRulesState) {
  const Problem f = least_squares(kWorkers, 10, kDimensions, 13).problem();
  std::vector<Saved> saved;
  run_part(f, settings_of("easgd"), kOne, 0, 6, saved);
  EXPECT_THROW(run_part(f, settings_of("lsgd"), kOne, 6, 9, saved), InputError);
}

// ---- what goes wrong

TEST(Rules, AGroupOfOneIsRefused) {
  const Problem f = least_squares(kWorkers, 10, kDimensions, 14).problem();
  try {
    run_rule_on(f, settings_of("lsgd"), kWorkers, 2, {.groups = {{0, 1, 2}, {3}}});
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "optimizer: groups makes a group of one worker (rank 3), allowed: groups of 2 or more");
  }
}

TEST(Rules, ALostWorkerEndsTheOthersWithItsName) {
  for (const char* rule : {"lsgd", "easgd", "local-sgd", "bmuf", "parle"}) {
    for (const bool overlap : {false, true}) {
      Optimizer o = settings_of(rule);
      o.overlap = overlap;
      const Problem f = least_squares(kWorkers, 10, kDimensions, 15).problem();
      std::vector<std::string> errors(kWorkers);
      entrain::testing::run_ranks(kWorkers, [&](int rank, transport::Transport& transport) {
        const torch::NoGradGuard no_grad;
        torch::Tensor x = f.start(rank);
        const auto base = make_base(o, {x}, rank, kWorkers);
        const auto rule_of_rank =
            make_rule(strategy::rule_of(o),
                      {.x = x, .base = *base, .transport = transport, .ranks = {0, 1, 2, 3}, .groups = kOne});
        for (int k = 0; k < 30; ++k) {
          if (rank == 3 && k == 9) return;
          x.mutable_grad() = f.gradient(x, rank, k);
          try {
            rule_of_rank->step(f.objective(x));
          } catch (const PeerError& e) {
            errors[rank] = e.what();
            return;
          }
        }
      });
      for (int rank = 0; rank < 3; ++rank) EXPECT_NE(errors[rank], "") << rule << " on rank " << rank;
    }
  }
}

TEST(Rules, LsgdTellsTheLeadersParameters) {
  Optimizer o;
  o.rule = "lsgd";
  o.period = 2;
  o.overlap = false;
  entrain::testing::run_ranks(kWorkers, [&](int rank, transport::Transport& transport) {
    const torch::NoGradGuard no_grad;
    torch::Tensor x = torch::full({kDimensions}, rank, torch::kFloat64);
    const auto base = make_base(o, {x}, rank, kWorkers);
    const auto rule =
        make_rule(strategy::rule_of(o),
                  {.x = x, .base = *base, .transport = transport, .ranks = {0, 1, 2, 3}, .groups = kOne});
    const auto step = [&] {
      x.mutable_grad() = torch::zeros_like(x);
      rule->step(rank == 2 ? 1 : 5);  // worker 2 leads
    };
    step();
    if (rule->leader_parameters().defined()) fail("rank {} follows a leader before the first exchange", rank);
    step();
    if (!rule->leader_parameters().eq(2).all().item<bool>()) fail("rank {} follows another leader", rank);
  });
}

}  // namespace
}  // namespace entrain::optim
