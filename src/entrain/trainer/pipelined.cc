#include "entrain/trainer/pipelined.h"

#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/optim/base.h"
#include "entrain/pipeline/assemble.h"
#include "entrain/pipeline/partition.h"
#include "entrain/pipeline/rank_pipeline.h"
#include "entrain/pipeline/thread_pipeline.h"
#include "entrain/trainer/agreement.h"
#include "entrain/trainer/captain.h"
#include "entrain/trainer/checkpoint.h"
#include "entrain/trainer/data/data.h"
#include "entrain/trainer/device.h"
#include "entrain/trainer/examiner.h"
#include "entrain/trainer/model_files.h"
#include "entrain/trainer/pipeline_balance.h"
#include "entrain/trainer/pipeline_state.h"
#include "entrain/trainer/replica_sync.h"
#include "entrain/trainer/steps.h"
#include "entrain/trainer/worker_talk.h"

namespace entrain {
namespace {

constexpr transport::Tag kSummaryTag = transport::kControlTags + 30;

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
    bad_input("--pipeline {} on {} ranks: allowed: a number of ranks that {} divides, or --cells threads",
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

class PipelinedTraining {
 public:
  PipelinedTraining(Context& context, const TrainOptions& options);
  TrainReport run();

 private:
  double one_step(int64_t step);
  void clip();
  bool counts_here(const torch::Tensor& parameter) const;
  void save(int64_t step);
  void test(int64_t step, double wall_s, TrainReport& report);
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
  std::unique_ptr<ReplicaSync> sync_;              // with replicas
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  std::optional<LineLog> metrics_;
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
      model_(initial_model(options)) {
  const strategy::Pipeline& wanted = options.pipeline;
  if (options.seconds > 0 && (settings_.rate_schedule != "constant" || settings_.warmup > 0)) {
    bad_input("--lr-schedule {} or --warmup with --seconds in a pipeline: allowed: --steps",
              settings_.rate_schedule);
  }
  if (options.device != "cpu" && place_.ranks) {
    bad_input("--device {} with cells that are ranks: allowed: --cells threads, or cpu", options.device);
  }
  const layers::Sequence sequence = model_->sequence();
  if (sequence.layers.empty()) {
    bad_input("--model {}: not a sequence of layers, so no pipeline can run it", options.model);
  }
  if (options.batch_size < wanted.micro_batches) {
    bad_input("--micro-batches {} of --batch-size {}: allowed: 1 to {}", wanted.micro_batches,
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
      bad_input("--resume {}: no checkpoint of {} there", options.resume.string(), options.model);
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
  times_.resize(place_.ranks ? 1 : static_cast<size_t>(wanted.devices));
  if (place_.replicas > 1) {
    sync_ = std::make_unique<ReplicaSync>(context, place_.twins, options.strategy, options.seed,
                                          named(*model_, engine_->parameters()));
  }
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    examiner_ = std::make_unique<Examiner>(options.model, torch::kCPU, *data_);
  }
  if (context.rank() == 0 && !options.out.empty()) {
    std::filesystem::create_directories(options.out);
    metrics_.emplace(options.out / "metrics.jsonl");
  }
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

// Returns the seconds that it took.
double PipelinedTraining::one_step(int64_t step) {
  const auto start = Clock::now();
  const models::Batch batch = data_->training(step);
  const auto ran = Clock::now();
  // Not zeroed in place, as libtorch 1.13 does: the first micro-batch's gradients become the parameters' own.
  for (const auto& parameter : engine_->parameters()) parameter.mutable_grad().reset();
  last_loss_ = engine_->run(batch.input, batch.target);
  if (!std::isfinite(last_loss_)) {
    fail("rank {}: the loss is {} at step {}; a lower --lr or --clip may help", context_.rank(), last_loss_,
         step);
  }
  const double passed = seconds_since(ran);
  if (sync_) sync_->sum(step);
  if (rank_engine_ != nullptr) rank_engine_->sum_tied();
  clip();
  const double done = static_cast<double>(step) / static_cast<double>(options_.steps);
  optim::set_rate(*optimizer_, settings_.rate_of(0, 1) * settings_.rate_factor(done));
  optimizer_->step();
  const double wall = seconds_since(ran);
  auto spans = engine_->spans();
  for (size_t d = 0; d < spans.size(); ++d) {
    // A device that is done early waits for the others at the end of the passes.
    const double idle_from = spans[d].empty() ? 0 : spans[d].back().end_s;
    spans[d].push_back({pipeline::Span::Kind::kWait, -1, -1, idle_from, std::max(idle_from, passed)});
    spans[d].push_back({pipeline::Span::Kind::kUpdate, -1, -1, passed, wall});
    times_[d].add(spans[d], wall, options_.pipeline.devices);
  }
  if (!options_.trace.empty()) last_spans_ = std::move(spans);
  return seconds_since(start);
}

void PipelinedTraining::save(int64_t step) {
  if (options_.out.empty()) return;
  if (place_.ranks) gather_model(context_, place_.pipeline, *rank_engine_, *model_, *optimizer_);
  if (context_.rank() != 0) return;
  CheckpointInfo info;
  info.step = info.data_position = step;
  info.world = context_.world();
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = fmt::format("pipeline {}x{}", options_.pipeline.devices, place_.replicas);
  Checkpoints(options_.out).save(info, *model_, *optimizer_);
}

void PipelinedTraining::test(int64_t step, double wall_s, TrainReport& report) {
  if (place_.ranks) gather_model(context_, place_.pipeline, *rank_engine_, *model_, *optimizer_);
  if (!examiner_) return;
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : model_->parameters()) flat.push_back(parameter.detach().cpu().flatten());
  const auto verdict = examiner_->examine(torch::cat(flat), options_.bn_recompute, step, model_->buffers());
  report.tests.push_back({step, wall_s, verdict.loss, verdict.error, last_loss_, {}, {}});
  if (metrics_) {
    metrics_->append(nlohmann::json{
        {"step", step}, {"wall_s", wall_s}, {"test_loss", verdict.loss}, {"test_error", verdict.error}}
                         .dump());
  }
}

TrainReport PipelinedTraining::run() {
  TrainReport report;
  report.first_step = resumed_ ? resumed_->step : 0;
  const int64_t warmup = warmup_steps(steps_left(report.first_step, options_.steps));
  Progress progress("step", shown_total(options_.steps), options_.progress && context_.rank() == 0);
  Captain captain(context_);
  const auto begin = Clock::now();
  double paused_s = 0;
  int64_t step = report.first_step;
  for (; step < options_.steps; ++step) {
    const bool enough = options_.seconds > 0 && seconds_since(begin) - paused_s >= options_.seconds;
    if (captain.word(false, enough, step + 1 == options_.steps) == Word::kStop) {
      report.interrupted = stop_was_requested();
      break;
    }
    if (step - report.first_step == warmup) {
      bytes_before_ = context_.transport->bytes_sent();
      for (auto& times : times_) times = {};
    }
    const double seconds = one_step(step);
    if (step == report.first_step) first_loss_ = last_loss_;
    if (step - report.first_step >= warmup) report.step_times.push_back(seconds);
    if (metrics_) {
      metrics_->append(nlohmann::json{{"step", step}, {"loss", last_loss_}, {"step_time_s", seconds}}.dump());
    }
    if (options_.test_every > 0 && (step + 1) % options_.test_every == 0 && step + 1 < options_.steps) {
      const auto pause = Clock::now();
      test(step + 1, Seconds(pause - begin).count() - paused_s, report);
      paused_s += seconds_since(pause);
    }
    if (options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0) save(step + 1);
    progress.update(step + 1, fmt::format("loss {:.4f}", last_loss_));
  }
  report.total_time = seconds_since(begin) - paused_s;
  if (tested_) test(step, report.total_time, report);
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) save(step);
  if (!options_.save.empty() || !options_.save_model.empty()) {
    if (place_.ranks) gather_model(context_, place_.pipeline, *rank_engine_, *model_, *optimizer_);
    if (context_.rank() == 0) save_results(*model_, options_);
  }
  summarise(report);
  return report;
}

// Rank 0 gathers what every device of its own pipeline did.
void PipelinedTraining::summarise(TrainReport& report) {
  const double steps = std::max<double>(1, static_cast<double>(report.step_times.size()));
  nlohmann::json own = {
      {"bytes", static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps},
      {"loss", {first_loss_, last_loss_}},
      {"devices", nlohmann::json::array()},
      {"spans", pipeline::to_json(last_spans_)}};
  for (const auto& times : times_) own["devices"].push_back(pipeline::to_json(times));
  const auto all = gather_from_workers(context_, own.dump(), kSummaryTag,
                                       Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  std::vector<pipeline::DeviceTimes> devices;
  std::vector<std::vector<pipeline::Span>> spans;
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[rank]);
    report.bytes_sent.push_back(json["bytes"].get<double>());
    if (rank % static_cast<int>(place_.pipeline.size()) == 0) {
      report.first_loss += json["loss"][0].get<double>() / place_.replicas;
      report.last_loss += json["loss"][1].get<double>() / place_.replicas;
    }
    if (rank >= static_cast<int>(place_.pipeline.size())) continue;
    for (const auto& times : json["devices"]) devices.push_back(pipeline::device_times_from_json(times));
    for (auto& of_device : pipeline::spans_from_json(json["spans"])) spans.push_back(std::move(of_device));
  }
  report.strategy_id = sync_ ? sync_->strategy_id() : "pipeline";
  report.pipeline = pipeline::break_down(engine_->schedule(), devices);
  report.balance = balance_;
  report.compute_time = (report.pipeline->compute + report.pipeline->recompute) / steps;
  if (!options_.trace.empty() && !spans.empty())
    write_file_atomically(options_.trace, pipeline::chrome_trace(spans));
}

}  // namespace

TrainReport train_pipelined(Context& context, const TrainOptions& options) {
  return PipelinedTraining(context, options).run();
}

}  // namespace entrain
