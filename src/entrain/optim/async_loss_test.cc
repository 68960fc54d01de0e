// Workers as processes: one is killed or stopped in the middle, the others must go on as if nothing had been.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/rendezvous/job_environment.h"
#include "entrain/rendezvous/server.h"
#include "entrain/strategy/rule_settings.h"
#include "entrain/transport/tcp/tcp_transport.h"

namespace entrain::optim {
namespace {

constexpr int kWorkers = 4, kVictim = 2;
constexpr int kSteps = 600, kFatalStep = 200;
constexpr int64_t kSize = 1'000'000;  // a snapshot fills more than a socket's buffers

// Steps of 2 ms towards x = 1. Returns what is left of the way after all of them.
double train(const strategy::Optimizer& settings, const rendezvous::JobEnvironment& job, int signal) {
  torch::set_num_threads(1);
  const auto transport = transport::connect_tcp(job, Deadline::after(30));
  torch::Tensor x = torch::zeros({kSize});
  torch::optim::SGD base({x}, torch::optim::SGDOptions(0.05));
  RuleWorker worker{.x = x, .base = base, .transport = *transport, .ranks = {0, 1, 2, 3}, .groups = {}};
  worker.timeout_s = 30;
  const auto rule = make_rule(strategy::rule_of(settings), std::move(worker));
  auto start = Clock::now();
  double before = 0;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kFatalStep) {
      before = seconds_since(start);
      start = Clock::now();
      if (job.rank == kVictim) raise(signal);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    x.mutable_grad() = x - 1;
    rule->step((x[0] - 1).square().item<double>());
  }
  fmt::print(stderr, "{}, signal {}: rank {}: {:.2f} ms a step before, {:.2f} after; {:.1f}% communication\n",
             settings.rule, signal, job.rank, 1e3 * before / kFatalStep,
             1e3 * seconds_since(start) / (kSteps - kFatalStep),
             100 * rule->journal().communication_s / (before + seconds_since(start)));
  rule->finish();
  return (rule->test_parameters() - 1).abs().max().item<double>();
}

class AfterALoss : public ::testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(AfterALoss, TheOthersTrainToTheEnd) {
  const auto [rule, signal] = GetParam();
  strategy::Optimizer settings;
  settings.rule = rule;
  settings.period = 8;
  settings.staleness = settings.rule == "async-ps" ? 1 : -1;  // the harder case: somebody waits
  const rendezvous::Server server({"127.0.0.1", 0, kWorkers, "token"});
  std::vector<pid_t> children;
  for (int rank = 0; rank < kWorkers; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(100);  // against hangs
    rendezvous::JobEnvironment job{
        .rank = rank, .world = kWorkers, .rendezvous = server.endpoint(), .token = "token"};
    try {
      _exit(train(settings, job, signal) < 0.01 ? 0 : 3);
    } catch (const std::exception& e) {
      fmt::print(stderr, "rank {}: {}\n", rank, e.what());
      _exit(1);
    }
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    int status = 0;
    if (rank == kVictim) continue;
    waitpid(children[rank], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": " << status;
  }
  kill(children[kVictim], SIGKILL);
  waitpid(children[kVictim], nullptr, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, AfterALoss,
                         ::testing::Values(std::pair("lsgd-async", SIGKILL), std::pair("lsgd-async", SIGSTOP),
                                           std::pair("easgd-async", SIGKILL),
                                           std::pair("easgd-async", SIGSTOP), std::pair("downpour", SIGKILL),
                                           std::pair("downpour", SIGSTOP), std::pair("async-ps", SIGKILL),
                                           std::pair("async-ps", SIGSTOP)));

}  // namespace
}  // namespace entrain::optim
