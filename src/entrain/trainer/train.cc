#include "entrain/trainer/train.h"

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/base/units.h"
#include "entrain/models/registry.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trainer/checkpoint.h"
#include "entrain/trainer/distributed.h"
#include "entrain/trainer/server.h"

namespace entrain {
namespace {

constexpr transport::Tag kSummaryTag = transport::kControlTags + 10;
constexpr transport::Tag kWordTag = transport::kControlTags + 11;
constexpr transport::Tag kRngTag = transport::kControlTags + 12;

std::atomic<bool> stop_requested{false};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                        const std::vector<torch::Tensor>& parameters) {
  const double lr = options.learning_rate;
  if (options.optimizer == "sgd") {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(lr));
  }
  if (options.optimizer == "momentum") {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(lr).momentum(0.9));
  }
  if (options.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(lr));
  }
  bad_input("unknown optimizer '{}'; allowed: sgd, momentum, adam", options.optimizer);
}

// A few batches made once and gone through in turn: position p is batch p % kPool. Each rank
// has its own, so that all ranks together see kPool large batches.
class SyntheticData {
 public:
  SyntheticData(const models::Model& model, const TrainOptions& options, int rank) {
    auto generator = at::detail::createCPUGenerator(options.seed * 1'000'003 + static_cast<uint64_t>(rank));
    for (int i = 0; i < kPool; ++i) batches_.push_back(model.synthetic(options.batch_size, generator));
  }
  const models::Batch& at(int64_t position) const { return batches_[static_cast<size_t>(position % kPool)]; }

 private:
  static constexpr int64_t kPool = 4;
  std::vector<models::Batch> batches_;
};

// What rank 0 says about a step: go on, stop instead (Ctrl-C reaches the ranks at different moments), or
// change the strategy before it. Said a step ahead, so that nobody waits for it.
enum class Word : char { kGo = 'g', kStop = 's', kChange = 'c' };

class Captain {
 public:
  explicit Captain(Context& context) : context_(context) {}

  // Called at the start of every step by every worker: the word on this step. `change`: rank 0 wants
  // another strategy; the word on the next step says so.
  Word word(bool change) {
    if (context_.rank() != 0) {
      if (!std::exchange(started_, true)) return Word::kGo;
      const auto payload =
          transport::recv(*context_.transport, 0, kWordTag, {Deadline::never(), "the word to go on"});
      return static_cast<Word>(transport::as_text(payload.bytes()).at(0));
    }
    const Word now = next_;
    if (now == Word::kStop) return now;
    next_ = stop_requested ? Word::kStop : change ? Word::kChange : Word::kGo;
    for (int rank = 1; rank < context_.world(); ++rank) {
      if (!context_.cluster.is_worker(rank)) continue;
      context_.transport->post_send(rank, kWordTag, {transport::as_bytes(text_of(next_))}, {-1}, [](auto) {});
    }
    return now;
  }

 private:
  Context& context_;
  // Lives as long as the send.
  static std::string_view text_of(Word word) {
    return word == Word::kStop ? "s" : word == Word::kChange ? "c" : "g";
  }

  bool started_ = false;   // the first step always runs
  Word next_ = Word::kGo;  // rank 0's word on the next step
};

// One worker's run.
class Training {
 public:
  Training(Context& context, const TrainOptions& options)
      : context_(context),
        options_(options),
        model_(models::make_model(options.model, options.seed)),
        optimizer_(make_optimizer(options, model_->parameters())) {
    resume();
    if (context.rank() == 0 && !options.out.empty()) {
      std::filesystem::create_directories(options.out);
      metrics_.emplace(options.out / "metrics.jsonl");
    }
    distributed_ =
        distribute(context, *model_, *optimizer_, {options.strategy, options.seed, options.overlap_forward});
    restore_rng();
  }

  TrainReport run();

 private:
  void resume();
  void restore_rng();
  void save(int64_t step);
  void switch_if_due(int64_t step);
  void record(int64_t step, double seconds, double loss);
  void summarise(TrainReport& report, const std::vector<double>& compute_times);

  Context& context_;
  const TrainOptions& options_;
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<CheckpointInfo> resumed_;
  std::optional<LineLog> metrics_;
  std::unique_ptr<Distributed> distributed_;
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

void Training::record(int64_t step, double seconds, double loss) {
  if (!metrics_) return;
  metrics_->append(nlohmann::json{{"step", step},
                                  {"loss", loss},
                                  {"step_time_s", seconds},
                                  {"bytes_sent", context_.transport->bytes_sent()},
                                  {"strategy", distributed_->strategy().id}}
                       .dump());
}

TrainReport Training::run() {
  TrainReport report;
  report.first_step = resumed_ ? resumed_->step : 0;
  const int64_t count = options_.steps - report.first_step;
  if (count <= 0) {
    bad_input("--steps {}: the checkpoint has {} steps already; ask for more", options_.steps,
              report.first_step);
  }
  const int64_t warmup = std::min<int64_t>(5, count / 5 + (count > 1 ? 1 : 0));
  const SyntheticData data(*model_, options_, context_.rank());
  Progress progress("step", options_.steps, options_.progress && context_.rank() == 0);
  Captain captain(context_);
  std::optional<strategy::Strategy> wanted;  // by the pilot
  bool asked = false, changed = false;       // the change has been announced; was made before this step
  const auto begin = Clock::now();
  std::vector<double> compute_times;
  int64_t step = report.first_step;
  for (; step < options_.steps; ++step) {
    const Word word = captain.word(wanted && !asked);
    if (word == Word::kStop) {
      report.interrupted = true;
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
    const torch::Tensor loss = model_->loss(data.at(step));
    const double forward = seconds_since(start) - (distributed_->times().waited - before.waited) -
                           (distributed_->times().updated - before.updated);
    last_loss_ = loss.item<double>();
    if (done == 0) first_loss_ = last_loss_;
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
    if (options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0) save(step + 1);
    progress.update(step + 1, fmt::format("loss {:.4f}", last_loss_));
  }
  distributed_->finish();
  report.total_time = seconds_since(begin);
  counted_steps_ = static_cast<int64_t>(report.step_times.size());
  if (options_.checkpoint_every == 0 || step % options_.checkpoint_every != 0) save(step);
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
  report.link_bound_best = plan::best_link_bound(report.graph, context_.cluster);
  distributed_.reset();  // ends the servers' loop, so that they come to the gathering too
  const auto all = transport::gather(*context_.transport, 0, own.dump(), kSummaryTag,
                                     Deadline::after(context_.job.timeout_s), "summary of the run");
  if (context_.rank() != 0) return;
  report.compute_time = compute_times.empty() ? 0 : quantile(compute_times, 0.5);
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

void request_stop() { stop_requested = true; }

double quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

TrainReport train(Context& context, const TrainOptions& options) {
  if (context.trains()) return Training(context, options).run();
  serve(context);
  transport::gather(*context.transport, 0, "{}", kSummaryTag, Deadline::after(context.job.timeout_s),
                    "summary of the run");
  return {};
}

}  // namespace entrain
