#include "entrain/train/train.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/collective/cast.h"
#include "entrain/data/data.h"
#include "entrain/job/control.h"
#include "entrain/models/script.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/device.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/saved.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/train/apart.h"
#include "entrain/train/cells.h"
#include "entrain/train/examiner.h"
#include "entrain/train/examples.h"
#include "entrain/train/hogwild_training.h"
#include "entrain/train/job_settings.h"
#include "entrain/train/loop.h"
#include "entrain/train/metrics.h"
#include "entrain/train/model_files.h"
#include "entrain/train/step_guard.h"
#include "entrain/train/steps.h"
#include "entrain/transport/control_tags.h"
#include "entrain/trials/advised.h"

namespace entrain::train {
namespace {

// Throws InputError where some worker would have none.
int64_t examples_of(const job::Context& context, const TrainOptions& options) {
  const int64_t examples = examples_per_update(options, context.workers());
  if (examples < context.workers()) {
    bad_input(
        "`global_batch` {} for {} ranks that have the whole model: allowed: {} or more, or a shape on fewer",
        examples, context.workers(), context.workers());
  }
  return examples;
}

std::vector<double> shares_of(const TrainOptions& options) {
  return options.shape ? options.shape->cells[0].shares : std::vector<double>();
}

std::shared_ptr<models::Model> model_on(const job::Context& context, torch::Device device,
                                        const TrainOptions& options) {
  auto model = initial_model(context, options);
  model->to(device);
  return model;
}

// One worker's run.
class Training final : public Run {
 public:
  Training(job::Context& context, const TrainOptions& options)
      : context_(context),
        options_(options),
        device_(parallel::device_of(context, options.device)),
        model_(model_on(context, device_, options)),
        optimizer_(optim::make_base(options.optimizer, model_->parameters(), 0, 1)),
        data_(data::open_data(options.data, *model_, data_options(options, context.workers(), device_))),
        guard_(context.rank(), options.on_nonfinite, *model_),
        metrics_(context, options.out),
        advised_(context, options.advisor) {
    resume();
    distributed_ =
        parallel::distribute(context, *model_, *optimizer_,
                             {.strategy = options.strategy,
                              .seed = options.seed,
                              .overlap_forward = options.overlap_forward && !models::is_script(options.model),
                              .clip_norm = options.optimizer.clip_norm,
                              .on_nonfinite = options.on_nonfinite,
                              .examples = examples_of(context, options),
                              .shares = shares_of(options),
                              .first_step = resumed_ ? resumed_->step : 0});
    restore_rng();
    tested_ = is_tested(options, *data_);
    if (context.rank() == 0 && tested_) {
      examiner_ = std::make_unique<Examiner>(options.model, device_, *data_, distributed_->range().count);
    }
    warmup_ = warmup_steps(steps_left(first_step(), options.steps));
  }

  int64_t first_step() const { return resumed_ ? resumed_->step : 0; }

  bool stops_before(int64_t step, bool enough) override;
  double make(int64_t step, const TrainingClock& clock) override;
  void complete() override { distributed_->finish(); }
  std::optional<Test> test(int64_t step, TrainingClock& clock) override;
  void save(int64_t step, bool last) override;
  void finish(TrainReport& report) override;

 private:
  void resume();
  void restore_rng();
  void write_checkpoint(int64_t step);
  void set_aside_unproven();
  void switch_if_due(int64_t step);
  void set_rate(int64_t step, double wall_s);
  void summarise(TrainReport& report);

