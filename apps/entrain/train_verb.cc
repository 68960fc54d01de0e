// entrain train: trains a model, of the zoo or the user's own, on a cluster under a strategy.
#include <charconv>
#include <csignal>
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
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/train/steps.h"
#include "entrain/train/train.h"
#include "entrain/trials/online_tuner.h"
#include "host_flags.h"
#include "optimizer_flags.h"
#include "pipeline_flags.h"
#include "rank_verb.h"
#include "train_notes.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::train_verb {
namespace {

volatile std::sig_atomic_t stopped_by = 0;  // the signal

struct Command {
  train::TrainOptions train;
  std::string cluster;
  double timeout_s = 120;
  bool json = false;
  bool auto_tune = false;  // --strategy auto
  OptimizerFlags optimizer;
  PipelineFlags pipeline;
  double epochs = 0;  // 0: not given
  bool steps_given = false, strategy_given = false;
  std::vector<std::string> switches;
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
      {"cluster", command.cluster},
      {"strategy", report.strategy_id},
      {"batch_size", command.train.batch_size},
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
    json["pipeline"]["devices"] = command.train.pipeline.devices;
    json["pipeline"]["micro_batches"] = command.train.pipeline.micro_batches;
  }
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

void print_breakdown(const nlohmann::json& p) {
  const double wall = p["wall_s"].get<double>();
  fmt::print("  pipeline     {} devices, {} micro-batches, layers per cell {}\n", p["devices"].get<int>(),
             p["micro_batches"].get<int>(), p["balance"].dump());
  for (const char* part : {"compute", "recompute", "bubble", "imbalance", "transfer", "update", "other"}) {
    const double seconds = p[std::string(part) + "_s"].get<double>();
    fmt::print("    {:<10} {:5.1f}%  {}\n", part, 100 * seconds / wall, format_seconds(seconds));
  }
}

void print_table(const nlohmann::json& r) {
  const auto seconds = [&](const char* key) { return format_seconds(r[key].get<double>()); };
  fmt::print("{} on {}, strategy {}, batch {} per rank\n", r["model"].get<std::string>(),
             r["cluster"].get<std::string>(), r["strategy"].get<std::string>(),
             r["batch_size"].get<int64_t>());
  fmt::print("  step time    {} (p10 {}, p90 {}, {} steps)\n", seconds("step_time_median_s"),
             seconds("step_time_p10_s"), seconds("step_time_p90_s"), r["measured_steps"].get<int64_t>());
  const double bytes = r["bytes_sent_per_rank"].get<double>();
  if (bytes > 0 && !r.contains("pipeline")) {
    fmt::print("  compute      {}; communication not hidden: {:.0f}% of the step\n",
               seconds("compute_time_s"), 100 * r["comm_share"].get<double>());
  } else if (!r.contains("pipeline")) {
    fmt::print("  compute      {}; nothing is sent: one rank trains\n", seconds("compute_time_s"));
  }
  if (bytes > 0) fmt::print("  sent         {} per rank and step\n", format_bytes(bytes));
  if (r.contains("pipeline")) {
    print_breakdown(r["pipeline"]);
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

// "10=ps": from step 10 on, strategy ps.
std::pair<int64_t, std::string> parse_switch(const std::string& text) {
  const size_t equals = text.find('=');
  int64_t step = 0;
  const char* end = text.data() + std::min(equals, text.size());
  if (equals == std::string::npos || std::from_chars(text.data(), end, step).ptr != end || step < 1) {
    bad_input("--switch '{}': allowed are STEP=STRATEGY with STEP at least 1, as in 10=ps", text);
  }
  return {step, text.substr(equals + 1)};
}

// A strategy file must be one of this model; a builder always is.
void check_strategy(const std::string& name_or_file, const std::string& model_name) {
  strategy::check_name(name_or_file);
  const strategy::Named named = strategy::parse_name(name_or_file);
  if (named.is_builder()) return;
  const auto model = models::make_blueprint(model_name);
  const auto parameters = model->named_parameters();
  for (const auto& variable : strategy::load(named.base).variables) {
    if (parameters.contains(variable.name)) continue;
    bad_input("{}: strategy is for another model: it has {}, {} has no such variable", name_or_file,
              variable.name, model_name);
  }
}

// That a file cannot be written is not to be found out after hours of training. A file that is there stays as
// it is: an AtomicFile that is not committed was only ever beside it.
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

void check_results(const train::TrainOptions& train) {
  if (!train.init.empty() && !train.resume.empty()) {
    bad_input("--init and --resume: a checkpoint has parameters of its own; allowed: one of them");
  }
  if (!train.save_model.empty() && !models::is_script(train.model)) {
    bad_input("--save-model: {} came from no .pt file; allowed: --save", train.model);
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

// What can be told before anything is started is told then, once.
void check(Command& command) {
  check_results(command.train);
  if (checks_output(command.cluster)) check_output(command.train);
  models::make_blueprint(command.train.model);  // throws, naming the allowed ones
  check_strategy(command.train.strategy, command.train.model);
  if (command.train.optimizer.rule == "async-ps" && command.optimizer.name != "async-ps") {
    log_info(
        "{} is asynchronous: trains as --optimizer async-ps --staleness {}, the parameters kept at rank 0",
        command.train.strategy, command.train.optimizer.staleness);
  }
  for (const auto& text : command.switches) check_strategy(parse_switch(text).second, command.train.model);
  if (!command.train.out.empty() && command.train.out != command.train.resume)
    make_folders(command.train.out);
}

std::unique_ptr<trials::OnlineTuner> make_online_tuner(const train::TrainOptions& train,
                                                       const cluster::Cluster& cluster) {
  trials::OnlineTunerOptions options{train.model, train.batch_size, train.steps, train.seed, {}};
  if (!train.out.empty()) {
    make_folders(train.out);
    options.log = train.out / "trials.jsonl";
  }
  return std::make_unique<trials::OnlineTuner>(cluster, std::move(options));
}

// Asynchronous rules go on without a worker that is lost, unless it keeps what they share.
int essential_rank(const Command& command) { return command.train.optimizer.asynchronous() ? 0 : -1; }

// What an apart job has no use for is refused rather than passed over.
void check_apart(const Command& command) {
  const train::TrainOptions& train = command.train;
  if (!train.optimizer.apart()) return;
  const std::string& rule = train.optimizer.rule;
  if (command.auto_tune || !command.switches.empty()) {
    bad_input(
        "--strategy auto, --switch: gradients are not synchronized under {}; allowed with --optimizer sgd",
        rule);
  }
  if (command.strategy_given && strategy::parse_name(train.strategy).is_builder()) {
    bad_input("--strategy {}: gradients are not synchronized under {}; allowed: a file with its settings",
              train.strategy, rule);
  }
  if (rule == "hogwild" && (!train.resume.empty() || train.checkpoint_every > 0 || train.device != "cpu")) {
    bad_input(
        "--resume, --checkpoint-every, --device: not there for hogwild, whose threads never stand still");
  }
}

void check_pipeline(const Command& command) {
  if (!command.train.pipeline.there()) {
    if (!command.train.trace.empty()) bad_input("--trace: allowed with --pipeline or --micro-batches");
    return;
  }
  if (command.train.optimizer.apart() || command.auto_tune || !command.switches.empty()) {
    bad_input("--pipeline, --micro-batches: allowed with --optimizer sgd and one strategy, without --switch");
  }
  if (command.train.on_nonfinite == NonFinite::kSkip) {
    bad_input("--on-nonfinite skip: not supported with --pipeline; allowed: stop");
  }
}

int run(Command& command) {
  command.train.optimizer = command.optimizer.settings(command.train.strategy);
  command.train.pipeline = command.pipeline.settings(command.train.strategy);
  command.auto_tune = command.train.strategy == "auto";
  if (command.auto_tune)
    command.train.strategy = train::TrainOptions().strategy;                // until something better is found
  if (command.train.out.empty()) command.train.out = command.train.resume;  // go on where it was
  check_apart(command);
  check_pipeline(command);
  check_epochs(command.epochs, command.train);
  if (command.train.seconds > 0 && !command.steps_given) command.train.steps = train::kUnlimited;
  // Before any rank trains: by the process that starts them, or under another launcher by each of them.
  if (checks_input(command.cluster)) check(command);
  for (const auto& text : command.switches) command.train.switches.push_back(parse_switch(text));
  return run_on_ranks(
      command.cluster, command.timeout_s, command.remote,
      [&](job::Context& context) {
        for (const int signal : {SIGINT, SIGTERM}) {
          std::signal(signal, [](int caught) {
            stopped_by = caught;
            job::request_stop();
          });
        }
        if (command.epochs > 0 && context.trains()) {
          command.train.steps = steps_of_epochs(command.epochs, context, command.train);
        }
        if (context.rank() == 0) {
          warn_of_another_job(command.train, context.cluster);
          warn_of_no_exchange(command.train);
        }
        std::unique_ptr<trials::OnlineTuner> advisor;
        if (command.auto_tune && context.rank() == 0) {
          advisor = make_online_tuner(command.train, context.cluster);
          command.train.advisor = advisor.get();
        }
        command.cluster = context.cluster.name;
        const train::TrainReport report = train::train(context, command.train);
        if (context.rank() != 0) return 0;
        auto json = to_json(report, command);
        if (advisor) json["auto"] = advisor->summary();
        print_report(json, command);
        return code_after(stopped_by);
      },
      essential_rank(command));
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("train", "Train a model on a cluster under a strategy");
  auto c = std::make_shared<Command>();
  verb->add_option("--model", c->train.model,
                   "Model of the zoo (see entrain graph --list), or a TorchScript file NAME.pt")
      ->required();
  verb->add_option(
      "--cluster", c->cluster,
      "local:4, lab:4x1gbit, cluster.yml, hostfile; without it, the hosts of mpirun, srun or torchrun, else "
      "local:1");
  verb->add_option("--strategy", c->train.strategy, "Builder, strategy file, or auto: tune while training")
      ->capture_default_str();
  add_optimizer_options(*verb, c->optimizer);
  add_pipeline_options(*verb, c->pipeline);
  verb->add_option("--trace", c->train.trace,
                   "Pipelines: the last step as a trace for chrome://tracing or Perfetto")
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
                   "Passes through --data instead of --steps: epochs x examples / (batch size x ranks) steps")
      ->check(positive())
      ->excludes(steps);
  verb->add_option("--batch-size", c->train.batch_size, "Examples per rank (of a pipeline: per replica)")
      ->check(positive())
      ->capture_default_str();
  verb->add_option_function<std::string>(
          "--on-nonfinite", [c](const std::string& name) { c->train.on_nonfinite = parse_non_finite(name); },
          "When a loss or gradient is not finite: stop, or skip that update (not with --pipeline) [stop]")
      ->check(CLI::IsMember({"stop", "skip"}));
  verb->add_option("--seed", c->train.seed, "Seed of parameters and data")->capture_default_str();
  verb->add_option("--out", c->train.out, "Folder for metrics.jsonl and checkpoints");
  verb->add_option("--checkpoint-every", c->train.checkpoint_every, "Steps between checkpoints (in --out)")
      ->check(not_negative());
  verb->add_option(
      "--resume", c->train.resume,
      "Go on from the newest checkpoint in this folder, and save there unless --out says otherwise");
  verb->add_option("--init", c->train.init, "State dict to start from (safetensors)");
  verb->add_option("--save", c->train.save, "Write the trained state dict there (safetensors)");
  verb->add_option("--save-model", c->train.save_model,
                   "Write the trained model there, as TorchScript (of --model NAME.pt)");
  verb->add_option("--switch", c->switches, "STEP=STRATEGY: change the strategy between two steps");
  verb->add_option("--timeout", c->timeout_s, "Seconds without any progress after which a rank is given up")
      ->check(positive())
      ->capture_default_str();
  verb->add_flag("!--no-overlap-forward", c->train.overlap_forward,
                 "Finish all updates before the next forward starts");
  add_host_options(*verb, c->remote);
  verb->add_flag("--json", c->json, "One JSON document on stdout");
  verb->footer(
      "Time: as long as its steps take; the progress line shows how long that is. Ctrl-C ends it after the "
      "step\n"
      "under way, with a checkpoint if there is --out.\n"
      "Examples:\n"
      "  entrain train --model vgg16-32 --cluster lab:4x1gbit --strategy allreduce --batch-size 2\n"
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
