#include "entrain/trainer/train.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/optim/base.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trainer/agreement.h"
#include "entrain/trainer/apart.h"
#include "entrain/trainer/captain.h"
#include "entrain/trainer/checkpoint.h"
#include "entrain/trainer/data/data.h"
#include "entrain/trainer/device.h"
#include "entrain/trainer/distributed.h"
#include "entrain/trainer/examiner.h"
#include "entrain/trainer/hogwild_training.h"
#include "entrain/trainer/model_files.h"
#include "entrain/trainer/pipelined.h"
#include "entrain/trainer/server.h"
#include "entrain/trainer/steps.h"

namespace entrain {
namespace {

constexpr transport::Tag kSummaryTag = transport::kControlTags + 10;
constexpr transport::Tag kRngTag = transport::kControlTags + 12;

DataOptions data_options(const Context& context, const TrainOptions& options, torch::Device device) {
  int worker = 0;
  for (int rank = 0; rank < context.rank(); ++rank) worker += context.cluster.is_worker(rank) ? 1 : 0;
  return {options.batch_size, options.seed, worker, context.workers(), true, device};
}

std::shared_ptr<models::Model> model_on(torch::Device device, const TrainOptions& options) {
  auto model = initial_model(options);
  model->to(device);
  return model;
}

// One worker's run.
class Training {
 public:
  Training(Context& context, const TrainOptions& options)
      : context_(context),
        options_(options),
        device_(device_of(context, options.device)),
        model_(model_on(device_, options)),
        optimizer_(optim::make_base(options.optimizer, model_->parameters(), 0, 1)),
        data_(open_data(options.data, *model_, data_options(context, options, device_))) {
    resume();
    if (context.rank() == 0 && !options.out.empty()) {
      std::filesystem::create_directories(options.out);
      metrics_.emplace(options.out / "metrics.jsonl");
    }
    distributed_ =
        distribute(context, *model_, *optimizer_,
                   {options.strategy, options.seed, options.overlap_forward, options.optimizer.clip_norm});
    restore_rng();
    tested_ = is_tested(options, *data_);
    if (context.rank() == 0 && tested_) {
      examiner_ = std::make_unique<Examiner>(options.model, device_, *data_);
    }
  }

  TrainReport run();

 private:
  void resume();
  void restore_rng();
  void save(int64_t step);
  void switch_if_due(int64_t step);
  void set_rate(int64_t step, double wall_s);
  void record(int64_t step, double seconds, double loss);
  bool test_due(int64_t step) const;
  void test(int64_t step, double wall_s, TrainReport& report);
  void summarise(TrainReport& report, const std::vector<double>& compute_times);

