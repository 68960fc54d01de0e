#include "entrain/trainer/apart.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/base/quantile.h"
#include "entrain/optim/base.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/trainer/apart_records.h"
#include "entrain/trainer/captain.h"
#include "entrain/trainer/checkpoint.h"
#include "entrain/trainer/data/data.h"
#include "entrain/trainer/device.h"
#include "entrain/trainer/examiner.h"
#include "entrain/trainer/model_files.h"
#include "entrain/trainer/steps.h"
#include "entrain/trainer/worker_talk.h"

namespace entrain {
namespace {

constexpr transport::Tag kSummaryTag = transport::kControlTags + 20;
constexpr transport::Tag kResumeTag = transport::kControlTags + 21;
constexpr transport::Tag kTestTag = transport::kControlTags + 22;

// Pings come every second: a process that has not been heard of for so long does not run.
constexpr double kSilence_s = 5;

using strategy::Optimizer;

// One worker's run.
class ApartTraining {
 public:
  ApartTraining(Context& context, const TrainOptions& options);
  TrainReport run();

 private:
  double wall() const { return seconds_since(begin_) - paused_s_; }
  bool to_stop(int64_t step);
  double progress(int64_t step) const;  // share of the job that is done
  double one_step(int64_t step);
  void test(int64_t step, TrainReport& report);
  std::vector<torch::Tensor> mean_buffers();
  void resume();
  void save(int64_t step);
  void save_result();
  void summarise(TrainReport& report);
  std::optional<std::string> summary() const;
  std::optional<std::string> hear(int rank);

  Context& context_;
  const TrainOptions& options_;
  const Optimizer& settings_;
  const std::vector<int> ranks_;
  const int index_;  // of this worker
  const bool synchronous_;
  torch::Device device_;
  std::shared_ptr<models::Model> model_;
  torch::Tensor x_;
  std::unique_ptr<torch::optim::Optimizer> base_;
  std::unique_ptr<optim::DistributedOptimizer> rule_;
  std::unique_ptr<Data> data_;
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  std::optional<CheckpointInfo> resumed_;
  ApartRecords records_;
  Captain captain_;
  Clock::time_point begin_;
  double paused_s_ = 0;  // in tests
  std::vector<double> step_times_, compute_times_;
  double first_loss_ = NAN, last_loss_ = NAN;
  uint64_t bytes_before_ = 0;  // the training; grows by what tests send
};

ApartTraining::ApartTraining(Context& context, const TrainOptions& options)
    : context_(context),
      options_(options),
      settings_(options.optimizer),
      ranks_(worker_ranks(context.cluster)),
      index_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), context.rank()) - ranks_.begin())),
      synchronous_(!settings_.asynchronous()),
      device_(device_of(context, options.device)),
      model_(initial_model(options)),
      records_(options.out, context.rank(), settings_),
      captain_(context) {
  model_->to(device_);
  x_ = optim::flatten(model_->parameters());
  base_ = optim::make_base(settings_, model_->parameters(), index_, context.workers());
  data_ = open_data(options.data, *model_,
                    {options.batch_size, options.seed, index_, context.workers(), true, device_});
  torch::manual_seed(options.seed * 1'000'003 + static_cast<uint64_t>(context.rank()));  // dropout differs
  resume();
  rule_ = optim::make_rule(settings_, {.x = x_,
                                       .base = *base_,
                                       .transport = *context.transport,
                                       .ranks = ranks_,
                                       .groups = make_groups(settings_.groups, context.cluster),
                                       .centre = 0,
                                       .timeout_s = context.job.timeout_s,
                                       .seed = options.seed,
                                       .epoch_steps = data_->steps_per_epoch()});
  if (resumed_) {
    rule_->restore(resumed_->rule);
    if (resumed_->rng.size() == 1) set_rng_state(resumed_->rng[0]);
    log_info("rank {} resumed after step {}", context.rank(), resumed_->step);
  }
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    examiner_ = std::make_unique<Examiner>(options.model, device_, *data_);
  }
}

