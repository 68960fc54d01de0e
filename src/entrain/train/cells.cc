#include "entrain/train/cells.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/base/units.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/collective/cast.h"
#include "entrain/data/data.h"
#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/job/failure.h"
#include "entrain/job/step_control.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/pipeline_balance.h"
#include "entrain/parallel/shaped.h"
#include "entrain/parallel/slowdown.h"
#include "entrain/parallel/threaded.h"
#include "entrain/parallel/undeferred.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/train/examiner.h"
#include "entrain/train/examples.h"
#include "entrain/train/loop.h"
#include "entrain/train/metrics.h"
#include "entrain/train/model_files.h"
#include "entrain/train/steps.h"
#include "entrain/transport/control_tags.h"
#include "entrain/trials/advised_shapes.h"
#include "entrain/trials/profiled_model.h"
#include "entrain/trials/replayed_model.h"

namespace entrain::train {
namespace {

// The job's shape: as it was asked for, or of the pipeline that was.
strategy::Shape shape_of_job(job::Context& context, const TrainOptions& options,
                             const layers::Sequence& sequence, const parallel::Examples& examples) {
  if (options.shape) return *options.shape;
  if (!options.pipeline.there()) {
    return strategy::data_parallel(static_cast<int>(sequence.layers.size()), context.cluster.worker_ranks());
  }
  const strategy::Pipeline& wanted = options.pipeline;
  const std::vector<int> ranks = context.cluster.worker_ranks();
  const int64_t replicas = context.workers() / std::min(context.workers(), wanted.devices);
  const int64_t all = examples_per_update(options, context.workers());
  if (all < replicas * wanted.micro_batches) {
    bad_input("`micro_batches` {} of {} examples per update and pipeline: allowed: 1 to {}",
              wanted.micro_batches, all / replicas, all / replicas);
  }
  const int64_t of_one = all / (replicas * wanted.micro_batches);
  return strategy::shape_of(wanted, parallel::agree_on_balance(context, wanted, sequence, examples, of_one),
                            ranks);
}

class CellsRun final : public Run {
 public:
  CellsRun(job::Context& context, const TrainOptions& options);

  int64_t first_step() const { return resumed_ ? resumed_->step : 0; }

  bool stops_before(int64_t step, bool enough) override;
  double make(int64_t step, const TrainingClock& clock) override;
  std::optional<Test> test(int64_t step, TrainingClock& clock) override;
  void save(int64_t step, bool last) override;
  void finish(TrainReport& report) override;

 private:
  parallel::Examples examples_of(int64_t step);
  graph::Graph profile(const layers::Sequence& sequence);
  void cut_for_ranks(const layers::Sequence& sequence);
  void cut_for_threads(const layers::Sequence& sequence);
  void make_optimizer();
  void reshape(int64_t step, const strategy::Shape& shape);
  void take_shape(const strategy::Shape& shape);
  nlohmann::json notes_of_step() const;
  void take_times(parallel::CellTraining::Passes passes, double wall);
  void summarise(TrainReport& report);

