// entrain dataset collect: measures many strategies of one (model, cluster) in a standing job.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <thread>

#include "collect_verb.h"
#include "entrain/base/error.h"
#include "entrain/base/progress.h"
#include "entrain/base/units.h"
#include "entrain/dataset/dataset.h"
#include "entrain/trials/standing_runner.h"
#include "entrain/tuner/collection.h"
#include "host_flags.h"
#include "rank_verb.h"
#include "shape_flag.h"
#include "trial_flags.h"
#include "usage.h"

namespace entrain::app::collect_verb {
namespace {

struct Command {
  trials::StandingOptions job;
  std::string cluster;
  std::string out = "trials.jsonl";
  std::string machine;
  int trials = 200;
  int visits = 1;
  double minutes = 0;
  double timeout_s = 120;
  trials::TrialMeasureOptions measure;
  BatchFlags batch;
  RemoteOptions remote;
};

std::string describe_machine(const job::Context& context) {
  return fmt::format(
      "{} cores, {}", std::thread::hardware_concurrency(),
      context.job.shape_gbit > 0 ? "links shaped in user space" : "links shaped by the kernel");
}

// The domain as it was when the collection began, with its trials; or a new one, written to the log.
dataset::Domain open_domain(const Command& command, const job::Context& context, const graph::Graph& graph,
                            dataset::TrialLog& log) {
  dataset::Domain domain;
  domain.name = dataset::domain_name(command.job.model, command.cluster, command.job.batch_size);
  domain.graph = graph;
  domain.cluster = context.cluster;
  domain.settings = {command.job.batch_size, command.job.compute == "real" ? "real" : "replay",
                     command.machine.empty() ? describe_machine(context) : command.machine, command.job.seed};
  if (std::filesystem::exists(command.out) && std::filesystem::file_size(command.out) > 0) {
    dataset::Dataset before = dataset::load(command.out);
    if (const auto* found = before.find(domain.name)) {
      dataset::check_continues(*found, domain.settings);
      return *found;
    }
  }
  log.begin(domain);
  return domain;
}

dataset::Trial run_trial(tuner::TrialRunner& runner, const tuner::NextTrial& next) {
  dataset::Trial trial;
  trial.strategy = next.strategy;
  trial.origin = next.origin;
  try {
    const tuner::Measured measured = runner.run(next.strategy, std::numeric_limits<double>::infinity());
    trial.seconds = measured.seconds;
    trial.status = measured.status;
    trial.error = measured.error;
  } catch (const InputError& e) {  // does not fit; nothing was switched
    trial.status = dataset::Status::kFailed;
    trial.error = e.what();
  }
  return trial;
}

void collect(const Command& command, const job::Context& context, trials::StandingJob& job) {
  dataset::TrialLog log(command.out);
  dataset::Domain domain = open_domain(command, context, job.graph(), log);
  const tuner::Collection collection(domain, command.trials, command.job.seed);
  const int wanted = command.trials * command.visits;
  auto progress = std::make_unique<Progress>(domain.name, wanted);
  const auto start = Clock::now();
  double best = 0;
  for (const auto& trial : domain.trials) {
    if (trial.ok() && (best == 0 || trial.step_s() < best)) best = trial.step_s();
  }
  trials::StandingRunner runner(job, command.measure, best);
  while (static_cast<int>(domain.trials.size()) < wanted && context.stop_signal() == 0) {
    if (command.minutes > 0 && seconds_since(start) > command.minutes * 60) break;
    dataset::Trial trial = run_trial(runner, collection.next());
    trial.number = static_cast<int>(domain.trials.size());
    log.append(domain.name, trial);
    if (trial.ok() && (best == 0 || trial.step_s() < best)) best = trial.step_s();
    domain.trials.push_back(std::move(trial));
    progress->update(static_cast<int64_t>(domain.trials.size()),
                     fmt::format("best {}", format_seconds(best)));
  }
  progress.reset();  // ends its line
  fmt::print("{}: {} trials written to {}\n", domain.name, domain.trials.size(), command.out);
}

int run(Command& command) {
  command.job.batch_size = command.batch.per_rank(command.job.batch_size, command.cluster);
  trials::check_compute(command.job.compute);
  return run_on_ranks(command.cluster, command.timeout_s, command.remote, [&](job::Context& context) {
    end_on_signals(context);
    trials::StandingJob job(context, command.job);
    if (context.rank() == 0) {
      collect(command, context, job);
    } else {
      job.follow();
    }
    return 0;
  });
}

}  // namespace

void add_dataset_collect(CLI::App& dataset, Action& action) {
  auto* verb = dataset.add_subcommand("collect", "Measure many strategies of one model on one cluster");
  auto c = std::make_shared<Command>();
  add_model_option(*verb, c->job.model, Models::kZoo)->required();
  verb->add_option("--cluster", c->cluster, "local:4, lab:4x1gbit, cluster.yml")->required();
  verb->add_option("--trials", c->trials,
                   "Strategies of this model and cluster in all, those in the file counted")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--visits", c->visits, "How often each is measured: all of them, then all again")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--minutes", c->minutes, "Stop after this many minutes; 0: when all trials are done")
      ->check(not_negative());
  add_batch_options(*verb, c->job.batch_size, c->batch, "Examples per rank");
  add_trial_options(*verb, c->job, c->measure);
  add_host_options(*verb, c->remote);
  verb->add_option("--machine", c->machine, "Description of the machine, kept in the record");
  verb->add_option("--seed", c->job.seed, "Seed of parameters, data and strategies")->capture_default_str();
  verb->add_option("--out", c->out, "File of trials; continued when it exists")->capture_default_str();
  verb->add_option("--timeout", c->timeout_s, "Seconds without progress after which a rank is given up")
      ->check(positive())
      ->capture_default_str();
  verb->footer("Example:\n  entrain dataset collect --model bert-small --cluster lab:4x1gbit --trials 300");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::collect_verb
