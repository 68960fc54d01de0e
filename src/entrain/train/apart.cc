#include "entrain/train/apart.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/base/quantile.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/data/data.h"
#include "entrain/job/alarm.h"
#include "entrain/job/control.h"
#include "entrain/job/step_control.h"
#include "entrain/optim/base.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/parallel/device.h"
#include "entrain/strategy/rule_settings.h"
#include "entrain/train/apart_records.h"
#include "entrain/train/common_saves.h"
#include "entrain/train/examiner.h"
#include "entrain/train/examples.h"
#include "entrain/train/loop.h"
#include "entrain/train/model_files.h"
#include "entrain/train/step_guard.h"
#include "entrain/train/steps.h"
#include "entrain/transport/control_tags.h"

namespace entrain::train {
namespace {

// Pings come every second: a process that has not been heard of for so long does not run.
constexpr double kSilence_s = 5;

using strategy::Optimizer;

// One worker's run.
class ApartTraining final : public Run {
 public:
  ApartTraining(job::Context& context, const TrainOptions& options);
  int64_t first_step() const;

  bool stops_before(int64_t step, bool enough) override;
  double make(int64_t step, const TrainingClock& clock) override;
  void complete() override;
  std::optional<Test> test(int64_t step, TrainingClock& clock) override;
  void save(int64_t step, bool last) override;
  void finish(TrainReport& report) override;

 private:
  double share_done(int64_t step, double wall_s) const;  // of the job
  std::vector<torch::Tensor> mean_buffers();
  void resume();
  void rejoin(const std::vector<int>& ranks);
  void save_if_due(int64_t step);
  void save_at_end(int64_t step);
  void write_save(int64_t step, int64_t number, bool last = false);
  void set_aside_unproven();
  void check_alarm();
  void save_result();
  void summarise(TrainReport& report);
  std::string summary(double total_s) const;
  std::optional<std::string> hear(int rank);

  job::Context& context_;
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
  std::unique_ptr<data::Data> data_;
  int64_t batch_ = 0;  // this worker's examples of an update
  bool tested_ = false;
  std::unique_ptr<Examiner> examiner_;  // rank 0, when there is something to test
  std::optional<checkpoint::CheckpointInfo> resumed_;
  std::optional<CommonSaves> saves_;  // there is a folder for them
  std::optional<int64_t> unproven_;   // the last save, when no step has been made from its parameters yet
  ApartRecords records_;
  job::StepControl control_;
  std::vector<double> step_times_, compute_times_;
  double first_loss_ = NAN, last_loss_ = NAN;
  std::optional<StepGuard> guard_;
  bool usable_ = true;               // the gradients of the step under way are finite
  std::optional<job::Alarm> alarm_;  // asynchronous rules
  uint64_t bytes_before_ = 0;        // the training; grows by what tests send
};

ApartTraining::ApartTraining(job::Context& context, const TrainOptions& options)
    : context_(context),
      options_(options),
      settings_(options.optimizer),
      ranks_(context.cluster.worker_ranks()),
      index_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), context.rank()) - ranks_.begin())),
      synchronous_(!settings_.asynchronous()),
      device_(parallel::device_of(context, options.device)),
      model_(initial_model(context, options)),
      records_(options.out, context.rank(), settings_),
      control_(context) {
  model_->to(device_);
  x_ = optim::flatten(model_->parameters());
  base_ = optim::make_base(settings_, model_->parameters(), index_, context.workers());
  batch_ = examples_per_worker(options, context.workers());
  data_ = data::open_data(options.data, *model_, data_options(options, context.workers(), device_));
  torch::manual_seed(options.seed * 1'000'003 + static_cast<uint64_t>(context.rank()));  // dropout differs
  resume();
  rule_ = optim::make_rule(strategy::rule_of(settings_),
                           {.x = x_,
                            .base = *base_,
                            .transport = *context.transport,
                            .ranks = ranks_,
                            .groups = make_groups(settings_.groups, context.cluster),
                            .centre = 0,
                            .timeout_s = context.job.timeout_s,
                            .seed = options.seed,
                            .epoch_steps = data_->steps_per_epoch(),
                            .update = [this] {
                              if (usable_) base_->step();
                              guard_->check_parameters(x_, "after its own update");
                            }});
  if (!synchronous_) alarm_.emplace(context);
  guard_.emplace(context.rank(), options.on_nonfinite, *model_, [this](const std::string& why) {
    set_aside_unproven();
    if (alarm_) alarm_->raise(why);
  });
  if (resumed_ && !resumed_->rule.empty()) {
    rule_->restore(resumed_->rule);
    if (resumed_->rng.size() == 1) checkpoint::set_rng_state(resumed_->rng[0]);
  }
  if (resumed_) log_info("rank {} resumed after step {}", context.rank(), first_step());
  if (!options.out.empty()) {
    std::optional<int64_t> complete;
    if (resumed_ && options.out == options.resume) complete = resumed_->step;
    saves_.emplace(context, options.out / fmt::format("worker-{}", context.rank()), complete);
  }
  tested_ = is_tested(options, *data_);
  if (context.rank() == 0 && tested_) {
    examiner_ = std::make_unique<Examiner>(options.model, device_, *data_, batch_);
  }
  if (synchronous_ || context.rank() == 0) steps_left(first_step(), options.steps);
  bytes_before_ = context.transport->bytes_sent();
}

