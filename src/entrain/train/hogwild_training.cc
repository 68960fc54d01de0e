#include "entrain/train/hogwild_training.h"

#include <torch/torch.h>

#include <algorithm>
#include <atomic>

#include "entrain/base/error.h"
#include "entrain/base/progress.h"
#include "entrain/base/quantile.h"
#include "entrain/optim/base.h"
#include "entrain/optim/hogwild.h"
#include "entrain/optim/rule_worker.h"
#include "entrain/train/apart_records.h"
#include "entrain/train/examiner.h"
#include "entrain/train/examples.h"
#include "entrain/train/model_files.h"
#include "entrain/train/step_guard.h"
#include "entrain/train/steps.h"

namespace entrain::train {
namespace {

// What one thread owns. The parameters are views of the shared vector.
struct Replica {
  std::shared_ptr<models::Model> model;
  std::unique_ptr<torch::optim::Optimizer> base;
  std::unique_ptr<data::Data> data;
  int64_t position = 0;
  int64_t first = 0, batch = 0;  // its examples of an update
  std::unique_ptr<StepGuard> guard;
};

std::vector<Replica> make_replicas(const job::Context& context, const TrainOptions& options,
                                   torch::Tensor& x) {
  std::vector<Replica> replicas(static_cast<size_t>(options.optimizer.threads));
  const int threads = options.optimizer.threads;
  for (int i = 0; i < threads; ++i) {
    Replica& replica = replicas[static_cast<size_t>(i)];
    replica.model = initial_model(context, options);
    if (i == 0) {
      x = optim::flatten(replica.model->parameters());
    } else {
      optim::share(x, replica.model->parameters());
    }
    replica.guard = std::make_unique<StepGuard>(0, options.on_nonfinite, *replica.model);
    replica.base = optim::make_base(options.optimizer, replica.model->parameters(), i, threads);
    replica.data = data::open_data(options.data, *replica.model, data_options(options, threads, torch::kCPU));
    replica.batch = examples_per_worker(options, threads);
    replica.first = i * replica.batch;
  }
  return replicas;
}

// The parameters are shared, but every thread keeps batch norm's statistics of the batches that it saw: the
// model has their mean, however the threads divided the steps.
void average_buffers(const std::vector<Replica>& replicas) {
  std::vector<std::vector<torch::Tensor>> all;
  for (const Replica& replica : replicas) all.push_back(replica.model->buffers());
  for (size_t i = 0; i < all[0].size(); ++i) {
    torch::Tensor sum = torch::zeros_like(all[0][i], torch::kFloat64);
    for (const auto& buffers : all) sum += buffers[i];
    all[0][i].copy_(sum / static_cast<double>(all.size()));
  }
}

}  // namespace

TrainReport train_hogwild(job::Context& context, const TrainOptions& options) {
  if (context.world() != 1) {
    bad_input(
        "`optimizer` hogwild: its workers are threads of one process; allowed: `cluster` local:1 `threads` "
        "{}",
        context.world());
  }
  const strategy::Optimizer& settings = options.optimizer;
  if (settings.rate_schedule != "constant" || settings.warmup > 0 || settings.clip_norm > 0) {
    bad_input(
        "`optimizer` hogwild: allowed: `rate_schedule` constant, `warmup` 0 and `clip_norm` 0, not {}, {} "
        "and {}",
        settings.rate_schedule, settings.warmup, settings.clip_norm);
  }
  torch::Tensor x;
  std::vector<Replica> replicas = make_replicas(context, options, x);
  std::vector<optim::HogwildReplica> threads;
  for (Replica& replica : replicas) {
    threads.push_back({replica.model->parameters(), replica.base.get(),
                       [&replica](int64_t step) {
                         replica.guard->begin(step);
                         return replica.model->loss(
                             replica.data->training(replica.position++, replica.first, replica.batch));
                       },
                       [&replica](double loss) { return replica.guard->may_update(loss); }});
  }
  const auto count = static_cast<int64_t>(replicas.size());
  const int64_t steps = options.steps * count;
  ApartRecords records(options.out, 0, options.optimizer);
  Examiner examiner(options.model, torch::kCPU, *replicas[0].data, replicas[0].batch);
  const bool tested = is_tested(options, *replicas[0].data);
  TrainReport report;
  std::atomic<bool> stop = false;
  Progress progress("step", shown_total(steps), options.progress);
  const auto begin = Clock::now();
  auto last = begin;
  const int64_t made = optim::run_hogwild(
      threads, steps,
      [&](int, int64_t step, double loss) {
        const auto now = Clock::now();
        report.step_times.push_back(static_cast<double>(count) * Seconds(now - last).count());
        last = now;
        if (report.step_times.size() == 1) report.first_loss = loss;
        report.last_loss = loss;
        records.step(step, seconds_since(begin), loss, {}, 0);
        progress.update(step + 1, fmt::format("loss {:.4f}", loss));
        report.interrupted = context.stop_signal() != 0;
        if (report.interrupted || (options.seconds > 0 && seconds_since(begin) >= options.seconds))
          stop = true;
      },
      &stop);
  report.total_time = seconds_since(begin);
  for (const Replica& replica : replicas) report.skipped_updates += replica.guard->skipped();
  replicas[0].guard->check_parameters("at the end");
  average_buffers(replicas);
  report.strategy_id = options.optimizer.rule;
  report.comm_share = 0;
  report.bytes_sent = {0};
  report.compute_time = report.step_times.empty() ? 0 : median(report.step_times);
  if (tested) {
    const auto verdict = examiner.examine(x, options.bn_recompute, 0, replicas[0].model->buffers());
    report.tests.push_back(
        {made / count, report.total_time, verdict.loss, verdict.error, report.last_loss, {}, {}});
    records.test(report.tests.back());
  }
  save_results(*replicas[0].model, options);
  return report;
}

}  // namespace entrain::train