// Each worker has checkpoints of its own. A job that was killed may have saved a step on some workers only:
// under a synchronous rule all go back to the newest that all have; asynchronous workers were never at one
// step.
void ApartTraining::resume() {
  if (options_.resume.empty()) return;
  Checkpoints checkpoints(options_.resume / fmt::format("worker-{}", context_.rank()), 2);
  const int64_t own = checkpoints.newest_step().value_or(-1);
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  int64_t step = own;
  for (const auto& text :
       gather_from_workers(context_, std::to_string(own), kResumeTag, deadline, "newest checkpoint")) {
    step = std::min<int64_t>(step, std::stoll(text));
  }
  step = std::stoll(tell_workers(context_, std::to_string(step), kResumeTag, deadline, "where to resume"));
  if (step < 0) bad_input("--resume {}: no checkpoint of every worker there", options_.resume.string());
  if (!synchronous_) step = own;
  resumed_ = checkpoints.load_newest(*model_, *base_, step);
  if (!resumed_ || resumed_->step != step || resumed_->model != options_.model ||
      resumed_->strategy != settings_.rule) {
    bad_input("--resume {}: rank {} has no checkpoint of {} under {} at step {}", options_.resume.string(),
              context_.rank(), options_.model, settings_.rule, step);
  }
  if (options_.out == options_.resume) checkpoints.remove_after(step);
}

void ApartTraining::save(int64_t step) {
  if (options_.out.empty()) return;
  rule_->finish();
  CheckpointInfo info;
  info.step = info.data_position = step;
  info.world = 1;
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = settings_.rule;
  info.rng = {rng_state()};
  info.rule = rule_->state();
  Checkpoints(options_.out / fmt::format("worker-{}", context_.rank()), 2).save(info, *model_, *base_);
}

// The job's result is what tests test. The workers' own parameters are in their checkpoints.
void ApartTraining::save_result() {
  if (options_.save.empty() && options_.save_model.empty()) return;
  if (!synchronous_ && context_.rank() != 0) return;
  const torch::Tensor result = rule_->test_parameters();
  if (context_.rank() != 0) return;
  const torch::NoGradGuard no_grad;
  x_.copy_(result);
  save_results(*model_, options_);
}

// Synchronous rules stop together, at a step that rank 0 names: asked once a period, so that between
// exchanges nobody hears of anybody.
bool ApartTraining::to_stop(int64_t step) {
  const bool enough = options_.seconds > 0 && wall() >= options_.seconds;
  if (!synchronous_) return enough || stop_was_requested();
  if (step % settings_.period != 0) return false;
  const bool last = step + settings_.period >= options_.steps;
  return captain_.word(false, enough, last) == Word::kStop;
}

double ApartTraining::progress(int64_t step) const {
  const double by_steps = static_cast<double>(step) / static_cast<double>(options_.steps);
  return options_.seconds > 0 ? std::max(by_steps, wall() / options_.seconds) : by_steps;
}

// Returns the seconds that it took.
double ApartTraining::one_step(int64_t step) {
  const auto start = Clock::now();
  const double communicated = rule_->journal().communication_s;
  base_->zero_grad();
  const torch::Tensor loss = model_->loss(data_->training(step));
  loss.backward();
  optim::clip_gradients(model_->parameters(), settings_.clip_norm);
  optim::set_rate(*base_,
                  settings_.rate_of(index_, context_.workers()) * settings_.rate_factor(progress(step)));
  last_loss_ = loss.item<double>();
  if (!std::isfinite(last_loss_)) {
    fail("rank {}: the loss is {} at step {}; a lower --lr may help", context_.rank(), last_loss_, step);
  }
  rule_->step(last_loss_);
  const double seconds = seconds_since(start);
  step_times_.push_back(seconds);
  compute_times_.push_back(seconds - (rule_->journal().communication_s - communicated));
  records_.step(step, wall(), last_loss_, rule_->journal(), context_.transport->bytes_sent());
  return seconds;
}