  job::Context& context_;
  const TrainOptions& options_;
  torch::Device device_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<data::Data> data_;
  StepGuard guard_;
  Metrics metrics_;
  trials::Advised advised_;
  std::optional<checkpoint::CheckpointInfo> resumed_;
  std::unique_ptr<parallel::Distributed> distributed_;
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  std::optional<int64_t> unproven_;     // the last checkpoint: no loss has come from its parameters yet
  int64_t warmup_ = 0;                  // steps whose times do not count
  std::vector<double> step_times_, compute_times_;
  uint64_t bytes_before_ = 0;
  double first_loss_ = NAN;
  double last_loss_ = NAN;
};

void Training::resume() {
  if (options_.resume.empty()) return;
  resumed_ = parallel::load_everywhere(context_, options_.resume, *model_, *optimizer_);
  if (!resumed_) bad_input("`resume` {}: no checkpoint there", options_.resume.string());
  check_resumed(*resumed_, options_);
  optim::set_rate(*optimizer_, options_.optimizer.rate_of(0, 1));  // this job's, not that of the one before
}

void Training::restore_rng() {
  if (!resumed_) return;
  parallel::restore_rng(context_, *resumed_);
  log_info("resumed after step {}", resumed_->step);
}

void Training::save(int64_t step, bool last) {
  if (options_.out.empty()) return;
  const bool due = options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  if (due != last) write_checkpoint(step);  // the last step's: unless it was written when it was made
}

// Collective: every rank's random numbers go into the one file that rank 0 writes.
void Training::write_checkpoint(int64_t step) {
  distributed_->finish();
  guard_.check_parameters("after the last update");
  checkpoint::CheckpointInfo info;
  info.step = step;
  info.data_position = step;
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = distributed_->strategy().id;
  parallel::save_on_rank_0(context_, options_.out, 2, std::move(info), *model_, *optimizer_);
  unproven_ = step;
}

// After a rate that is too high the parameters may still be finite, and the next loss is not: a checkpoint
// made in between must not be what the job is resumed from.
void Training::set_aside_unproven() {
  if (!unproven_ || options_.on_nonfinite != NonFinite::kStop) return;
  if (const auto path = checkpoint::Checkpoints(options_.out).set_aside(*unproven_)) {
    log_warn("set aside as {}: its parameters give a loss that is not finite", path->string());
  }
  unproven_.reset();
}

void Training::switch_if_due(int64_t step) {
  for (const auto& [when, wanted] : options_.switches) {
    if (when != step) continue;
    distributed_->switch_strategy(wanted.made_for(distributed_->graph(), context_.cluster, options_.seed));
    log_info("step {}: strategy {}", step, distributed_->strategy().id);
  }
}

// Updates of the last step that are still to be made go by its own rate.
void Training::set_rate(int64_t step, double wall_s) {
  const strategy::Optimizer& settings = options_.optimizer;
  if (settings.rate_schedule == "constant" && settings.warmup == 0) return;
  if (options_.seconds > 0 && context_.workers() > 1) {
    bad_input("`rate_schedule` {} `seconds`: workers' clocks differ, their rates may not; allowed: `steps`",
              settings.rate_schedule);
  }
  const double by_steps = static_cast<double>(step) / static_cast<double>(options_.steps);
  const double done = options_.seconds > 0 ? std::max(by_steps, wall_s / options_.seconds) : by_steps;
  optim::set_rate(*optimizer_, settings.rate_of(0, 1) * settings.rate_factor(done));
}

// The clock stands meanwhile. Every worker has the same parameters: rank 0's will do.
std::optional<Test> Training::test(int64_t step, TrainingClock& clock) {
  distributed_->finish();
  if (!examiner_) return std::nullopt;
  const auto start = Clock::now();
  const double wall_s = clock.seconds();
  const auto verdict =
      examiner_->examine(model_->parameters(), options_.bn_recompute, step, model_->buffers());
  const Test test{step, wall_s, verdict.loss, verdict.error, last_loss_, {}, {}};
  metrics_.test(test);
  clock.pause(seconds_since(start));
  return test;
}

bool Training::stops_before(int64_t step, bool enough) {
  const auto change = [this](const strategy::Strategy& wanted) { distributed_->switch_strategy(wanted); };
  if (advised_.before_step(change, enough, step + 1 == options_.steps) == job::Order::Kind::kStop) {
    return true;
  }
  if (step > first_step()) switch_if_due(step);
  return false;
}

double Training::make(int64_t step, const TrainingClock& clock) {
  const int64_t done = step - first_step();
  if (done == warmup_) bytes_before_ = context_.transport->bytes_sent();
  const auto start = Clock::now();
  const parallel::Times before = distributed_->times();
  guard_.begin(step);
  const plan::MicroBatch range = distributed_->range();
  const torch::Tensor loss = model_->loss(data_->training(step, range.begin, range.count));
  const double forward = seconds_since(start) - (distributed_->times().waited - before.waited) -
                         (distributed_->times().updated - before.updated);
  last_loss_ = loss.item<double>();
  if (done == 0) first_loss_ = last_loss_;
  if (!std::isfinite(last_loss_)) set_aside_unproven();
  set_rate(step, clock.seconds());
  const int64_t skipped = distributed_->skipped_steps();
  distributed_->step(loss);
  unproven_.reset();
  if (distributed_->skipped_steps() > skipped) guard_.put_back_buffers();
  const double seconds = seconds_since(start);
  metrics_.step(
      step, last_loss_, seconds,
      {{"bytes_sent", context_.transport->bytes_sent()}, {"strategy", distributed_->strategy().id}});
  if (done > 0) {
    advised_.after_step(step, seconds, distributed_->strategy().id,
                        [this] { return distributed_->profiled_graph(); });
  }
  if (done >= warmup_) {
    step_times_.push_back(seconds);
    compute_times_.push_back(forward + distributed_->times().backward - before.backward);
  }
  if (options_.compare_every > 0 && (step + 1) % options_.compare_every == 0) distributed_->compare();
  return last_loss_;
}

void Training::finish(TrainReport& report) {
  guard_.check_parameters("after the last update");
  if (context_.rank() == 0) save_results(*model_, options_);
  summarise(report);
}

// Rank 0 gathers what the others measured. Servers answer in train() below.
void Training::summarise(TrainReport& report) {
  const double steps = std::max<double>(1, static_cast<double>(step_times_.size()));
  const double bytes = static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps;
  const auto range = static_cast<double>(distributed_->range().count);
  const double share = range / static_cast<double>(examples_per_update(options_, context_.workers()));
  const nlohmann::json own = {{"first", share * first_loss_},
                              {"last", share * last_loss_},
                              {"bytes", bytes},
                              {"saturated", collective::saturated_values()}};
  report.graph = distributed_->graph();
  report.strategy_id = distributed_->strategy().id;
  if (options_.shape) report.shape = strategy::to_text(*options_.shape);
  report.skipped_updates = distributed_->skipped_steps();
  const plan::Plan plan = distributed_->plan();
  report.link_bound = plan::link_bound(plan, report.graph, context_.cluster);
  report.link_bound_best = plan::best_link_bound(plan, report.graph, context_.cluster);
  distributed_.reset();
  job::end_serving(context_);  // they come to the gathering, too
  const auto all = transport::gather(*context_.transport, 0, own.dump(), transport::tags::kSummary,
                                     Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  report.step_times = step_times_;
  report.compute_time = compute_times_.empty() ? 0 : median(compute_times_);
  report.first_loss = report.last_loss = 0;
  const auto planned = plan::bytes_sent(plan, report.graph);
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    report.saturated_values += json["saturated"].get<uint64_t>();
    if (!context_.cluster.is_worker(rank)) {
      report.bytes_sent.push_back(static_cast<double>(planned[rank]));
      continue;
    }
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.first_loss += number_of(json["first"]);
    report.last_loss += number_of(json["last"]);
  }
}

}  // namespace

TrainReport train(job::Context& context, const TrainOptions& options) {
  agree_on_settings(context, options);
  for (const auto& [step, wanted] : options.switches) {
    if (wanted.stored()) strategy::check_parts(*wanted.stored(), wanted.text());
  }
  if (options.optimizer.rule == "hogwild") return train_hogwild(context, options);
  if (options.optimizer.apart()) return train_apart(context, options);
  if (context.trains() && way_of(context, options) != Way::kWhole)
    return train_through_cells(context, options);
  if (context.trains()) {
    Training training(context, options);
    return run_loop(context, options, training.first_step(), training);
  }
  parallel::serve(context);
  const nlohmann::json own = {{"saturated", collective::saturated_values()}};
  transport::gather(*context.transport, 0, own.dump(), transport::tags::kSummary,
                    Deadline::after(context.job.timeout_s), "summary of the run");
  return {};
}

}  // namespace entrain::train
