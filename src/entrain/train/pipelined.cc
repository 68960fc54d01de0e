#include "entrain/train/pipelined.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
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
#include "entrain/optim/finite.h"
#include "entrain/parallel/device.h"
#include "entrain/parallel/pipeline_balance.h"
#include "entrain/parallel/pipeline_state.h"
#include "entrain/parallel/replica_sync.h"
#include "entrain/pipeline/plan/partition.h"
#include "entrain/pipeline/run/assemble.h"
#include "entrain/pipeline/run/rank_pipeline.h"
#include "entrain/pipeline/run/thread_pipeline.h"
#include "entrain/train/examiner.h"
#include "entrain/train/loop.h"
#include "entrain/train/metrics.h"
#include "entrain/train/model_files.h"
#include "entrain/train/steps.h"
#include "entrain/transport/control_tags.h"

namespace entrain {
namespace {

// Which pipeline this rank is of, and which device of it.
struct Place {
  bool ranks = false;  // a device is a rank; else a thread of each rank
  int replica = 0, replicas = 1;
  int device = 0;             // of this rank; threads: 0
  std::vector<int> pipeline;  // ranks of this pipeline, by device
  std::vector<int> twins;     // ranks with the same cells as this one
};

Place place_of(const Context& context, const strategy::Pipeline& pipeline) {
  const int world = context.world(), devices = pipeline.devices;
  if (context.workers() != world) {
    bad_input("a pipeline on a cluster with hosts that only serve: not allowed; {} of {} ranks train",
              context.workers(), world);
  }
  Place place;
  place.ranks = devices > 1 && (pipeline.cells == "ranks" || (pipeline.cells == "auto" && world >= devices));
  if (place.ranks && world % devices != 0) {
    bad_input("`pipeline` {} on {} ranks: allowed: a number of ranks that {} divides, or `cells` threads",
              devices, world, devices);
  }
  const int width = place.ranks ? devices : 1;
  place.replica = context.rank() / width;
  place.replicas = world / width;
  place.device = context.rank() % width;
  for (int d = 0; d < width; ++d) place.pipeline.push_back(place.replica * width + d);
  for (int r = 0; r < place.replicas; ++r) place.twins.push_back(r * width + place.device);
  return place;
}

class PipelinedTraining final : public Run {
 public:
  PipelinedTraining(Context& context, const TrainOptions& options);

  int64_t first_step() const { return resumed_ ? resumed_->step : 0; }

  bool stops_before(int64_t step, bool enough) override;
  double make(int64_t step, const TrainingClock& clock) override;
  std::optional<Test> test(int64_t step, TrainingClock& clock) override;
  void save(int64_t step, bool last) override;
  void finish(TrainReport& report) override;

 private:
  void clip();
  bool counts_here(const torch::Tensor& parameter) const;
  void take_times(double passed, double wall);
  void gather_at_rank_0();
  void summarise(TrainReport& report);

