// entrain tune: searches for the fastest strategy with real trials, and compares it with every builder.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/registry.h"
#include "entrain/rendezvous/launch_environment.h"
#include "entrain/simulator/learned/registry.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/tuned_for.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "entrain/trials/standing_runner.h"
#include "entrain/tuner/noted_runner.h"
#include "entrain/tuner/recalibrate.h"
#include "entrain/tuner/shape_search.h"
#include "entrain/tuner/tuner.h"
#include "host_flags.h"
#include "rank_verb.h"
#include "shape_flag.h"
#include "strategies/tune_report.h"
#include "trial_flags.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::tune_verb {
namespace {

namespace fs = std::filesystem;

struct Command {
  trials::StandingOptions job;
  std::string cluster;
  fs::path out, resume;
  tuner::TuneOptions tune;
  std::string mode = "own";
  std::string space = "all";             // or sync
  std::vector<std::string> compressors;  // own mode's space has these too
  double iterations = 1e6;               // of the job that money is worked out for
  double timeout_s = 120;
  bool json = false;
  trials::TrialMeasureOptions measure;
  BatchFlags batch;
  RemoteOptions remote;

  fs::path log() const { return out / "trials.jsonl"; }
  fs::path running() const { return out / "running.jsonl"; }  // the trial under way
  std::string domain() const { return dataset::domain_name(job.model, cluster, job.batch_size); }
};

// The domain of an earlier run with its trials, or a new one.
dataset::Domain open_domain(const Command& command, const job::Context& context, const graph::Graph& graph) {
  dataset::Domain domain;
  domain.name = command.domain();
  domain.graph = graph;
  domain.cluster = context.cluster;
  domain.settings = {command.job.batch_size, command.job.compute == "real" ? "real" : "replay", "",
                     command.job.seed};
  if (!fs::exists(command.log()) || fs::file_size(command.log()) == 0) return domain;
  dataset::Dataset before = dataset::load(command.log());
  const auto* found = before.find(domain.name);
  if (found == nullptr) {
    bad_input("{}: holds trials of {}, not of {}", command.log().string(),
              before.domains.empty() ? "nothing" : before.domains.front().name, domain.name);
  }
  dataset::check_continues(*found, domain.settings);
  return *found;
}

std::string note(const tuner::TuneProgress& p) {
  const bool searching = p.phase == tuner::TuneProgress::Phase::kSearch && p.best_s > 0;
  return p.summary() + (searching ? fmt::format(", hit rate {:.0f}%", 100 * p.hit_rate) : "");
}

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// `shapes`: null, to search only how variables are synchronized.
tuner::TuneResult search(const Command& command, const job::Context& context, const dataset::Domain& domain,
                         trials::StandingJob& job, tuner::ShapeSource* shapes) {
  dataset::TrialLog log(command.log());
  log.begin(domain);
  trials::StandingRunner standing(job, command.measure);
  int number = static_cast<int>(domain.trials.size());
  tuner::NotedRunner runner(standing, command.running(), domain.name, number);
  tuner::Guide guide;
  simulator::Calibration start;
  if (command.job.shapes)
    start.cores = tuner::shared_cores(domain, cores());  // layers were timed by one rank
  guide.remake = tuner::recalibrating(domain.graph, domain.cluster, start);
  std::unique_ptr<simulator::Ranker> ranker;
  if (command.tune.search.mode == tuner::Mode::kPublished) {
    ranker = simulator::make_ranker("rnn");
    guide.ranker = ranker.get();
  }
  std::unique_ptr<Progress> bar;
  tuner::TuneOptions options = command.tune;
  options.reference = kReference;
  options.shapes = shapes;
  options.stop = [&] { return context.stop_signal() != 0; };
  return tuner::tune(domain, runner, log, guide, options, [&](const tuner::TuneProgress& p) {
    if (!bar) bar = std::make_unique<Progress>("trial", p.total);
    bar->update(p.done, note(p));
    number = p.done;
  });
}

void run_rank_0(const Command& command, job::Context& context) {
  trials::StandingJob job(context, command.job);
  dataset::Domain domain = open_domain(command, context, job.graph());
  std::unique_ptr<tuner::ShapeSource> shapes;
  if (command.job.shapes) {
    const bool mixes = layers::mixes_examples(*models::make_model(command.job.model, 0));
    shapes = tuner::shapes_for(domain, cores(), mixes);
    if (!shapes && context.workers() > 1) {
      log_info("{} is not a sequence of layers that were timed: only its synchronization is searched",
               command.job.model);
    }
  }
  const tuner::TuneResult result = search(command, context, domain, job, shapes.get());
  strategy::save_tuned(result.best,
                       strategy::tuned_for(command.job.model, command.job.batch_size, context.cluster),
                       command.out / "best.json");
  domain.trials = dataset::load(command.log()).find(domain.name)->trials;
  const auto json = tune_report(result, domain,
                                {command.job.model, command.cluster, command.mode, command.job.batch_size,
                                 command.iterations, command.out / "best.json", context.stop_signal() != 0,
                                 shapes != nullptr, tuner::shared_cores(domain, cores())});
  write_file_atomically(command.out / "result.json", json.dump(2) + "\n");
  if (command.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", tune_text(json));
  }
}

int run_ranks(const Command& command) {
  return run_on_ranks(command.cluster, command.timeout_s, command.remote, [&](job::Context& context) {
    end_on_signals(context);
    if (context.rank() == 0) {
      run_rank_0(command, context);
    } else {
      trials::StandingJob(context, command.job).follow();
    }
    return 0;
  });
}

// What can be checked before ranks are started.
void check_input(const Command& command) {
  models::make_model(command.job.model, 0);
  trials::check_compute(command.job.compute);
}

void check_output(const Command& command) {
  const bool exists = fs::exists(command.log());
  if (command.resume.empty() && exists) {
    bad_input("--out {}: holds the trials of another tune; give --resume {} or another folder",
              command.out.string(), command.out.string());
  }
  if (!command.resume.empty() && !exists) bad_input("--resume {}: no trials there", command.out.string());
  make_folders(command.out);
  fs::remove(command.running());
}

int run(Command& command) {
  command.job.batch_size = command.batch.per_rank(command.job.batch_size, command.cluster);
  command.tune.search.mode = tuner::mode_from(command.mode);
  command.tune.search.sampler.compressors.clear();
  if (!command.compressors.empty() && (command.mode == "published" || command.mode == "random-published")) {
    bad_input("--compress with --mode {}: its space has no compressors; allowed: own, random", command.mode);
  }
  for (const auto& text : command.compressors) {
    command.tune.search.sampler.compressors.push_back(strategy::parse_compression(text));
  }
  command.tune.search.seed = command.job.seed;
  command.job.shapes = command.space == "all" && command.tune.search.mode == tuner::Mode::kOwn;
  if (!command.resume.empty()) command.out = command.resume;
  if (checks_input(command.cluster)) check_input(command);
  const bool trials_here = checks_output(command.cluster);
  if (trials_here) check_output(command);
  // Only the process that starts all ranks, and finds the trials on its own host, starts them anew.
  if (rendezvous::launch_environment(transport::mpi_available).is_rank() || !trials_here)
    return run_ranks(command);
  constexpr int kMostBreakdowns = 3;
  for (int breakdowns = 0;; ++breakdowns) {
    const int code = run_ranks(command);
    if (code != 1 || breakdowns == kMostBreakdowns ||
        !tuner::record_breakdown(command.running(), command.log(), command.domain())) {
      return code;
    }
    fmt::print(stderr, "{}entrain: a trial ended the job; it is recorded as failed and the tune goes on\n",
               before_stderr_line());
  }
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("tune", "Find the fastest strategy for a model on a cluster");
  auto c = std::make_shared<Command>();
  c->out = "tune";
  add_model_option(*verb, c->job.model, Models::kZooOrScript)->required();
  verb->add_option("--cluster", c->cluster, "local:4, lab:4x1gbit, cluster.yml, hostfile")->required();
  verb->add_option("--trials", c->tune.trials, "Strategies to try; builders and the final round come on top")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--minutes", c->tune.minutes,
                   "Stop searching after this many minutes; 0: when all trials are done")
      ->check(not_negative());
  verb->add_option("--mode", c->mode,
                   "own; published (AutoSync); random (AutoSync without simulator); random-published")
      ->capture_default_str();
  verb->add_option("--space", c->space,
                   "all: also which ranks hold which layers (mode own, models that are sequences of layers); "
                   "sync: only how variables are synchronized")
      ->check(CLI::IsMember({"all", "sync"}))
      ->capture_default_str();
  verb->add_option(
          "--compress", c->compressors,
          "Also try strategies that compress gradients, which changes the update: fp16, fp16-ef, bf16, "
          "powersgd[:RANK], topk[:SHARE]; several may be given")
      ->delimiter(',');
  add_batch_options(*verb, c->job.batch_size, c->batch,
                    "Examples per rank, as in the job that will use the strategy");
  add_trial_options(*verb, c->job, c->measure);
  verb->add_option("--seed", c->job.seed, "Seed of parameters, data and search")->capture_default_str();
  verb->add_option("--out", c->out, "Folder for trials.jsonl, best.json and result.json")
      ->capture_default_str();
  verb->add_option("--resume", c->resume, "Go on with the trials in this folder")->excludes("--out");
  verb->add_option("--iterations", c->iterations, "Of the job that money is worked out for")
      ->check(positive());
  verb->add_option("--timeout", c->timeout_s, "Seconds without progress after which a rank is given up")
      ->check(positive())
      ->capture_default_str();
  add_host_options(*verb, c->remote);
  add_json_option(*verb, c->json);
  verb->footer(
      "Time: about 10 steps per trial, at least half a second; vgg16-32 takes a minute with 12 trials. "
      "--minutes\n"
      "limits it. Ctrl-C ends it with what was found so far.\n"
      "Examples:\n"
      "  entrain tune --model bert-small --batch-size 2 --cluster lab:1x1gbit+3x100mbit --out bert\n"
      "  entrain tune --model bert-small --batch-size 2 --cluster lab:1x1gbit+3x100mbit --trials 200 "
      "--resume bert\n"
      "  entrain train --model bert-small --batch-size 2 --cluster lab:1x1gbit+3x100mbit --strategy "
      "bert/best.json");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::tune_verb
