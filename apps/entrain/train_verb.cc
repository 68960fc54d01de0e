// entrain train: trains a model, of the zoo or the user's own, on a cluster under a strategy.
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/models/blueprint.h"
#include "entrain/models/script.h"
#include "entrain/strategy/asynchrony.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/parts.h"
#include "entrain/train/examples.h"
#include "entrain/train/steps.h"
#include "entrain/train/train.h"
#include "entrain/trials/online_tuner.h"
#include "entrain/trials/replay.h"
#include "host_flags.h"
#include "optimizer_flags.h"
#include "pipeline_flags.h"
#include "rank_verb.h"
#include "shape_flag.h"
#include "strategies/auto_tuning.h"
#include "train_notes.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::train_verb {
namespace {

struct Command {
  train::TrainOptions train;
  std::string cluster;
  std::string strategy = train::TrainOptions().strategy.text();
  double timeout_s = 120;
  bool json = false;
  bool auto_tune = false;     // --strategy auto
  std::string space = "all";  // that it searches; or sync
  OptimizerFlags optimizer;
  PipelineFlags pipeline;
  std::string shape;
  std::string compute = "real";
  BatchFlags batch;
  double epochs = 0;  // 0: not given
  bool steps_given = false, strategy_given = false;
  int64_t global_batch = 0;  // examples per update, once the cluster is known
  std::vector<std::string> switches, reshapes;
  int restarts = 0;  // when a rank is lost
  RemoteOptions remote;
};

nlohmann::json to_json(const train::TrainReport& report, const Command& command) {
  const auto& times = report.step_times;  // none, when the run ended in its first steps
  const auto time = [&](double p) {
    return times.empty() ? nlohmann::json() : nlohmann::json(quantile(times, p));
  };
  const double bytes = std::accumulate(report.bytes_sent.begin(), report.bytes_sent.end(), 0.0);
  // Medians of the whole and of a part, taken on their own: the part may come out larger.
  const double compute = times.empty() ? report.compute_time : std::min(report.compute_time, median(times));
  nlohmann::json json = {
      {"model", command.train.model},
      {"compute", command.train.replay ? "replay" : "real"},
      {"cluster", command.cluster},
      {"strategy", report.strategy_id},
      {"batch_size",
       command.train.global_batch > 0 ? nlohmann::json() : nlohmann::json(command.train.batch_size)},
      {"global_batch", command.global_batch},
      {"steps", command.train.steps < train::kUnlimited ? nlohmann::json(command.train.steps) : nullptr},
      {"first_step", report.first_step},
      {"measured_steps", times.size()},
      {"interrupted", report.interrupted},
      {"total_time_s", report.total_time},
      {"step_time_median_s", time(0.5)},
      {"step_time_p10_s", time(0.1)},
      {"step_time_p90_s", time(0.9)},
      {"compute_time_s", compute},
      {"comm_share", report.comm_share >= 0          ? report.comm_share
                     : times.empty() || bytes == 0.0 ? 0.0
                                                     : 1 - compute / median(times)},
      {"bytes_sent_per_rank", bytes / static_cast<double>(report.bytes_sent.size())},
      {"bytes_sent_by_rank", report.bytes_sent},
      {"link_bound_s", report.link_bound.seconds},
      {"link_bound_best_s", report.link_bound_best},
      {"first_loss", report.first_loss},
      {"last_loss", report.last_loss},
      {"skipped_updates", report.skipped_updates},
      {"saturated_values", report.saturated_values},
      {"optimizer", command.train.optimizer.rule},
      {"tests", nlohmann::json::array()}};
  if (command.epochs > 0) json["epochs"] = command.epochs;
  if (report.pipeline) {
    json["pipeline"] = pipeline::to_json(*report.pipeline);
    json["pipeline"]["balance"] = report.balance;
    json["pipeline"]["devices"] = report.devices;
    json["pipeline"]["micro_batches"] = report.micro_batches;
  }
  if (!report.shape.empty()) json["shape"] = report.shape;
  for (const train::Test& test : report.tests) {
    nlohmann::json t = {{"step", test.step}, {"wall_s", test.wall_s}, {"loss", test.loss}};
    if (test.error >= 0) t["error"] = test.error;
    json["tests"].push_back(t);
  }
  if (!report.tests.empty()) json["test_loss"] = report.tests.back().loss;
  if (!report.tests.empty() && report.tests.back().error >= 0) json["test_error"] = report.tests.back().error;
  if (command.train.optimizer.apart()) {
    json["exchanges"] = report.exchanges;
    json["leader_switches"] = report.leader_switches;
    json["lost_workers"] = report.lost;
    if (command.train.optimizer.rule == "async-ps") json["greatest_lead"] = report.greatest_lead;
  }
  return json;
}

void print_breakdown(const nlohmann::json& r) {
  const nlohmann::json& p = r["pipeline"];
  const double wall = p["wall_s"].get<double>();
  fmt::print("  cells        {} devices, {} micro-batches, layers per cell {}\n", p["devices"].get<int>(),
             p["micro_batches"].get<int>(), p["balance"].dump());
  for (const char* part : {"compute", "recompute", "bubble", "imbalance", "transfer", "update", "other"}) {
    const double seconds = p[std::string(part) + "_s"].get<double>();
    fmt::print("    {:<10} {:5.1f}%  {}\n", part, 100 * seconds / wall, format_seconds(seconds));
  }
}

void print_table(const nlohmann::json& r) {
  const auto seconds = [&](const char* key) { return format_seconds(r[key].get<double>()); };
  fmt::print("{} on {}, strategy {}, {} examples per update\n", r["model"].get<std::string>(),
             r["cluster"].get<std::string>(), r["strategy"].get<std::string>(),
             r["global_batch"].get<int64_t>());
  fmt::print("  step time    {} (p10 {}, p90 {}, {} steps)\n", seconds("step_time_median_s"),
             seconds("step_time_p10_s"), seconds("step_time_p90_s"), r["measured_steps"].get<int64_t>());
  if (r.contains("shape")) fmt::print("  shape        {}\n", r["shape"].get<std::string>());
  const double bytes = r["bytes_sent_per_rank"].get<double>();
  if (bytes > 0 && !r.contains("pipeline")) {
    fmt::print("  compute      {}; communication not hidden: {:.0f}% of the step\n",
               seconds("compute_time_s"), 100 * r["comm_share"].get<double>());
  } else if (!r.contains("pipeline")) {
    fmt::print("  compute      {}; nothing is sent: one rank trains\n", seconds("compute_time_s"));
  }
  if (bytes > 0) fmt::print("  sent         {} per rank and step\n", format_bytes(bytes));
  if (r.contains("pipeline")) {
    print_breakdown(r);
  } else if (r.contains("greatest_lead")) {
    fmt::print("  exchanges    {} of rank 0, the slowest worker at most {} behind another\n",
               r["exchanges"].get<int64_t>(), r["greatest_lead"].get<int64_t>());
  } else if (r.contains("exchanges")) {
    fmt::print("  exchanges    {} of rank 0, another leader {} times\n", r["exchanges"].get<int64_t>(),
               r["leader_switches"].get<int64_t>());
  } else if (r["link_bound_best_s"].get<double>() > 0) {
    fmt::print("  link bound   {} for this strategy, {} for the best possible of its bytes\n",
               seconds("link_bound_s"), seconds("link_bound_best_s"));
  } else if (bytes > 0) {
    fmt::print("  link bound   none: all ranks are on one host\n");
  }
  fmt::print("  loss         {:.4f} -> {:.4f}\n", number_of(r["first_loss"]), number_of(r["last_loss"]));
  if (r.contains("test_error")) fmt::print("  test error   {:.2f}%\n", 100 * number_of(r["test_error"]));
  if (r.contains("test_loss")) fmt::print("  test loss    {:.4f}\n", number_of(r["test_loss"]));
  if (const auto skipped = r["skipped_updates"].get<int64_t>()) {
    fmt::print("  skipped      {} updates, whose loss or gradient was not finite\n", skipped);
  }
  if (const auto cut = r["saturated_values"].get<uint64_t>()) {
    fmt::print("  saturated    {} values beyond the range of float16 were cut to 65504\n", cut);
  }
  if (r.contains("lost_workers") && !r["lost_workers"].empty()) {
    fmt::print("  lost         ranks {}\n", r["lost_workers"].dump());
  }
}

void print_report(const nlohmann::json& json, const Command& command) {
  if (command.json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  if (json["measured_steps"] == 0) {
    fmt::print("{} on {} ended in its first steps, whose times do not count\n", command.train.model,
               command.cluster);
  } else {
    print_table(json);
  }
  fmt::print("{}", written(command.train, json["interrupted"].get<bool>()));
}

// "10=ps": from step 10 on, strategy ps. `form` and `example`: of what is allowed.
std::pair<int64_t, std::string> parse_switch(const char* flag, const std::string& text, const char* form,
                                             const char* example) {
  const size_t equals = text.find('=');
  int64_t step = 0;
  const char* end = text.data() + std::min(equals, text.size());
  if (equals == std::string::npos || std::from_chars(text.data(), end, step).ptr != end || step < 1) {
    bad_input("{} '{}': allowed are STEP={} with STEP at least 1, as in {}", flag, text, form, example);
  }
  return {step, text.substr(equals + 1)};
}

std::pair<int64_t, std::string> strategy_switch(const std::string& text) {
  return parse_switch("--switch", text, "STRATEGY", "10=ps");
}

std::pair<int64_t, std::string> shape_switch(const std::string& text) {
  return parse_switch("--reshape", text, "SHAPE", "'10=0-7@0 8-15@1'");
}

// A strategy file must be one of this model; a builder always is.
void check_strategy(const strategy::Request& request, const std::string& model_name) {
  request.check();
  if (request.is_builder()) return;
  const auto model = models::make_blueprint(model_name);
  const auto parameters = model->named_parameters();
  for (const auto& variable : request.stored()->variables) {
    if (parameters.contains(variable.name)) continue;
    bad_input("{}: strategy is for another model: it has {}, {} has no such variable", request.text(),
              variable.name, model_name);
  }
}

// Whether a file can be written must be known before hours of training. An existing file stays as it is: an
// AtomicFile that is not committed leaves it alone.
void check_writable(const char* flag, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::error_code error;
  if (!std::filesystem::is_directory(std::filesystem::absolute(path).parent_path(), error)) {
    bad_input("{} {}: there is no such folder", flag, path.string());
  }
  if (!path.has_filename() || std::filesystem::is_directory(path, error)) {
    bad_input("{} {}: it is a folder; allowed: a file", flag, path.string());
  }
  try {
    const AtomicFile probe(path);
  } catch (const Error& e) {
    bad_input("{} {}: {}", flag, path.string(), e.what());
  }
}

void check_results(const Command& command) {
  const train::TrainOptions& train = command.train;
  if (!train.init.empty() && !train.resume.empty()) {
    bad_input("--init and --resume: a checkpoint has parameters of its own; allowed: one of them");
  }
  if (!train.save_model.empty() && !models::is_script(train.model)) {
    bad_input("--save-model: {} came from no .pt file; allowed: --save", train.model);
  }
  if (command.restarts > 0 && (train.checkpoint_every == 0 || train.out.empty())) {
    bad_input("--restarts {}: the job goes on from its newest checkpoint; give --out and --checkpoint-every",
              command.restarts);
  }
  if (train.checkpoint_every > 0 && train.out.empty()) {
    bad_input("--checkpoint-every {}: give the folder for checkpoints with --out", train.checkpoint_every);
  }
}

// What rank 0 will write.
void check_output(const train::TrainOptions& train) {
  check_writable("--save", train.save);
  check_writable("--save-model", train.save_model);
  check_writable("--trace", train.trace);
  if (!train.resume.empty() || train.out.empty()) return;
  const auto folder = train.optimizer.apart() ? train.out / "worker-0" : train.out;
  if (const auto step = checkpoint::Checkpoints(folder).newest_step()) {
    bad_input("--out {}: holds checkpoints of another run, up to step {}; give --resume {} or another folder",
              train.out.string(), *step, train.out.string());
  }
}

// --compute replay:FILE: the model is the profile's, and nothing is learned.
void take_replay(Command& command) {
  train::TrainOptions& train = command.train;
  train.replay = trials::profile_to_replay(command.compute);
  if (train.model.empty() && train.replay) train.model = train.replay->model;
  if (train.model.empty()) bad_input("--model is required; entrain graph --list shows the models");
  if (!train.replay) return;
  if (train.model != train.replay->model) {
    bad_input("--model {}: {} is a profile of {}; allowed: that model, or none", train.model, command.compute,
              train.replay->model);
  }
  const bool learns = !train.data.empty() || !train.resume.empty() || !train.init.empty() ||
                      !train.save.empty() || !train.save_model.empty() || train.checkpoint_every > 0 ||
                      train.test_every > 0;
  if (learns || train.optimizer.apart() || command.auto_tune || train.device != "cpu") {
    bad_input(
        "--compute {}: nothing is computed, so nothing is learned; allowed without --data, --resume, --init, "
        "--save, --save-model, --checkpoint-every, --test-every, --device cuda, rules that train apart and "
        "--strategy auto",
        command.compute);
  }
  train.optimizer.base = "sgd";
  train.optimizer.learning_rate = 0;
  train.optimizer.clip_norm = 0;
}

// Cells and ranks that are slower than they compute are rehearsed pass by pass; whole models are not.
void warn_of_full_speed(const train::TrainOptions& train, const cluster::Cluster& cluster) {
  if (cluster.kind != cluster::Kind::kLab || train.replay || train.shape || train.pipeline.there()) return;
  const auto slow = std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                                 [](const cluster::Host& host) { return host.speed < 1; });
  if (slow == cluster.hosts.end()) return;
  log_warn("host {} computes at full speed, not at {}; give --shape @{}-{}, or --compute replay:FILE",
           slow->address, slow->speed, cluster.worker_ranks().front(), cluster.worker_ranks().back());
}

// Where the cluster is given; else each rank finds out when it knows the others.
void check_shapes(const train::TrainOptions& train, const std::string& cluster_text) {
  if (!train.shape && train.reshapes.empty()) return;
  if (cluster_text.empty()) return;
  const cluster::Cluster cluster = cluster::parse(cluster_text);
  const auto check = [&](const strategy::Shape& shape) {
    strategy::validate(shape, layers_of(train), cluster,
                       train::examples_per_update(train, cluster.workers()));
  };
  if (train.shape) check(*train.shape);
  for (const auto& [step, shape] : train.reshapes) check(shape);
}

// What is wrong is reported before anything is started where that is possible, and once.
void check(Command& command) {
  check_results(command);
  if (checks_output(command.cluster)) check_output(command.train);
  models::make_blueprint(command.train.model);  // throws, naming the allowed ones
  check_strategy(command.train.strategy, command.train.model);
  check_shapes(command.train, command.cluster);
  if (command.train.optimizer.rule == "async-ps" && command.optimizer.name != "async-ps") {
    log_info(
        "{} is asynchronous: trains as --optimizer async-ps --staleness {}, the parameters kept at rank 0",
        command.train.strategy.text(), command.train.optimizer.staleness);
  }
  for (const auto& text : command.switches) {
    const strategy::Request wanted = strategy_switch(text).second;
    check_strategy(wanted, command.train.model);
    if (wanted.stored()) strategy::check_parts(*wanted.stored(), "--switch " + text);
  }
  if (!command.train.out.empty() && command.train.out != command.train.resume)
    make_folders(command.train.out);
}

// In a job that was started again: what --out holds by now is its own.
void resume_restarted(train::TrainOptions& train) {
  const auto folder = train.optimizer.apart() ? train.out / "worker-0" : train.out;
  if (!checkpoint::Checkpoints(folder).newest_step()) return;  // it was lost before the first
  train.resume = train.out;
  train.init.clear();
}

// Asynchronous rules go on without a worker that is lost, unless it keeps what they share.
int essential_rank(const Command& command) { return command.train.optimizer.asynchronous() ? 0 : -1; }

// Flags that mean nothing to workers that train apart are errors; they are not ignored.
void check_apart(const Command& command) {
  const train::TrainOptions& train = command.train;
  if (!train.optimizer.apart()) return;
  const std::string& rule = train.optimizer.rule;
  if (command.auto_tune || !command.switches.empty()) {
    bad_input(
        "--strategy auto, --switch: gradients are not synchronized under {}; allowed with --optimizer sgd",
        rule);
  }
  if (command.strategy_given && train.strategy.is_builder()) {
    bad_input("--strategy {}: gradients are not synchronized under {}; allowed: a file with its settings",
              train.strategy.text(), rule);
  }
  const auto& file = train.strategy.stored();
  if (file && !file->variables.empty() && (rule != "async-ps" || !strategy::staleness_of(*file))) {
    bad_input(
        "--strategy {}: it says how variables are synchronized, which they are not under {}; allowed: a file "
        "without variables, or --optimizer sgd",
        train.strategy.text(), rule);
  }
  if (rule == "hogwild" && (!train.resume.empty() || train.checkpoint_every > 0 || train.device != "cpu")) {
    bad_input("--resume, --checkpoint-every, --device: not supported with hogwild: its threads never pause");
  }
}

void check_cells(const Command& command) {
  const train::TrainOptions& train = command.train;
  if (!train.pipeline.there() && !train.shape && train.reshapes.empty()) {
    if (!train.trace.empty()) bad_input("--trace: allowed with --shape, --pipeline or --micro-batches");
    return;
  }
  if (train.pipeline.there() && train.shape) {
    bad_input("--shape, --pipeline, --micro-batches: a shape says all of it; allowed: --shape or the others");
  }
  if (train.optimizer.apart() || command.auto_tune || !command.switches.empty()) {
    bad_input(
        "--shape, --reshape, --pipeline, --micro-batches: allowed with --optimizer sgd and one strategy, "
        "without "
        "--switch");
  }
  if (train.on_nonfinite == NonFinite::kSkip) {
    bad_input("--on-nonfinite skip: not supported with --shape or --pipeline; allowed: stop");
  }
}

int run(Command& command) {
  command.auto_tune = command.strategy == "auto";  // begins with the default, until something better is found
  if (!command.auto_tune) command.train.strategy = command.strategy;
  command.train.optimizer = command.optimizer.settings(command.train.strategy);
  command.train.pipeline = command.pipeline.settings(command.train.strategy);
  command.train.global_batch = command.batch.global;
  take_replay(command);
  // The process that starts ranks elsewhere may not have the model.
  const bool cut = !command.shape.empty() || !command.reshapes.empty();
  const int layers = cut ? layers_of(command.train) : 0;
  command.train.shape = shape_for(command.shape, command.train.strategy, layers);
  for (const auto& text : command.reshapes) {
    const auto [step, shape] = shape_switch(text);
    command.train.reshapes.emplace_back(step, *shape_for(shape, command.train.strategy, layers));
  }
  if (command.train.out.empty()) command.train.out = command.train.resume;  // go on where it was
  check_apart(command);
  check_cells(command);
  check_epochs(command.epochs, command.train);
  if (command.train.steps >= train::kUnlimited) {
    bad_input("--steps {}: allowed: less than {}", command.train.steps, train::kUnlimited);
  }
  if (command.train.seconds > 0 && !command.steps_given) command.train.steps = train::kUnlimited;
  if (command.restarts > 0 && is_restarted()) resume_restarted(command.train);
  // Before any rank trains: by the process that starts them, or under another launcher by each of them.
  if (checks_input(command.cluster)) check(command);
  for (const auto& text : command.switches) command.train.switches.push_back(strategy_switch(text));
  return run_on_ranks(
      command.cluster, command.timeout_s, command.remote,
      [&](job::Context& context) {
        end_on_signals(context);
        if (command.epochs > 0 && context.trains()) {
          command.train.steps = steps_of_epochs(command.epochs, context, command.train);
        }
        if (context.rank() == 0) {
          warn_of_another_job(command.train, context.cluster);
          warn_of_no_exchange(command.train);
          warn_of_full_speed(command.train, context.cluster);
        }
        if (command.auto_tune && command.space == "all") {
          command.train.shapes_advised = searches_shapes(command.train, !command.switches.empty(), context);
        }
        std::unique_ptr<trials::OnlineTuner> advisor;
        if (command.auto_tune && context.rank() == 0) {
          advisor = make_online_tuner(command.train, context.cluster);
          command.train.advisor = advisor.get();
        }
        command.cluster = context.cluster.name;
        command.global_batch =
            train::examples_per_update(command.train, train::workers_of(context, command.train));
        const train::TrainReport report = train::train(context, command.train);
        if (context.rank() != 0) return 0;
        auto json = to_json(report, command);
        if (advisor) json["auto"] = advisor->summary();
        print_report(json, command);
        return 0;
      },
      essential_rank(command), command.restarts);
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("train", "Train a model on a cluster under a strategy");
  auto c = std::make_shared<Command>();
  add_model_option(*verb, c->train.model, Models::kZooOrScript);
  verb->add_option(
      "--cluster", c->cluster,
      "local:4, lab:4x1gbit, cluster.yml, hostfile; without it, the hosts of mpirun, srun or torchrun, else "
      "local:1");
  verb->add_option("--strategy", c->strategy, "Builder, strategy file, or auto: tune while training")
      ->capture_default_str();
  verb->add_option(
          "--space", c->space,
          "Of --strategy auto: all: also which ranks hold which layers, where the model is a sequence "
          "of layers; sync: only how variables are synchronized")
      ->check(CLI::IsMember({"all", "sync"}))
      ->capture_default_str();
  add_optimizer_options(*verb, c->optimizer);
  add_shape_option(*verb, c->shape);
  add_pipeline_options(*verb, c->pipeline);
  verb->add_option("--trace", c->train.trace,
                   "Shapes and pipelines: the last step as a trace for chrome://tracing or Perfetto")
      ->group("Pipeline");
  verb->add_option(
      "--data", c->train.data,
      "cifar10:FOLDER, idx:FOLDER, text:FILE, tensors:FILE.safetensors, tensors:FOLDER (of .npy); without "
      "it, examples are made up");
  verb->add_option("--test-every", c->train.test_every, "Steps between tests on held-out data")
      ->check(not_negative());
  verb->add_option(
          "--bn-recompute", c->train.bn_recompute,
          "Training batches that batch norm's statistics are taken from for a test; 0: the workers' mean")
      ->check(not_negative())
      ->capture_default_str();
  verb->add_option(
          "--compute", c->compute,
          "real, or replay:FILE: sleep for as long as a profile says (entrain graph --profile-out FILE)")
      ->capture_default_str();
  verb->add_option("--device", c->train.device, "cpu or cuda; the ranks of a host take its GPUs in turn")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--seconds", c->train.seconds,
                   "End after this many seconds, tests not counted (and after --steps, if given); "
                   "synchronous rules that "
                   "train apart end where a period does, up to two periods later")
      ->check(not_negative());
  auto* steps = verb->add_option("--steps", c->train.steps, "Steps in all, those before --resume counted")
                    ->check(positive())
                    ->capture_default_str();
  verb->add_option("--epochs", c->epochs,
                   "Passes through --data instead of --steps: epochs x examples / examples per update")
      ->check(positive())
      ->excludes(steps);
  add_batch_options(*verb, c->train.batch_size, c->batch,
                    "Examples per update and rank that trains, whatever the shape");
  verb->add_option_function<std::string>(
          "--on-nonfinite", [c](const std::string& name) { c->train.on_nonfinite = parse_non_finite(name); },
          "When a loss or gradient is not finite: stop, or skip that update (not with --shape or --pipeline) "
          "[stop]")
      ->check(CLI::IsMember({"stop", "skip"}));
  verb->add_option("--seed", c->train.seed, "Seed of parameters and data")->capture_default_str();
  verb->add_option("--out", c->train.out, "Folder for metrics.jsonl and checkpoints");
  verb->add_option("--checkpoint-every", c->train.checkpoint_every, "Steps between checkpoints (in --out)")
      ->check(not_negative());
  verb->add_option(
      "--resume", c->train.resume,
      "Go on from the newest checkpoint in this folder, and save there unless --out says otherwise");
  verb->add_option("--restarts", c->restarts,
                   "Times that the job is started again from its newest checkpoint when a rank is lost")
      ->check(not_negative())
      ->capture_default_str();
  verb->add_option("--compare-every", c->train.compare_every,
                   "Steps between comparisons of the parameters that several ranks hold; 0: never")
      ->check(not_negative())
      ->capture_default_str();
  verb->add_option("--init", c->train.init, "State dict to start from (safetensors)");
  verb->add_option("--save", c->train.save, "Write the trained state dict there (safetensors)");
  verb->add_option("--save-model", c->train.save_model,
                   "Write the trained model there, as TorchScript (of --model NAME.pt)");
  verb->add_option("--switch", c->switches, "STEP=STRATEGY: change the strategy between two steps");
  verb->add_option("--reshape", c->reshapes, "STEP=SHAPE: change the shape between two steps (see --shape)");
  verb->add_option("--timeout", c->timeout_s, "Seconds without any progress after which a rank is given up")
      ->check(positive())
      ->capture_default_str();
  verb->add_flag("!--no-overlap-forward", c->train.overlap_forward,
                 "Finish all updates before the next forward starts");
  add_host_options(*verb, c->remote);
  add_json_option(*verb, c->json);
  verb->footer(
      "Time: as long as its steps take; the progress line shows how long that is. Ctrl-C ends it after the "
      "step\n"
      "under way, with a checkpoint if there is --out.\n"
      "Examples:\n"
      "  entrain train --model vgg16-32 --cluster lab:4x1gbit --strategy allreduce --batch-size 2\n"
      "  entrain train --model vgg16-32 --cluster lab:4x1gbit --global-batch 20 --shape '0-12@0*.1,1-3*.3 "
      "13-15@0 "
      "m=10'\n"
      "  entrain train --model bert-small --cluster local:3 --shape @0 --reshape '10=0-1@0 2-3@1,2 m=4'\n"
      "  entrain train --model bert-small --cluster local:2 --steps 100 --out run --checkpoint-every 20\n"
      "  entrain train --model bert-small --cluster local:2 --steps 200 --out run --resume run\n"
      "  entrain train --model mine.pt --data folder --epochs 3 --cluster local:2 --save-model trained.pt\n"
      "  entrain train --model bert-base --cluster cluster.yml --batch-size 8      (over ssh)");
  verb->callback([c, verb, &action] {
    c->steps_given = verb->count("--steps") > 0 || verb->count("--epochs") > 0;
    c->strategy_given = verb->count("--strategy") > 0;
    action = [c] { return run(*c); };
  });
}

}  // namespace entrain::app::train_verb