// Of all workers, at rank 0: batch norm's statistics when they are not recomputed.
std::vector<torch::Tensor> ApartTraining::mean_buffers() {
  std::vector<torch::Tensor> flat;
  for (const auto& buffer : model_->buffers())
    flat.push_back(buffer.to(torch::kCPU, torch::kFloat64).flatten());
  if (flat.empty()) return {};
  const torch::Tensor own = torch::cat(flat);
  const std::string bytes(static_cast<const char*>(own.data_ptr()), own.nbytes());
  const auto all = gather_from_workers(context_, bytes, kTestTag, Deadline::after(context_.job.timeout_s),
                                       "batch norm's statistics");
  if (context_.rank() != 0) return {};
  torch::Tensor mean = torch::zeros_like(own);
  for (std::string text : all) {
    mean += torch::from_blob(text.data(), own.sizes(), torch::kFloat64) / static_cast<double>(all.size());
  }
  std::vector<torch::Tensor> buffers;
  int64_t at = 0;
  for (const auto& buffer : model_->buffers()) {
    buffers.push_back(mean.narrow(0, at, buffer.numel()).view(buffer.sizes()).to(buffer.options()));
    at += buffer.numel();
  }
  return buffers;
}

// Synchronous rules: all workers take part, and wait for rank 0's result with the clock stopped.
void ApartTraining::test(int64_t step, TrainReport& report) {
  const auto start = Clock::now();
  const double wall_s = wall();
  const uint64_t bytes = context_.transport->bytes_sent();
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  Test test{step, wall_s, 0, -1, last_loss_, {}, {}};
  torch::Tensor parameters;
  std::vector<torch::Tensor> buffers;
  if (synchronous_) {
    rule_->finish();
    parameters = rule_->test_parameters();
    const auto distance = [this](const torch::Tensor& to) { return (x_ - to).norm().item<double>(); };
    nlohmann::json own = {{"loss", last_loss_}, {"to_average", distance(parameters)}};
    if (rule_->leader_parameters().defined()) own["to_leader"] = distance(rule_->leader_parameters());
    const auto all = gather_from_workers(context_, own.dump(), kTestTag, deadline, "a test");
    if (options_.bn_recompute == 0) buffers = mean_buffers();
    if (context_.rank() == 0) test.training_loss = 0;
    for (const auto& text : all) {
      const auto json = nlohmann::json::parse(text);
      test.training_loss += json["loss"].get<double>() / static_cast<double>(all.size());
      test.to_average.push_back(json["to_average"].get<double>());
      if (json.contains("to_leader")) test.to_leader.push_back(json["to_leader"].get<double>());
    }
  } else if (examiner_) {
    parameters = rule_->test_parameters();
    if (options_.bn_recompute == 0) buffers = model_->buffers();  // the other workers' may never come
  }
  if (examiner_) {
    const auto verdict = examiner_->examine(parameters, options_.bn_recompute, step, buffers);
    test.loss = verdict.loss;
    test.error = verdict.error;
    report.tests.push_back(test);
    records_.test(test);
  }
  if (!synchronous_) return;  // the others have gone on: this worker's time counts
  // A test may take longer than any exchange; a worker that dies meanwhile is noticed without a deadline.
  tell_workers(context_, "tested", kTestTag, Deadline::never(), "the end of a test");
  paused_s_ += seconds_since(start);
  bytes_before_ += context_.transport->bytes_sent() - bytes;  // testing is no exchange
}