  Context& context_;
  const TrainOptions& options_;
  torch::Device device_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<Data> data_;
  std::optional<CheckpointInfo> resumed_;
  std::optional<LineLog> metrics_;
  std::unique_ptr<Distributed> distributed_;
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  double paused_s_ = 0;                 // in tests
  uint64_t bytes_before_ = 0;
  int64_t counted_steps_ = 0;
  double first_loss_ = NAN;
  double last_loss_ = NAN;
};

void Training::resume() {
  if (options_.resume.empty()) return;
  resumed_ = Checkpoints(options_.resume).load_newest(*model_, *optimizer_);
  if (!resumed_) bad_input("--resume {}: no checkpoint there", options_.resume.string());
  if (resumed_->model != options_.model) {
    bad_input("--resume {}: a checkpoint of {}, not of {}", options_.resume.string(), resumed_->model,
              options_.model);
  }
  agree_on_resumed_step(context_, resumed_->step);
  optim::set_rate(*optimizer_, options_.optimizer.rate_of(0, 1));  // this job's, not that of the one before
}

void Training::restore_rng() {
  if (!resumed_) return;
  const auto rank = static_cast<size_t>(context_.rank());
  if (rank < resumed_->rng.size() && resumed_->rng[rank].defined()) set_rng_state(resumed_->rng[rank]);
  log_info("resumed after step {}", resumed_->step);
}

// Collective: every rank's random numbers go into the one file that rank 0 writes.
void Training::save(int64_t step) {
  if (options_.out.empty()) return;
  distributed_->finish();
  const torch::Tensor own = rng_state();
  const std::string bytes(static_cast<const char*>(own.data_ptr()), own.nbytes());
  CheckpointInfo info;
  for (int rank = 0; rank < context_.world(); ++rank) {
    if (!context_.cluster.is_worker(rank)) {
      info.rng.emplace_back();
    } else if (rank == 0) {
      info.rng.push_back(own);
    } else if (context_.rank() == rank) {
      transport::send(*context_.transport, 0, kRngTag, transport::as_bytes(bytes));
    } else if (context_.rank() == 0) {
      const auto payload =
          transport::recv(*context_.transport, rank, kRngTag,
                          {Deadline::after(context_.job.timeout_s), "random state for a checkpoint"});
      const auto text = transport::as_text(payload.bytes());
      info.rng.push_back(torch::empty({static_cast<int64_t>(text.size())}, torch::kByte));
      std::memcpy(info.rng.back().data_ptr(), text.data(), text.size());
    }
  }
  if (context_.rank() != 0) return;
  info.step = step;
  info.data_position = step;
  info.world = context_.world();
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = distributed_->strategy().id;
  Checkpoints(options_.out).save(info, *model_, *optimizer_);
}

void Training::switch_if_due(int64_t step) {
  for (const auto& [when, name] : options_.switches) {
    if (when != step) continue;
    distributed_->switch_strategy(
        strategy::load_or_build(name, distributed_->graph(), context_.cluster, options_.seed));
    log_info("step {}: strategy {}", step, distributed_->strategy().id);
  }
}

// Updates of the last step that are still to be made go by the old rate.
void Training::set_rate(int64_t step, double wall_s) {
  const strategy::Optimizer& settings = options_.optimizer;
  if (settings.rate_schedule == "constant" && settings.warmup == 0) return;
  if (options_.seconds > 0 && context_.workers() > 1) {
    bad_input("--lr-schedule {} --seconds: workers' clocks differ, their rates may not; allowed: --steps",
              settings.rate_schedule);
  }
  const double by_steps = static_cast<double>(step) / static_cast<double>(options_.steps);
  const double done = options_.seconds > 0 ? std::max(by_steps, wall_s / options_.seconds) : by_steps;
  distributed_->finish();
  optim::set_rate(*optimizer_, settings.rate_of(0, 1) * settings.rate_factor(done));
}

void Training::record(int64_t step, double seconds, double loss) {
  if (!metrics_) return;
  metrics_->append(nlohmann::json{{"step", step},
                                  {"loss", loss},
                                  {"step_time_s", seconds},
                                  {"bytes_sent", context_.transport->bytes_sent()},
                                  {"strategy", distributed_->strategy().id}}
                       .dump());
}

bool Training::test_due(int64_t step) const {
  return options_.test_every > 0 && step % options_.test_every == 0 && step < options_.steps;
}

// The clock stands meanwhile. Every worker has the same parameters: rank 0's will do.
void Training::test(int64_t step, double wall_s, TrainReport& report) {
  distributed_->finish();
  if (!examiner_) return;
  const auto start = Clock::now();
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : model_->parameters()) flat.push_back(parameter.detach().flatten());
  const auto verdict = examiner_->examine(torch::cat(flat), options_.bn_recompute, step, model_->buffers());
  report.tests.push_back({step, wall_s, verdict.loss, verdict.error, last_loss_, {}, {}});
  if (metrics_) {
    metrics_->append(nlohmann::json{
        {"step", step}, {"wall_s", wall_s}, {"test_loss", verdict.loss}, {"test_error", verdict.error}}
                         .dump());
  }
  paused_s_ += seconds_since(start);
}

TrainReport Training::run() {
  TrainReport report;
  report.first_step = resumed_ ? resumed_->step : 0;
  const int64_t warmup = warmup_steps(steps_left(report.first_step, options_.steps));
  Progress progress("step", shown_total(options_.steps), options_.progress && context_.rank() == 0);
  Captain captain(context_);
  std::optional<strategy::Strategy> wanted;  // by the pilot
  bool asked = false, changed = false;       // the change has been announced; was made before this step
  const auto begin = Clock::now();
  const auto wall = [&] { return seconds_since(begin) - paused_s_; };
  const auto enough = [&] { return options_.seconds > 0 && wall() >= options_.seconds; };
  std::vector<double> compute_times;
  int64_t step = report.first_step;
  for (; step < options_.steps; ++step) {
    const Word word = captain.word(wanted && !asked, enough(), step + 1 == options_.steps);
    if (word == Word::kStop) {
      report.interrupted = stop_was_requested();
      break;
    }
    changed = word == Word::kChange;
    if (changed) {
      distributed_->switch_strategy(wanted.value_or(strategy::Strategy{}));
      wanted.reset();
    }
    asked = wanted.has_value();
    if (step > report.first_step) switch_if_due(step);
    const int64_t done = step - report.first_step;
    if (done == warmup) bytes_before_ = context_.transport->bytes_sent();
    const auto start = Clock::now();
    const Times before = distributed_->times();
    const torch::Tensor loss = model_->loss(data_->training(step));
    const double forward = seconds_since(start) - (distributed_->times().waited - before.waited) -
                           (distributed_->times().updated - before.updated);
    last_loss_ = loss.item<double>();
    if (done == 0) first_loss_ = last_loss_;
    set_rate(step, wall());
    distributed_->step(loss);
    const double seconds = seconds_since(start);
    record(step, seconds, last_loss_);
    if (options_.pilot != nullptr && !wanted && done > 0) {
      wanted = options_.pilot->seen({step, seconds, distributed_->strategy().id, changed},
                                    [&] { return distributed_->profiled_graph(); });
    }
    if (done >= warmup) {
      report.step_times.push_back(seconds);
      compute_times.push_back(forward + distributed_->times().backward - before.backward);
    }
    if (test_due(step + 1)) test(step + 1, wall(), report);
    if (options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0) save(step + 1);
    progress.update(step + 1, fmt::format("loss {:.4f}", last_loss_));
  }
  distributed_->finish();
  report.total_time = wall();
  if (tested_) test(step, report.total_time, report);
  counted_steps_ = static_cast<int64_t>(report.step_times.size());
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) save(step);
  if (context_.rank() == 0) save_results(*model_, options_);
  summarise(report, compute_times);
  return report;
}