  Context& context_;
  const TrainOptions& options_;
  const strategy::Optimizer& settings_;
  Place place_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<Data> data_;
  std::optional<CheckpointInfo> resumed_;
  std::unique_ptr<pipeline::Engine> engine_;
  pipeline::RankPipeline* rank_engine_ = nullptr;  // engine_, when cells are ranks
  optim::NamedTensors named_;                      // engine_'s parameters
  std::unique_ptr<ReplicaSync> sync_;              // with replicas
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  Metrics metrics_;
  StepControl control_;
  int64_t warmup_ = 0;  // steps whose times do not count
  std::vector<double> step_times_;
  std::vector<pipeline::DeviceTimes> times_;  // by device that is here
  std::vector<int> balance_;
  std::vector<std::vector<pipeline::Span>> last_spans_;  // of the last step, when a trace is wanted
  double first_loss_ = NAN, last_loss_ = NAN;
  uint64_t bytes_before_ = 0;
};

PipelinedTraining::PipelinedTraining(Context& context, const TrainOptions& options)
    : context_(context),
      options_(options),
      settings_(options.optimizer),
      place_(place_of(context, options.pipeline)),
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
  if (options.device != "cpu" && place_.ranks) {
    bad_input("`device` {} with cells that are ranks: allowed: `cells` threads, or cpu", options.device);
  }
  const layers::Sequence sequence = model_->sequence();
  if (sequence.layers.empty()) {
    bad_input("`model` {}: not a sequence of layers, so no pipeline can run it", options.model);
  }
  if (options.batch_size < wanted.micro_batches) {
    bad_input("`micro_batches` {} of `batch_size` {}: allowed: 1 to {}", wanted.micro_batches,
              options.batch_size, options.batch_size);
  }
  data_ = open_data(options.data, *model_,
                    {options.batch_size, options.seed, place_.replica, place_.replicas, true, torch::kCPU});
  balance_ = agree_on_balance(context, wanted, sequence, data_->training(0));
  if (options.device != "cpu") {
    const auto places = gpus_of(context, wanted.devices);
    pipeline::place_cells(sequence, pipeline::cut(sequence.layers, balance_), places);
  }
  optimizer_ = optim::make_base(settings_, model_->parameters(), 0, 1);
  if (!options.resume.empty()) {
    resumed_ = Checkpoints(options.resume).load_newest(*model_, *optimizer_);
    if (!resumed_ || resumed_->model != options.model) {
      bad_input("`resume` {}: no checkpoint of {} there", options.resume.string(), options.model);
    }
    agree_on_resumed_step(context, resumed_->step);
    log_info("resumed after step {}", resumed_->step);
  }
  pipeline::Options engine;
  engine.balance = balance_;
  engine.devices = wanted.devices;
  engine.chunks = wanted.chunks;
  engine.micro_batches = wanted.micro_batches;
  engine.schedule = wanted.schedule;
  engine.remat = pipeline::parse_remat(wanted.remat);
  // Replicas see different examples: their random numbers differ too.
  engine.seed = options.seed + static_cast<uint64_t>(place_.replica) * 1'000'003;
  engine.loss_scale = 1.0 / place_.replicas;  // summed over replicas, gradients are the mean's
  if (place_.ranks) {
    auto made = std::make_unique<pipeline::RankPipeline>(*context.transport, place_.pipeline, sequence,
                                                         engine, context.job.timeout_s);
    rank_engine_ = made.get();
    engine_ = std::move(made);
    if (context.rank() != 0) keep_only(*model_, rank_engine_->parameters(), rank_engine_->buffers());
  } else {
    engine_ = std::make_unique<pipeline::ThreadPipeline>(sequence, engine);
  }
  engine_->set_steps(resumed_ ? resumed_->step : 0);
  const auto parameters = engine_->parameters();
  for (const auto& item : model_->named_parameters()) {
    const auto same = [&](const torch::Tensor& parameter) { return parameter.is_same(item.value()); };
    if (std::any_of(parameters.begin(), parameters.end(), same))
      named_.emplace_back(item.key(), item.value());
  }
  times_.resize(place_.ranks ? 1 : static_cast<size_t>(wanted.devices));
  if (place_.replicas > 1) {
    sync_ = std::make_unique<ReplicaSync>(context, place_.twins, options.strategy, options.seed,
                                          named(*model_, parameters));
  }
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    examiner_ = std::make_unique<Examiner>(options.model, torch::kCPU, *data_);
  }
  warmup_ = warmup_steps(steps_left(first_step(), options.steps));
}

bool PipelinedTraining::stops_before(int64_t step, bool enough) {
  return control_.next(false, enough, step + 1 == options_.steps) == Order::Kind::kStop;
}

bool PipelinedTraining::counts_here(const torch::Tensor& parameter) const {
  return rank_engine_ == nullptr || rank_engine_->counts_here(parameter);
}