  job::Context& context_;
  const TrainOptions& options_;
  const strategy::Optimizer& settings_;
  const Way way_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<data::Data> data_;
  std::optional<checkpoint::CheckpointInfo> resumed_;
  std::unique_ptr<parallel::CellTraining> cells_;
  parallel::Shaped* shaped_ = nullptr;    // cells_, where they are ranks
  std::vector<int> balance_;              // layers per cell
  std::optional<strategy::Shape> shape_;  // unless cells are threads
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  Metrics metrics_;
  job::StepControl control_;
  std::optional<trials::AdvisedShapes> advised_;  // in place of control_
  int64_t warmup_ = 0;                            // steps whose times do not count
  double data_s_ = 0;                             // of the step under way, spent on its examples
  std::vector<double> step_times_;
  std::vector<pipeline::DeviceTimes> times_;             // by device that is here
  std::vector<std::vector<pipeline::Span>> last_spans_;  // of the last step, when a trace is wanted
  double first_loss_ = NAN, last_loss_ = NAN;
  uint64_t bytes_before_ = 0;
};

CellsRun::CellsRun(job::Context& context, const TrainOptions& options)
    : context_(context),
      options_(options),
      settings_(options.optimizer),
      way_(way_of(context, options)),
      model_(initial_model(context, options)),
      metrics_(context, options.out),
      control_(context) {
  if (options.seconds > 0 && (settings_.rate_schedule != "constant" || settings_.warmup > 0)) {
    bad_input("`rate_schedule` {} or `warmup` with `seconds` and a model in cells: allowed: `steps`",
              settings_.rate_schedule);
  }
  if (options.on_nonfinite == NonFinite::kSkip) {
    bad_input("on non-finite is skip: not supported with a model in cells, allowed: stop");
  }
  const layers::Sequence sequence = model_->sequence();
  if (sequence.layers.empty()) {
    bad_input("`model` {}: not a sequence of layers, so it cannot be cut into cells", options.model);
  }
  data_ = data::open_data(options.data, *model_, data_options(options, context.workers(), torch::kCPU));
  if (way_ == Way::kRanks) {
    cut_for_ranks(sequence);
  } else {
    cut_for_threads(sequence);
  }
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    const int64_t all = examples_per_update(options, context.workers());
    examiner_ = std::make_unique<Examiner>(options.model, torch::kCPU, *data_,
                                           std::max<int64_t>(1, all / context.workers()));
  }
  warmup_ = warmup_steps(steps_left(first_step(), options.steps));
}

parallel::Examples CellsRun::examples_of(int64_t step) {
  return [this, step](int64_t begin, int64_t count) {
    const auto start = Clock::now();
    models::Batch batch = data_->training(step, begin, count);
    data_s_ += seconds_since(start);
    return batch;
  };
}

// On rank 0, while the others wait.
graph::Graph CellsRun::profile(const layers::Sequence& sequence) {
  if (options_.replay) return *options_.replay;
  log_info("auto: timing the layers of {}", options_.model);
  const int64_t all = examples_per_update(options_, context_.workers());
  return trials::profiled(
      {.module = *model_,
       .sequence = sequence,
       .loss = [this](const models::Batch& batch) { return model_->loss(batch); },
       .examples = [this](int64_t count) { return data_->training(first_step(), 0, count); },
       .batch_size = std::max<int64_t>(1, all / context_.workers()),
       .workers = context_.workers()});
}

void CellsRun::cut_for_ranks(const layers::Sequence& sequence) {
  if (options_.device != "cpu") {
    bad_input("`device` {} with cells that are ranks: allowed: `cells` threads, or cpu", options_.device);
  }
  make_optimizer();
  strategy::Shape shape;
  if (options_.shapes_advised) {
    if (!can_be_cut(sequence)) bad_input("`model` {}: no shape can be searched for it", options_.model);
    advised_.emplace(context_, options_.advisor, static_cast<int>(sequence.layers.size()));
    shape = advised_->begin([&] { return profile(sequence); });
  } else {
    shape = shape_of_job(context_, options_, sequence, examples_of(0));
  }
  const int64_t examples = examples_per_update(options_, context_.workers());
  for (const auto& [step, later] : options_.reshapes) {  // now, not after hours
    strategy::validate(later, static_cast<int>(sequence.layers.size()), context_.cluster, examples);
    parallel::check_undeferred(sequence, later);
    if (step <= first_step()) shape = later;  // the job that goes on here had come to it
  }
  const double slowdown = options_.replay ? 0 : parallel::slowdown_of(context_.cluster, context_.rank());
  auto shaped = std::make_unique<parallel::Shaped>(context_, *model_, sequence,
                                                   parallel::ShapedOptions{.shape = shape,
                                                                           .strategy = options_.strategy,
                                                                           .examples = examples,
                                                                           .seed = options_.seed,
                                                                           .clip_norm = settings_.clip_norm,
                                                                           .slowdown = slowdown});
  take_shape(shape);
  shaped->use(*optimizer_, first_step());
  times_.resize(1);
  shaped_ = shaped.get();
  cells_ = std::move(shaped);
}

void CellsRun::cut_for_threads(const layers::Sequence& sequence) {
  if (options_.replay) bad_input("a replayed model with `cells` threads: allowed: ranks");
  auto threaded = std::make_unique<parallel::Threaded>(
      context_, *model_, sequence, examples_of(0),
      parallel::ThreadedOptions{.pipeline = options_.pipeline,
                                .strategy = options_.strategy,
                                .device = options_.device,
                                .examples = examples_per_update(options_, context_.workers()),
                                .seed = options_.seed,
                                .clip_norm = settings_.clip_norm});
  make_optimizer();
  threaded->use(*optimizer_, first_step());
  balance_ = threaded->balance();
  times_.resize(static_cast<size_t>(options_.pipeline.devices));
  cells_ = std::move(threaded);
}

// Of parameters that are where they stay; with the state of the checkpoint, if the job goes on from one.
void CellsRun::make_optimizer() {
  optimizer_ = optim::make_base(settings_, model_->parameters(), 0, 1);
  if (options_.resume.empty()) return;
  resumed_ = checkpoint::Checkpoints(options_.resume).load_newest(*model_, *optimizer_);
  if (!resumed_) bad_input("`resume` {}: no checkpoint there", options_.resume.string());
  check_resumed(*resumed_, options_);
  job::agree_on_resumed_step(context_, resumed_->step);
  log_info("resumed after step {}", resumed_->step);
}

bool CellsRun::stops_before(int64_t step, bool enough) {
  const bool last = step + 1 == options_.steps;
  const auto order =
      advised_ ? advised_->before_step(*shaped_, enough, last) : control_.next(false, enough, last);
  if (order == job::Order::Kind::kStop) return true;
  if (order == job::Order::Kind::kSwitch) take_shape(shaped_->shape());
  for (const auto& [when, shape] : options_.reshapes) {
    if (when == step && step > first_step() && shape != *shape_) reshape(step, shape);
  }
  return false;
}

void CellsRun::reshape(int64_t step, const strategy::Shape& shape) {
  log_info("step {}: the shape becomes {}", step, strategy::to_text(shape));
  const auto start = Clock::now();
  const int64_t bytes = job::named_failure(context_, [&] { return shaped_->reshape(shape); });
  take_shape(shape);
  log_info("step {}: it is; rank {} was sent {} in {}", step, context_.rank(),
           format_bytes(static_cast<double>(bytes)), format_seconds(seconds_since(start)));
}

void CellsRun::take_shape(const strategy::Shape& shape) {
  shape_ = shape;
  if (auto* replayed = dynamic_cast<trials::ReplayedModel*>(model_.get())) {
    replayed->expect(shape, plan::assign(shape, examples_per_update(options_, context_.workers())),
                     context_.rank());
  }
  balance_.clear();
  for (const strategy::Cell& cell : shape.cells) balance_.push_back(cell.end - cell.begin);
}

double CellsRun::make(int64_t step, const TrainingClock&) {
  const int64_t done = step - first_step();
  if (done == warmup_) {
    bytes_before_ = context_.transport->bytes_sent();
    for (auto& times : times_) times = {};
  }
  const auto start = Clock::now();
  data_s_ = 0;
  last_loss_ = cells_->run(examples_of(step));
  const double share = static_cast<double>(step) / static_cast<double>(options_.steps);
  optim::set_rate(*optimizer_, settings_.rate_of(0, 1) * settings_.rate_factor(share));
  cells_->update();
  const double seconds = seconds_since(start);
  take_times(cells_->passes(), seconds - data_s_);
  if (done == 0) first_loss_ = last_loss_;
  if (done >= warmup_) step_times_.push_back(seconds);
  metrics_.step(step, last_loss_, seconds, notes_of_step());
  if (options_.compare_every > 0 && (step + 1) % options_.compare_every == 0) cells_->compare();
  if (advised_ && done > 0) advised_->after_step(*shaped_, step, seconds);
  return last_loss_;
}

nlohmann::json CellsRun::notes_of_step() const {
  if (!advised_) return nlohmann::json::object();
  return {{"strategy", shaped_->strategy_id()}, {"shape", strategy::to_text(*shape_)}};
}

// Of the step that took `wall` seconds.
void CellsRun::take_times(parallel::CellTraining::Passes passes, double wall) {
  for (size_t d = 0; d < passes.spans.size(); ++d) {
    auto& spans = passes.spans[d];
    // A device that is done early waits for the others at the end of the passes.
    const double idle_from = spans.empty() ? 0 : spans.back().end_s;
    spans.push_back({pipeline::Span::Kind::kWait, -1, -1, idle_from, std::max(idle_from, passes.seconds)});
    spans.push_back({pipeline::Span::Kind::kUpdate, -1, -1, passes.seconds, wall});
    times_[d].add(spans, wall);
  }
  if (!options_.trace.empty()) last_spans_ = std::move(passes.spans);
}

void CellsRun::save(int64_t step, bool last) {
  const bool due = options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  if (options_.out.empty() || due == last) return;  // the last step's was written when it was made
  cells_->gather();
  if (context_.rank() != 0) return;
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.world = context_.world();
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = shape_ ? strategy::to_text(*shape_)
                         : fmt::format("threads {}x{}", options_.pipeline.devices, context_.workers());
  checkpoint::Checkpoints(options_.out).save(info, *model_, *optimizer_);
}

std::optional<Test> CellsRun::test(int64_t step, TrainingClock& clock) {
  if (!tested_) return std::nullopt;
  const auto start = Clock::now();
  const double wall_s = clock.seconds();
  std::optional<Test> result;
  cells_->gather();
  if (examiner_) {
    const auto verdict =
        examiner_->examine(model_->parameters(), options_.bn_recompute, step, model_->buffers());
    result = Test{step, wall_s, verdict.loss, verdict.error, last_loss_, {}, {}};
    metrics_.test(*result);
  }
  clock.pause(seconds_since(start));
  return result;
}

void CellsRun::finish(TrainReport& report) {
  if (!options_.save.empty() || !options_.save_model.empty()) {
    cells_->gather();
    if (context_.rank() == 0) save_results(*model_, options_);
  }
  summarise(report);
}

// Rank 0 gathers what every device did; ranks that only serve have done what is planned for them.
void CellsRun::summarise(TrainReport& report) {
  const double steps = std::max<double>(1, static_cast<double>(step_times_.size()));
  const nlohmann::json own = {
      {"bytes", static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps},
      {"loss", {first_loss_, last_loss_}},
      {"saturated", collective::saturated_values()},
      {"devices", pipeline::to_json(times_)},
      {"spans", pipeline::to_json(last_spans_)}};
  report.strategy_id = cells_->strategy_id();
  cells_.reset();
  job::end_serving(context_);  // they come to the gathering, too
  const auto all = transport::gather(*context_.transport, 0, own.dump(), transport::tags::kSummary,
                                     Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  std::vector<pipeline::DeviceTimes> devices;
  std::vector<std::vector<pipeline::Span>> spans;
  for (int rank = 0; rank < context_.world(); ++rank) {
    const auto json = nlohmann::json::parse(all[static_cast<size_t>(rank)]);
    report.saturated_values += json["saturated"].get<uint64_t>();
    if (!context_.cluster.is_worker(rank)) {
      report.bytes_sent.push_back(0);
      continue;
    }
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.first_loss += number_of(json["loss"][0]) / context_.workers();
    report.last_loss += number_of(json["loss"][1]) / context_.workers();
    // Threads: one pipeline is like the other. Ranks without a cell would be all waiting.
    if (shape_ ? !shape_->holds(rank) : rank > 0) continue;
    for (const auto& times : pipeline::device_times_from_json(json["devices"])) devices.push_back(times);
    for (auto& of_device : pipeline::spans_from_json(json["spans"])) spans.push_back(std::move(of_device));
  }
  report.step_times = step_times_;
  report.pipeline = pipeline::break_down(devices);
  report.balance = balance_;
  report.devices = static_cast<int>(devices.size());
  report.shape = shape_ ? strategy::to_text(*shape_) : "";
  report.micro_batches = shape_ ? shape_->micro_batches_or_default() : options_.pipeline.micro_batches;
  report.compute_time = (report.pipeline->compute + report.pipeline->recompute) / steps;
  if (!options_.trace.empty() && !spans.empty())
    write_file_atomically(options_.trace, pipeline::chrome_trace(spans));
}

}  // namespace

bool can_be_cut(const layers::Sequence& sequence) {
  return !sequence.layers.empty() && !parallel::any_undeferred(sequence);
}

Way way_of(const job::Context& context, const TrainOptions& options) {
  const strategy::Pipeline& pipeline = options.pipeline;
  if (options.shape && pipeline.there()) {
    bad_input("`shape` and `pipeline` or `micro_batches`: allowed: one of them");
  }
  if (options.shapes_advised && (options.shape || pipeline.there() || !options.reshapes.empty())) {
    bad_input("`shape`, `reshapes` or `pipeline` where shapes are searched: allowed: none of them");
  }
  if (!options.reshapes.empty()) return Way::kRanks;
  if (options.shapes_advised && context.workers() > 1) return Way::kRanks;
  if (options.shape) {
    const strategy::Shape& shape = *options.shape;
    const auto& hosts = context.cluster.hosts;
    const bool whole = shape.cells.size() == 1 && shape.cells[0].ranks == context.cluster.worker_ranks() &&
                       shape.micro_batches_or_default() == context.workers();
    // Slower hosts of a lab are rehearsed pass by pass.
    const bool slow =
        context.cluster.kind == cluster::Kind::kLab && !options.replay &&
        std::any_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.speed < 1; });
    return whole && !slow ? Way::kWhole : Way::kRanks;
  }
  if (!pipeline.there()) return Way::kWhole;
  const bool accumulates = pipeline.devices == 1 && pipeline.cells != "threads" && options.device == "cpu";
  return accumulates || parallel::devices_are_ranks(context, pipeline) ? Way::kRanks : Way::kThreads;
}

TrainReport train_through_cells(job::Context& context, const TrainOptions& options) {
  CellsRun run(context, options);
  return run_loop(context, options, run.first_step(), run);
}

}  // namespace entrain::train
