#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/optim/base.h"
#include "entrain/optim/problems.h"
#include "entrain/strategy/rule_settings.h"
#include "entrain/transport/inproc/inproc_transport.h"

namespace entrain::optim {
namespace {

// What one worker leaves behind.
struct WorkerResult {
  std::vector<torch::Tensor> positions;
  torch::Tensor tested;
  Journal journal;
  uint64_t bytes_sent = 0;
};

void train(const Problem& problem, const strategy::Optimizer& settings, int workers, int64_t steps,
           const RunSettings& run, transport::Transport& transport, WorkerResult& result) {
  const int me = transport.rank();
  torch::Tensor x = problem.start(me).clone();
  const auto base = make_base(settings, {x}, me, workers);
  RuleWorker worker{.x = x, .base = *base, .transport = transport, .ranks = {}, .groups = run.groups};
  worker.ranks.resize(workers);
  std::iota(worker.ranks.begin(), worker.ranks.end(), 0);
  if (worker.groups.empty()) worker.groups = {worker.ranks};
  worker.seed = run.seed;
  const auto rule = make_rule(strategy::rule_of(settings), std::move(worker));

  result.positions.push_back(x.clone());
  uint64_t bytes_before = 0;
  for (int64_t k = 0; k < steps; ++k) {
    if (run.rate) base->param_groups().front().options().set_lr(run.rate(k));
    x.mutable_grad() = problem.gradient(x, me, k);
    rule->step(problem.objective(x));
    if (k == 0) bytes_before = transport.bytes_sent();
    if ((k + 1) % run.record_every == 0) result.positions.push_back(x.clone());
  }
  rule->finish();
  result.bytes_sent = transport.bytes_sent() - bytes_before;
  result.tested = rule->test_parameters();
  result.journal = rule->journal();
}

Trace put_together(const Problem& problem, const RunSettings& run, std::vector<WorkerResult>& results) {
  Trace trace;
  for (size_t record = 0; record < results.front().positions.size(); ++record) {
    std::vector<torch::Tensor> positions;
    for (const WorkerResult& result : results) positions.push_back(result.positions[record]);
    trace.objective.push_back(problem.objective(torch::stack(positions).mean(0)));
    trace.positions.push_back(std::move(positions));
    trace.steps.push_back(static_cast<int64_t>(record) * run.record_every);
  }
  trace.tested = results.front().tested;
  for (WorkerResult& result : results) {
    trace.journals.push_back(std::move(result.journal));
    trace.bytes_sent += result.bytes_sent;
  }
  return trace;
}

}  // namespace

Trace run_rule_on(const Problem& problem, const strategy::Optimizer& settings, int workers, int64_t steps,
                  const RunSettings& run) {
  strategy::validate(settings);
  if (workers < 1) bad_input("workers is {}, allowed: 1 or more", workers);
  const auto transports = transport::make_inproc(workers);
  std::vector<WorkerResult> results(workers);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) {
    threads.emplace_back([&, i] {
      const torch::NoGradGuard no_grad;
      std::string reason;
      try {
        train(problem, settings, workers, steps, run, *transports[i], results[i]);
      } catch (const std::exception& e) {
        reason = e.what();
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      transports[i]->close(reason);
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return put_together(problem, run, results);
}

}  // namespace entrain::optim