// By the norm of all cells' gradients together.
void PipelinedTraining::clip() {
  if (settings_.clip_norm == 0) return;
  const torch::NoGradGuard no_grad;
  const auto parameters = engine_->parameters();
  double squares = 0;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined() && counts_here(parameter)) {
      squares += parameter.grad().to(torch::kDouble).square().sum().item<double>();
    }
  }
  if (rank_engine_ != nullptr) squares = rank_engine_->sum(squares);
  const double scale = settings_.clip_norm / (std::sqrt(squares) + 1e-6);
  if (scale >= 1) return;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(scale);
  }
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
  // Not zeroed in place, as libtorch 1.13 does: the first micro-batch's gradients become the parameters' own.
  for (const auto& parameter : engine_->parameters()) parameter.mutable_grad().reset();
  last_loss_ = engine_->run(batch.input, batch.target);
  const double passed = seconds_since(ran);
  if (sync_) sync_->sum(step);
  if (rank_engine_ != nullptr) rank_engine_->sum_tied();
  if (const auto trouble = optim::trouble_with(last_loss_, named_)) {
    optim::stop_at_non_finite(context_.rank(), step, *trouble);
  }
  clip();
  const double share = static_cast<double>(step) / static_cast<double>(options_.steps);
  optim::set_rate(*optimizer_, settings_.rate_of(0, 1) * settings_.rate_factor(share));
  optimizer_->step();
  if (const auto name = optim::first_non_finite(named_)) {
    optim::stop_at_non_finite(context_.rank(), step, fmt::format("{} is not finite after the update", *name));
  }
  take_times(passed, seconds_since(ran));
  const double seconds = seconds_since(start);
  if (done == 0) first_loss_ = last_loss_;
  if (done >= warmup_) step_times_.push_back(seconds);
  metrics_.step(step, last_loss_, seconds, nlohmann::json::object());
  return last_loss_;
}

// Of the step that took `wall` seconds, whose passes were done after `passed`.
void PipelinedTraining::take_times(double passed, double wall) {
  auto spans = engine_->spans();
  for (size_t d = 0; d < spans.size(); ++d) {
    // A device that is done early waits for the others at the end of the passes.
    const double idle_from = spans[d].empty() ? 0 : spans[d].back().end_s;
    spans[d].push_back({pipeline::Span::Kind::kWait, -1, -1, idle_from, std::max(idle_from, passed)});
    spans[d].push_back({pipeline::Span::Kind::kUpdate, -1, -1, passed, wall});
    times_[d].add(spans[d], wall, options_.pipeline.devices);
  }
  if (!options_.trace.empty()) last_spans_ = std::move(spans);
}

// Collective: the whole model and its optimizer's state.
void PipelinedTraining::gather_at_rank_0() {
  if (place_.ranks) gather_model(context_, place_.pipeline, *rank_engine_, *model_, *optimizer_);
}

void PipelinedTraining::save(int64_t step, bool last) {
  const bool due = options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  if (options_.out.empty() || due == last) return;  // the last step's was written when it was made
  gather_at_rank_0();
  if (context_.rank() != 0) return;
  CheckpointInfo info;
  info.step = info.data_position = step;
  info.world = context_.world();
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = fmt::format("pipeline {}x{}", options_.pipeline.devices, place_.replicas);
  Checkpoints(options_.out).save(info, *model_, *optimizer_);
}

std::optional<Test> PipelinedTraining::test(int64_t step, TrainingClock& clock) {
  if (!tested_) return std::nullopt;
  const auto start = Clock::now();
  const double wall_s = clock.seconds();
  std::optional<Test> result;
  gather_at_rank_0();
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
    gather_at_rank_0();
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
  const auto all = gather_from_workers(context_, own.dump(), transport::tags::kSummary,
                                       Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  std::vector<pipeline::DeviceTimes> devices;
  std::vector<std::vector<pipeline::Span>> spans;
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.saturated_values += json["saturated"].get<uint64_t>();
    if (rank % static_cast<int>(place_.pipeline.size()) == 0) {
      report.first_loss += number_of(json["loss"][0]) / place_.replicas;
      report.last_loss += number_of(json["loss"][1]) / place_.replicas;
    }
    if (rank >= static_cast<int>(place_.pipeline.size())) continue;
    for (const auto& times : json["devices"]) devices.push_back(pipeline::device_times_from_json(times));
    for (auto& of_device : pipeline::spans_from_json(json["spans"])) spans.push_back(std::move(of_device));
  }
  report.step_times = step_times_;
  report.strategy_id = sync_ ? sync_->strategy_id() : "pipeline";
  report.pipeline = pipeline::break_down(engine_->schedule(), devices);
  report.balance = balance_;
  report.compute_time = (report.pipeline->compute + report.pipeline->recompute) / steps;
  if (!options_.trace.empty() && !spans.empty())
    write_file_atomically(options_.trace, pipeline::chrome_trace(spans));
}

}  // namespace

TrainReport train_pipelined(Context& context, const TrainOptions& options) {
  PipelinedTraining training(context, options);
  return run_loop(context, options, training.first_step(), training);
}

}  // namespace entrain
