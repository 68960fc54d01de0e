#include "entrain/train/pipelined.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/collective/cast.h"
#include "entrain/data/data.h"
#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/job/step_control.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/pipelined.h"
#include "entrain/train/examiner.h"
#include "entrain/train/loop.h"
#include "entrain/train/metrics.h"
#include "entrain/train/model_files.h"
#include "entrain/train/steps.h"
#include "entrain/transport/control_tags.h"

namespace entrain::train {
namespace {

class PipelinedTraining final : public Run {
 public:
  PipelinedTraining(job::Context& context, const TrainOptions& options);

  int64_t first_step() const { return resumed_ ? resumed_->step : 0; }

  bool stops_before(int64_t step, bool enough) override;
  double make(int64_t step, const TrainingClock& clock) override;
  std::optional<Test> test(int64_t step, TrainingClock& clock) override;
  void save(int64_t step, bool last) override;
  void finish(TrainReport& report) override;

 private:
  void take_times(double passed, double wall);
  void summarise(TrainReport& report);

  job::Context& context_;
  const TrainOptions& options_;
  const strategy::Optimizer& settings_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<data::Data> data_;
  std::optional<checkpoint::CheckpointInfo> resumed_;
  std::unique_ptr<parallel::Pipelined> pipelined_;
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  Metrics metrics_;
  job::StepControl control_;
  int64_t warmup_ = 0;  // steps whose times do not count
  std::vector<double> step_times_;
  std::vector<pipeline::DeviceTimes> times_;             // by device that is here
  std::vector<std::vector<pipeline::Span>> last_spans_;  // of the last step, when a trace is wanted
  double first_loss_ = NAN, last_loss_ = NAN;
  uint64_t bytes_before_ = 0;
};

PipelinedTraining::PipelinedTraining(job::Context& context, const TrainOptions& options)
    : context_(context),
      options_(options),
      settings_(options.optimizer),
      model_(initial_model(options)),
      metrics_(context, options.out),
      control_(context) {
  const strategy::Pipeline& wanted = options.pipeline;
  if (options.seconds > 0 && (settings_.rate_schedule != "constant" || settings_.warmup > 0)) {
    bad_input("`rate_schedule` {} or `warmup` with `seconds` in a pipeline: allowed: `steps`",
              settings_.rate_schedule);
  }
  if (options.on_nonfinite == NonFinite::kSkip) {
    bad_input("on non-finite is skip: not supported with a pipeline, allowed: stop");
  }
  const layers::Sequence sequence = model_->sequence();
  if (sequence.layers.empty()) {
    bad_input("`model` {}: not a sequence of layers, so no pipeline can run it", options.model);
  }
  const auto place = parallel::place_of(context, wanted);
  data_ =
      data::open_data(options.data, *model_,
                      {options.batch_size, options.seed, place.replica, place.replicas, true, torch::kCPU});
  pipelined_ =
      std::make_unique<parallel::Pipelined>(context, *model_, sequence, data_->training(0),
                                            parallel::PipelinedOptions{.pipeline = wanted,
                                                                       .strategy = options.strategy,
                                                                       .device = options.device,
                                                                       .seed = options.seed,
                                                                       .clip_norm = settings_.clip_norm});
  optimizer_ = optim::make_base(settings_, model_->parameters(), 0, 1);
  if (!options.resume.empty()) {
    resumed_ = checkpoint::Checkpoints(options.resume).load_newest(*model_, *optimizer_);
    if (!resumed_ || resumed_->model != options.model) {
      bad_input("`resume` {}: no checkpoint of {} there", options.resume.string(), options.model);
    }
    job::agree_on_resumed_step(context, resumed_->step);
    log_info("resumed after step {}", resumed_->step);
  }
  pipelined_->use(*optimizer_, first_step());
  times_.resize(place.ranks ? 1 : static_cast<size_t>(wanted.devices));
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    examiner_ = std::make_unique<Examiner>(options.model, torch::kCPU, *data_);
  }
  warmup_ = warmup_steps(steps_left(first_step(), options.steps));
}

bool PipelinedTraining::stops_before(int64_t step, bool enough) {
  return control_.next(false, enough, step + 1 == options_.steps) == job::Order::Kind::kStop;
}

double PipelinedTraining::make(int64_t step, const TrainingClock&) {
  const int64_t done = step - first_step();
  if (done == warmup_) {
    bytes_before_ = context_.transport->bytes_sent();
    for (auto& times : times_) times = {};
  }
  const auto start = Clock::now();
  const models::Batch batch = data_->training(step);
  const auto ran = Clock::now();
  last_loss_ = pipelined_->run(batch.input, batch.target);
  const double share = static_cast<double>(step) / static_cast<double>(options_.steps);
  optim::set_rate(*optimizer_, settings_.rate_of(0, 1) * settings_.rate_factor(share));
  pipelined_->update();
  take_times(pipelined_->pass_seconds(), seconds_since(ran));
  const double seconds = seconds_since(start);
  if (done == 0) first_loss_ = last_loss_;
  if (done >= warmup_) step_times_.push_back(seconds);
  metrics_.step(step, last_loss_, seconds, nlohmann::json::object());
  return last_loss_;
}

// Of the step that took `wall` seconds, whose passes were done after `passed`.
void PipelinedTraining::take_times(double passed, double wall) {
  auto spans = pipelined_->engine().spans();
  for (size_t d = 0; d < spans.size(); ++d) {
    // A device that is done early waits for the others at the end of the passes.
    const double idle_from = spans[d].empty() ? 0 : spans[d].back().end_s;
    spans[d].push_back({pipeline::Span::Kind::kWait, -1, -1, idle_from, std::max(idle_from, passed)});
    spans[d].push_back({pipeline::Span::Kind::kUpdate, -1, -1, passed, wall});
    times_[d].add(spans[d], wall, options_.pipeline.devices);
  }
  if (!options_.trace.empty()) last_spans_ = std::move(spans);
}

void PipelinedTraining::save(int64_t step, bool last) {
  const bool due = options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  if (options_.out.empty() || due == last) return;  // the last step's was written when it was made
  pipelined_->gather();
  if (context_.rank() != 0) return;
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.world = context_.world();
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = fmt::format("pipeline {}x{}", options_.pipeline.devices, pipelined_->place().replicas);
  checkpoint::Checkpoints(options_.out).save(info, *model_, *optimizer_);
}

std::optional<Test> PipelinedTraining::test(int64_t step, TrainingClock& clock) {
  if (!tested_) return std::nullopt;
  const auto start = Clock::now();
  const double wall_s = clock.seconds();
  std::optional<Test> result;
  pipelined_->gather();
  if (examiner_) {
    const auto verdict =
        examiner_->examine(model_->parameters(), options_.bn_recompute, step, model_->buffers());
    result = Test{step, wall_s, verdict.loss, verdict.error, last_loss_, {}, {}};
    metrics_.test(*result);
  }
  clock.pause(seconds_since(start));
  return result;
}

void PipelinedTraining::finish(TrainReport& report) {
  if (!options_.save.empty() || !options_.save_model.empty()) {
    pipelined_->gather();
    if (context_.rank() == 0) save_results(*model_, options_);
  }
  summarise(report);
}

// Rank 0 gathers what every device of its own pipeline did.
void PipelinedTraining::summarise(TrainReport& report) {
  const double steps = std::max<double>(1, static_cast<double>(step_times_.size()));
  nlohmann::json own = {
      {"bytes", static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps},
      {"loss", {first_loss_, last_loss_}},
      {"saturated", collective::saturated_values()},
      {"devices", nlohmann::json::array()},
      {"spans", pipeline::to_json(last_spans_)}};
  for (const auto& times : times_) own["devices"].push_back(pipeline::to_json(times));
  const auto all = job::gather_from_workers(context_, own.dump(), transport::tags::kSummary,
                                            Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  std::vector<pipeline::DeviceTimes> devices;
  std::vector<std::vector<pipeline::Span>> spans;
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.saturated_values += json["saturated"].get<uint64_t>();
    if (rank % static_cast<int>(pipelined_->place().pipeline.size()) == 0) {
      report.first_loss += number_of(json["loss"][0]) / pipelined_->place().replicas;
      report.last_loss += number_of(json["loss"][1]) / pipelined_->place().replicas;
    }
    if (rank >= static_cast<int>(pipelined_->place().pipeline.size())) continue;
    for (const auto& times : json["devices"]) devices.push_back(pipeline::device_times_from_json(times));
    for (auto& of_device : pipeline::spans_from_json(json["spans"])) spans.push_back(std::move(of_device));
  }
  report.step_times = step_times_;
  report.strategy_id = pipelined_->strategy_id();
  report.pipeline = pipeline::break_down(pipelined_->engine().schedule(), devices);
  report.balance = pipelined_->balance();
  report.compute_time = (report.pipeline->compute + report.pipeline->recompute) / steps;
  if (!options_.trace.empty() && !spans.empty())
    write_file_atomically(options_.trace, pipeline::chrome_trace(spans));
}

}  // namespace

TrainReport train_pipelined(job::Context& context, const TrainOptions& options) {
  PipelinedTraining training(context, options);
  return run_loop(context, options, training.first_step(), training);
}

}  // namespace entrain::train