// Rank 0 gathers what the others measured. Servers answer in train() below.
void Training::summarise(TrainReport& report, const std::vector<double>& compute_times) {
  const double steps = std::max<double>(1, static_cast<double>(counted_steps_));
  const double bytes = static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps;
  const nlohmann::json own = {{"first", first_loss_}, {"last", last_loss_}, {"bytes", bytes}};
  report.graph = distributed_->graph();
  report.strategy_id = distributed_->strategy().id;
  const plan::Plan plan = distributed_->plan();
  report.link_bound = plan::link_bound(plan, report.graph, context_.cluster);
  report.link_bound_best = plan::best_link_bound(plan, report.graph, context_.cluster);
  distributed_.reset();  // ends the servers' loop, so that they come to the gathering too
  const auto all = transport::gather(*context_.transport, 0, own.dump(), kSummaryTag,
                                     Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  report.compute_time = compute_times.empty() ? 0 : median(compute_times);
  report.first_loss = report.last_loss = 0;
  const auto planned = plan::bytes_sent(plan, report.graph);
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    if (!context_.cluster.is_worker(rank)) {
      report.bytes_sent.push_back(static_cast<double>(planned[rank]));
      continue;
    }
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.first_loss += json["first"].get<double>() / context_.workers();
    report.last_loss += json["last"].get<double>() / context_.workers();
  }
}

}  // namespace

TrainReport train(Context& context, const TrainOptions& options) {
  if (options.optimizer.rule == "hogwild") return train_hogwild(context, options);
  if (options.pipeline.there()) return train_pipelined(context, options);
  if (options.optimizer.apart()) return train_apart(context, options);
  if (context.trains()) return Training(context, options).run();
  serve(context);
  transport::gather(*context.transport, 0, "{}", kSummaryTag, Deadline::after(context.job.timeout_s),
                    "summary of the run");
  return {};
}

}  // namespace entrain