TrainReport ApartTraining::run() {
  TrainReport report;
  report.first_step = resumed_ ? resumed_->step : 0;
  steps_left(report.first_step, options_.steps);
  Progress progress("step", shown_total(options_.steps), options_.progress && context_.rank() == 0);
  begin_ = Clock::now();
  bytes_before_ = context_.transport->bytes_sent();
  int64_t step = report.first_step;
  for (; step < options_.steps; ++step) {
    if (to_stop(step)) {
      report.interrupted = stop_was_requested();
      break;
    }
    one_step(step);
    if (step == report.first_step) first_loss_ = last_loss_;
    if (options_.test_every > 0 && (step + 1) % options_.test_every == 0 && step + 1 < options_.steps) {
      test(step + 1, report);
    }
    if (options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0) save(step + 1);
    progress.update(step + 1, report.tests.empty()
                                  ? fmt::format("loss {:.4f}", last_loss_)
                                  : fmt::format("loss {:.4f}, test error {:.1f}%", last_loss_,
                                                100 * report.tests.back().error));
  }
  rule_->finish();
  rule_->leave();
  report.total_time = wall();
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) save(step);
  if (tested_ && step > report.first_step) test(step, report);
  save_result();
  summarise(report);
  return report;
}

std::optional<std::string> ApartTraining::summary() const {
  const optim::Journal& journal = rule_->journal();
  const double steps = std::max<double>(1, static_cast<double>(step_times_.size()));
  return nlohmann::json{
      {"first", first_loss_},
      {"last", last_loss_},
      {"bytes", static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps},
      {"communication_s", journal.communication_s},
      {"total_s", wall()}}
      .dump();
}

// What another worker has to say at its end, however far behind it is. Asynchronous rules: nothing when it is
// lost or has fallen silent.
std::optional<std::string> ApartTraining::hear(int rank) {
  const auto arrived = std::make_shared<std::promise<transport::Result>>();
  auto result = arrived->get_future();
  context_.transport->post_recv(rank, kSummaryTag, {}, {Deadline::never(), "summary"},
                                [arrived](transport::Result r) { arrived->set_value(std::move(r)); });
  int silent = 0;  // one that has ended in order is silent too: its message is here in a moment
  while (result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
    if (!synchronous_ && context_.transport->silence_s(rank) > kSilence_s && ++silent > 5)
      return std::nullopt;
  }
  const transport::Result message = result.get();
  if (!message.error) return std::string(transport::as_text(message.payload.bytes()));
  if (synchronous_) std::rethrow_exception(message.error);
  return std::nullopt;
}

void ApartTraining::summarise(TrainReport& report) {
  if (context_.rank() != 0) {
    const std::string own = *summary();
    transport::send(*context_.transport, 0, kSummaryTag, transport::as_bytes(own),
                    {0, Deadline::after(context_.job.timeout_s), "summary"});
    return;
  }
  report.strategy_id = settings_.rule;
  report.exchanges = rule_->journal().exchanges;
  report.greatest_lead = rule_->journal().greatest_lead;
  int leader = -1;
  for (const auto& lead : rule_->journal().leaders) {
    if (lead.global < 0) continue;
    if (leader >= 0 && lead.global != leader) ++report.leader_switches;
    leader = lead.global;
  }
  report.step_times = step_times_;
  report.compute_time = compute_times_.empty() ? 0 : median(compute_times_);
  report.first_loss = report.last_loss = 0;
  double communicated = 0, total = 0;
  int heard = 0;
  for (const int rank : ranks_) {
    const auto text = rank == 0 ? summary() : hear(rank);
    if (!text) {
      report.lost.push_back(rank);
      continue;
    }
    const auto json = nlohmann::json::parse(*text);
    ++heard;
    report.bytes_sent.push_back(json["bytes"].get<double>());
    report.first_loss += json["first"].get<double>();
    report.last_loss += json["last"].get<double>();
    communicated += json["communication_s"].get<double>();
    total += json["total_s"].get<double>();
  }
  report.first_loss /= heard;
  report.last_loss /= heard;
  report.comm_share = total > 0 ? communicated / total : 0;
}

}  // namespace

TrainReport train_apart(Context& context, const TrainOptions& options) {
  if (options.optimizer.asynchronous()) context.transport->tolerate_losses();
  if (context.trains()) return ApartTraining(context, options).run();
  return {};  // a host that only serves has nothing to do: the centre is at rank 0
}

}  // namespace entrain