int64_t ApartTraining::first_step() const {
  if (!resumed_) return 0;
  return synchronous_ ? resumed_->step : resumed_->data_position;  // of a save that belongs to rank 0's step
}

// Each worker has checkpoints of its own; all go back to the same save. See common_saves.h.
void ApartTraining::resume() {
  if (options_.resume.empty()) return;
  checkpoint::Checkpoints checkpoints(options_.resume / fmt::format("worker-{}", context_.rank()), 2);
  const ResumePoint point =
      agree_on_save(context_, checkpoints.readable(), /*members_only=*/!synchronous_, options_.resume);
  const bool here =
      std::find(point.without.begin(), point.without.end(), context_.rank()) == point.without.end();
  if (here) {
    resumed_ = checkpoints.load_newest(*model_, *base_, point.number);
    if (!resumed_ || resumed_->step != point.number || resumed_->model != options_.model ||
        resumed_->strategy != settings_.rule) {
      bad_input("`resume` {}: rank {} has no checkpoint of {} under {} at step {}", options_.resume.string(),
                context_.rank(), options_.model, settings_.rule, point.number);
    }
    check_resumed(*resumed_, options_);
  } else {
    log_warn("rank {} has no file of save {}: it starts from rank 0's parameters", context_.rank(),
             point.number);
    resumed_.emplace();
    resumed_->step = resumed_->data_position = point.number;
  }
  rejoin(point.without);
  if (options_.out == options_.resume) checkpoints.remove_after(point.number);
}

// Workers that were lost before the save get rank 0's parameters and buffers.
void ApartTraining::rejoin(const std::vector<int>& ranks) {
  const torch::NoGradGuard no_grad;
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  std::vector<torch::Tensor> state = {x_};
  for (const auto& buffer : model_->buffers()) state.push_back(buffer);
  for (const int rank : ranks) {
    for (torch::Tensor& tensor : state) {
      torch::Tensor host = tensor.detach().to(torch::kCPU).contiguous();
      const transport::Bytes bytes(static_cast<std::byte*>(host.data_ptr()), host.nbytes());
      if (bytes.empty()) continue;
      if (context_.rank() == 0) {
        transport::send(*context_.transport, rank, transport::tags::kRejoin, bytes,
                        {0, deadline, "rank 0's parameters"});
      } else if (context_.rank() == rank) {
        transport::recv_into(*context_.transport, 0, transport::tags::kRejoin, bytes,
                             {deadline, "rank 0's parameters"});
        tensor.copy_(host);
      }
    }
  }
}

void ApartTraining::save(int64_t step, bool last) {
  if (saves_) last ? save_at_end(step) : save_if_due(step);
}

// After `step` steps, when that is a moment to save: every so many steps of this worker, or (asynchronous
// rules) of rank 0, which tells the others.
void ApartTraining::save_if_due(int64_t step) {
  saves_->tidy();
  if (synchronous_ || context_.rank() == 0) {
    if (options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0) write_save(step, step);
  } else if (const auto order = saves_->take_order()) {
    write_save(step, order->number);
  }
}

// Asynchronous workers end at different moments: those that have ended save again whenever rank 0 does.
void ApartTraining::save_at_end(int64_t step) {
  if (synchronous_) {
    if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) write_save(step, step);
  } else if (context_.rank() == 0) {
    write_save(step, step, /*last=*/true);
  } else {
    bool last = false;
    while (!last) {
      const auto order = saves_->wait_for_order(Deadline::never());
      if (!order) break;
      write_save(step, order->number);
      last = order->last;
      saves_->tidy();
    }
  }
  saves_->leave();
}

