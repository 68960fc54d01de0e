// What people who train with libtorch do around step() by habit: zero_grad(), optimizer.step(), a backward of
// their own to accumulate gradients. None of it may change the result, wherever it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

constexpr int kSteps = 5;
constexpr int kWorkers = 3;
const std::string kCluster = "local:3";
const std::vector<std::string> kStrategies = {"allreduce", "ps", "ddp", "byteps", "partitioned-ps", "ps-lb"};

// A sparse gradient, dense ones, and a layer that not every loss reads.
struct Net : torch::nn::Module {
  Net()
      : embed(
            register_module("embed", torch::nn::Embedding(torch::nn::EmbeddingOptions(40, 16).sparse(true)))),
        first(register_module("first", torch::nn::Linear(16, 64))),
        second(register_module("second", torch::nn::Linear(64, 64))),
        last(register_module("last", torch::nn::Linear(64, 1))) {}

  torch::Tensor loss(const torch::Tensor& words, bool whole = true) {
    torch::Tensor x = torch::tanh(first(embed(words)));
    if (whole) x = torch::tanh(second(x));
    return (last(x) - 1).square().mean();
  }

  torch::nn::Embedding embed;
  torch::nn::Linear first, second, last;
};

std::shared_ptr<Net> make_net() {
  auto net = std::make_shared<Net>();
  const torch::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);  // ranks are threads: the default one is shared
  for (auto& parameter : net->parameters()) parameter.normal_(0, 0.3, generator);
  return net;
}

std::vector<torch::Tensor> copies(const torch::nn::Module& module) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : module.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

torch::Tensor words_of(int rank, int step, int part = 0) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * rank + 10 * step + part));
  return torch::randint(40, {8}, generator, torch::kInt64);
}

void expect_close(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE((a[i] - b[i]).norm().item<double>(), tolerance * a[i].norm().item<double>())
        << what << ", parameter " << i;
  }
}

void zero(torch::optim::Optimizer& optimizer) { optimizer.zero_grad(); }  // in place, by libtorch 1.13

void set_to_none(torch::optim::Optimizer& optimizer) {  // zero_grad() of libtorch 2
  for (auto& group : optimizer.param_groups()) {
    for (auto& parameter : group.params()) parameter.mutable_grad().reset();
  }
}

// Both in place and away: whatever zero_grad() may do, now and then.
void mixed(torch::optim::Optimizer& optimizer) {
  zero(optimizer);
  set_to_none(optimizer);
}

struct Habit {
  std::string name;
  std::function<void(torch::optim::Optimizer&)> clear = [](auto&) {};
  bool before_forward = false, before_step = false, after_step = false;
  bool optimizer_step = false;  // once more, after step()
};

// Rank 0's parameters. The last rank is late with every step, so that what the others have begun is still
// under way when their step() returns.
std::vector<torch::Tensor> train(const Habit& habit, const Options& options) {
  std::vector<torch::Tensor> result;
  testing::run_job(kCluster, [&](job::Context& context) {
    const auto net = make_net();
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    Distributed distributed(context, *net, optimizer, options);
    for (int step = 0; step < kSteps; ++step) {
      if (habit.before_forward) habit.clear(optimizer);
      const torch::Tensor loss = net->loss(words_of(context.rank(), step));
      if (habit.before_step) habit.clear(optimizer);
      if (context.rank() == kWorkers - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      distributed.step(loss);
      if (habit.after_step) habit.clear(optimizer);
      if (habit.optimizer_step) optimizer.step();
    }
    distributed.finish();
    if (context.rank() == 0) result = copies(*net);
  });
  return result;
}

TEST(Habits, ZeroGradAndOptimizerStepChangeNothingWhereverTheyStand) {
  const std::vector<Habit> habits = {
      {"zeroed before forward", zero, true, false, false, false},
      {"zeroed before step", zero, false, true, false, false},
      {"zeroed after step", zero, false, false, true, false},
      {"set to none before forward", set_to_none, true, false, false, false},
      {"set to none before step", set_to_none, false, true, false, false},
      {"set to none after step", set_to_none, false, false, true, false},
      {"all at all places, and optimizer.step()", mixed, true, true, true, true},
      {"optimizer.step() alone", [](auto&) {}, false, false, false, true},
  };
  for (const std::string& strategy : kStrategies) {
    const auto expected = train({"none"}, {strategy});
    for (const Habit& habit : habits) {
      expect_close(expected, train(habit, {strategy}), 0, strategy + ": " + habit.name);
    }
  }
}

TEST(Habits, ZeroGradIsHarmlessWithoutOverlapAndWithClipping) {
  const Habit all = {"all", mixed, true, true, true, true};
  for (const Options& options :
       {Options{"allreduce", 0, false}, Options{"ps", 0, true, 0.05}, Options{"allreduce", 0, true, 0.05}}) {
    expect_close(train({"none"}, options), train(all, options), 0, options.strategy.text());
  }
}

// The words of one step in two parts: the update is that of the mean over parts and workers, made here by one
// process. The second part of every other step leaves a layer out, whose gradient is then the first part's.
bool whole(int step, int part) { return part == 0 || step % 2 == 1; }

std::vector<torch::Tensor> accumulate_alone() {
  const auto net = make_net();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < kWorkers; ++rank) {
      for (int part = 0; part < 2; ++part) {
        (net->loss(words_of(rank, step, part), whole(step, part)) / (2 * kWorkers)).backward();
      }
    }
    optimizer.step();
  }
  return copies(*net);
}

TEST(Habits, GradientsOfAnEarlierBackwardAreAddedIn) {
  const auto expected = accumulate_alone();
  for (const std::string& strategy : kStrategies) {
    for (const auto& clear : {zero, set_to_none}) {
      testing::run_job(kCluster, [&](job::Context& context) {
        const auto net = make_net();
        torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
        Distributed distributed(context, *net, optimizer, {strategy});
        for (int step = 0; step < kSteps; ++step) {
          clear(optimizer);
          const int rank = context.rank();
          (net->loss(words_of(rank, step, 0), whole(step, 0)) / 2).backward();
          distributed.step(net->loss(words_of(rank, step, 1), whole(step, 1)) / 2);
        }
        distributed.finish();
        expect_close(expected, copies(*net), 1e-5, strategy);
      });
    }
  }
}

}  // namespace
}  // namespace entrain::parallel