void ApartTraining::write_save(int64_t step, int64_t number, bool last) {
  rule_->finish();
  guard_->check_parameters(x_, "after an exchange");  // the last one may have been finish()'s
  checkpoint::CheckpointInfo info;
  info.step = number;
  info.data_position = step;
  info.world = 1;
  info.model = options_.model;
  info.seed = options_.seed;
  info.strategy = settings_.rule;
  info.rng = {checkpoint::rng_state()};
  info.rule = rule_->state();
  if (context_.rank() == 0) put_members(info, saves_->begin(number, /*tell=*/!synchronous_, last));
  saves_->save(info, *model_, *base_);
  unproven_ = number;
}

// After a rate that is too high the parameters may still be finite, and the next loss is not: a save made in
// between must not be what the job is resumed from.
void ApartTraining::set_aside_unproven() {
  if (saves_ && unproven_) saves_->set_aside(*unproven_);
  unproven_.reset();
}

void ApartTraining::check_alarm() {
  if (!alarm_) return;
  try {
    alarm_->check();
  } catch (const Error&) {
    set_aside_unproven();
    throw;
  }
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

// Synchronous rules stop together, at a step that rank 0 names: asked once per period, so that between
// exchanges no worker hears of another.
bool ApartTraining::stops_before(int64_t step, bool enough) {
  check_alarm();
  if (!synchronous_) return control_.all_end() || enough || context_.stop_signal() != 0;
  if (step % settings_.period != 0) return false;
  const bool last = step + settings_.period >= options_.steps;
  return control_.next(false, enough, last) == job::Order::Kind::kStop;
}

double ApartTraining::share_done(int64_t step, double wall_s) const {
  const double by_steps = static_cast<double>(step) / static_cast<double>(options_.steps);
  return options_.seconds > 0 ? std::max(by_steps, wall_s / options_.seconds) : by_steps;
}

double ApartTraining::make(int64_t step, const TrainingClock& clock) {
  const auto start = Clock::now();
  const double communicated = rule_->journal().communication_s;
  const int64_t exchanges = rule_->journal().exchanges;
  guard_->begin(step);
  base_->zero_grad();
  const torch::Tensor loss = model_->loss(data_->training(step, index_ * batch_, batch_));
  loss.backward();
  last_loss_ = loss.item<double>();
  usable_ = guard_->may_update(last_loss_);
  if (usable_) unproven_.reset();
  if (usable_) optim::clip_gradients(model_->parameters(), settings_.clip_norm);
  optim::set_rate(*base_, settings_.rate_of(index_, context_.workers()) *
                              settings_.rate_factor(share_done(step, clock.seconds())));
  rule_->step(last_loss_);
  if (rule_->journal().exchanges != exchanges) guard_->check_parameters(x_, "after an exchange");
  const double seconds = seconds_since(start);
  step_times_.push_back(seconds);
  compute_times_.push_back(seconds - (rule_->journal().communication_s - communicated));
  records_.step(step, clock.seconds(), last_loss_, rule_->journal(), context_.transport->bytes_sent());
  if (step == first_step()) first_loss_ = last_loss_;
  return last_loss_;
}

void ApartTraining::complete() {
  rule_->finish();
  rule_->leave();
}

// Of all workers, at rank 0: batch norm's statistics when they are not recomputed.
std::vector<torch::Tensor> ApartTraining::mean_buffers() {
  std::vector<torch::Tensor> flat;
  for (const auto& buffer : model_->buffers())
    flat.push_back(buffer.to(torch::kCPU, torch::kFloat64).flatten());
  if (flat.empty()) return {};
  const torch::Tensor own = torch::cat(flat);
  const std::string bytes(static_cast<const char*>(own.data_ptr()), own.nbytes());
  const auto all =
      job::gather_from_workers(context_, bytes, transport::tags::kTestState,
                               Deadline::after(context_.job.timeout_s), "batch norm's statistics");
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
std::optional<Test> ApartTraining::test(int64_t step, TrainingClock& clock) {
  if (!tested_) return std::nullopt;
  const auto start = Clock::now();
  const double wall_s = clock.seconds();
  const uint64_t bytes = context_.transport->bytes_sent();
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  Test test{step, wall_s, 0, -1, last_loss_, {}, {}};
  torch::Tensor parameters;
  std::vector<torch::Tensor> buffers;
  if (synchronous_) {
    rule_->finish();
    parameters = rule_->test_parameters();
    const auto distance = [this](const torch::Tensor& to) {
      return (x_ - to).to(torch::kFloat64).norm().item<double>();
    };
    nlohmann::json own = {{"loss", last_loss_}, {"to_average", distance(parameters)}};
    if (rule_->leader_parameters().defined()) own["to_leader"] = distance(rule_->leader_parameters());
    const auto all =
        job::gather_from_workers(context_, own.dump(), transport::tags::kTestState, deadline, "a test");
    if (options_.bn_recompute == 0) buffers = mean_buffers();
    if (context_.rank() == 0) test.training_loss = 0;
    for (const auto& text : all) {
      const auto json = nlohmann::json::parse(text);
      test.training_loss += number_of(json["loss"]) / static_cast<double>(all.size());
      test.to_average.push_back(number_of(json["to_average"]));
      if (json.contains("to_leader")) test.to_leader.push_back(number_of(json["to_leader"]));
    }
  } else if (examiner_) {
    parameters = rule_->test_parameters();
    if (options_.bn_recompute == 0) buffers = model_->buffers();  // the other workers' may never come
  }
  if (examiner_) {
    const auto verdict = examiner_->examine(parameters, options_.bn_recompute, step, buffers);
    test.loss = verdict.loss;
    test.error = verdict.error;
    records_.test(test);
  }
  const std::optional<Test> result = examiner_ ? std::optional(test) : std::nullopt;
  if (!synchronous_) return result;    // the others have gone on: this worker's time counts
  job::await_all(context_, "a test");  // it may take longer than any exchange
  clock.pause(seconds_since(start));
  bytes_before_ += context_.transport->bytes_sent() - bytes;  // testing is no exchange
  return result;
}

void ApartTraining::finish(TrainReport& report) {
  save_result();
  summarise(report);
  if (saves_) saves_->finish();
}

std::string ApartTraining::summary(double total_s) const {
  const optim::Journal& journal = rule_->journal();
  const double steps = std::max<double>(1, static_cast<double>(step_times_.size()));
  return nlohmann::json{
      {"first", first_loss_},
      {"last", last_loss_},
      {"bytes", static_cast<double>(context_.transport->bytes_sent() - bytes_before_) / steps},
      {"communication_s", journal.communication_s},
      {"skipped", guard_->skipped()},
      {"steps", step_times_.size()},
      {"total_s", total_s}}
      .dump();
}

// What another worker has to say at its end, however far behind it is. Asynchronous rules: nothing when it is
// lost or has fallen silent.
std::optional<std::string> ApartTraining::hear(int rank) {
  if (synchronous_) {
    const auto message = job::recv_while_alive(context_, rank, transport::tags::kSummary, "summary");
    return std::string(transport::as_text(message.bytes()));
  }
  const auto arrived = std::make_shared<std::promise<transport::Result>>();
  auto result = arrived->get_future();
  context_.transport->post_recv(rank, transport::tags::kSummary, {}, {Deadline::never(), "summary"},
                                [arrived](transport::Result r) { arrived->set_value(std::move(r)); });
  int silent = 0;  // one that has ended in order is silent too: its message is here in a moment
  while (result.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
    check_alarm();
    control_.all_end();  // rank 0 has ended: those that have not may still be told to
    if (context_.transport->silence_s(rank) > kSilence_s && ++silent > 5) return std::nullopt;
  }
  const transport::Result message = result.get();
  if (!message.error) return std::string(transport::as_text(message.payload.bytes()));
  return std::nullopt;
}

void ApartTraining::summarise(TrainReport& report) {
  if (context_.rank() != 0) {
    const std::string own = summary(report.total_time);
    transport::send(*context_.transport, 0, transport::tags::kSummary, transport::as_bytes(own),
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
  int stepped = 0;
  for (const int rank : ranks_) {
    const auto text = rank == 0 ? std::optional(summary(report.total_time)) : hear(rank);
    if (!text) {
      check_alarm();
      report.lost.push_back(rank);
      continue;
    }
    const auto json = nlohmann::json::parse(*text);
    report.bytes_sent.push_back(json["bytes"].get<double>());
    if (json["steps"].get<int64_t>() > 0) {  // one that resumed beyond the last step makes none
      ++stepped;
      report.first_loss += number_of(json["first"]);
      report.last_loss += number_of(json["last"]);
    }
    report.skipped_updates += json["skipped"].get<int64_t>();
    communicated += json["communication_s"].get<double>();
    total += json["total_s"].get<double>();
  }
  report.first_loss /= stepped;
  report.last_loss /= stepped;
  report.comm_share = total > 0 ? communicated / total : 0;
}

}  // namespace

TrainReport train_apart(job::Context& context, const TrainOptions& options) {
  if (options.optimizer.asynchronous()) context.transport->tolerate_losses();
  if (context.trains()) {
    ApartTraining training(context, options);
    return run_loop(context, options, training.first_step(), training);
  }
  return {};  // a host that only serves has nothing to do: the centre is at rank 0
}

}  // namespace entrain::train
