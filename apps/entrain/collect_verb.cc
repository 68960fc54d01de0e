// entrain dataset collect: measures many strategies of one (model, cluster) in a standing job.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "collect_verb.h"
#include "entrain/base/error.h"
#include "entrain/base/progress.h"
#include "entrain/base/units.h"
#include "entrain/dataset/dataset.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/trainer/standing_job.h"
#include "rank_verb.h"

namespace entrain::app {
namespace {

volatile std::sig_atomic_t interrupted = 0;

struct Command {
  StandingOptions job;
  std::string cluster;
  std::string out = "trials.jsonl";
  std::string machine;
  int trials = 200;
  int visits = 1;
  double minutes = 0;
  double timeout_s = 120;
  MeasureOptions measure;
};

struct Proposal {
  strategy::Strategy strategy;
  std::string origin;
};

// Trial k's strategy depends on the seed, k and the trials before it only, so that a collection goes on
// after a kill as if nothing had happened. All builders first. Then, in turn, draws from both spaces, and
// children of good strategies: a ranker has to tell good ones apart, not only good from bad. After the
// first `trials`, all are visited again, each time in another order: what the machine does to one visit of
// a strategy it does not do to the next.
class Proposer {
 public:
  Proposer(const dataset::Domain& domain, int trials, uint64_t seed)
      : domain_(domain),
        trials_(static_cast<size_t>(trials)),
        seed_(seed),
        own_(domain.graph, domain.cluster, {}),
        published_(domain.graph, domain.cluster, {.space = strategy::Space::kPublished}) {}

  Proposal next() const {
    const auto builders = strategy::names();
    const size_t k = domain_.trials.size();
    if (k >= trials_) return revisit(k);
    if (k < builders.size()) {
      return {strategy::build(builders[k], domain_.graph, domain_.cluster, seed_), "builder"};
    }
    strategy::Rng rng(seed_ * 1'000'003 + k);
    const auto good = best();
    Proposal p = draw(good, rng);
    p.strategy.id = fmt::format("{}-{}", p.origin, k);
    return p;
  }

 private:
  Proposal revisit(size_t k) const {
    std::vector<size_t> order(trials_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 rng(seed_ * 1'000'003 + k / trials_);
    std::shuffle(order.begin(), order.end(), rng);
    return {domain_.trials[order[k % trials_]].strategy, "repeat"};
  }

  // The best quarter so far.
  std::vector<const dataset::Trial*> best() const {
    std::vector<const dataset::Trial*> good;
    for (const auto& trial : domain_.trials) {
      if (trial.ok()) good.push_back(&trial);
    }
    std::sort(good.begin(), good.end(),
              [](const auto* a, const auto* b) { return a->step_s() < b->step_s(); });
    good.resize((good.size() + 3) / 4);
    return good;
  }

  Proposal draw(const std::vector<const dataset::Trial*>& good, strategy::Rng& rng) const {
    const auto any = [&]() -> const dataset::Trial& { return *good[rng() % good.size()]; };
    switch (good.empty() ? 0 : rng() % 10) {
      case 0:
      case 1:
      case 2:
      case 3:
        return {own_.sample(rng), "random"};
      case 4:
      case 5:
        return {published_.sample(rng), "published"};
      case 6:
        return {own_.crossover(any().strategy, any().strategy, rng), "crossover"};
      default:
        return {own_.mutate(any().strategy, rng), "mutation"};
    }
  }

  const dataset::Domain& domain_;
  size_t trials_;
  uint64_t seed_;
  strategy::Sampler own_, published_;
};

std::string describe_machine(const Context& context) {
  return fmt::format(
      "{} cores, {}", std::thread::hardware_concurrency(),
      context.job.shape_gbit > 0 ? "links shaped in user space" : "links shaped by the kernel");
}

// The domain as it was when the collection began, with its trials; or a new one, written to the log.
dataset::Domain open_domain(const Command& command, const Context& context, const graph::Graph& graph,
                            dataset::TrialLog& log) {
  dataset::Domain domain;
  domain.name = fmt::format("{}@{}#{}", command.job.model, command.cluster, command.job.batch_size);
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

dataset::Trial run_trial(StandingJob& job, const Proposal& proposal, MeasureOptions options, double best) {
  dataset::Trial trial;
  trial.strategy = proposal.strategy;
  trial.origin = proposal.origin;
  if (best > 0) options.deadline_s = std::max(0.25, 8 * best);
  try {
    const Measurement measured = job.measure(proposal.strategy, options);
    trial.seconds = measured.seconds;
    if (measured.over_deadline) trial.status = dataset::Status::kDeadline;
  } catch (const InputError& e) {  // does not fit; nothing was switched
    trial.status = dataset::Status::kFailed;
    trial.error = e.what();
  }
  return trial;
}

void collect(const Command& command, const Context& context, StandingJob& job) {
  dataset::TrialLog log(command.out);
  dataset::Domain domain = open_domain(command, context, job.graph(), log);
  const Proposer proposer(domain, command.trials, command.job.seed);
  const int wanted = command.trials * command.visits;
  Progress progress(domain.name, wanted);
  const auto start = Clock::now();
  double best = 0;
  for (const auto& trial : domain.trials) {
    if (trial.ok() && (best == 0 || trial.step_s() < best)) best = trial.step_s();
  }
  while (static_cast<int>(domain.trials.size()) < wanted && interrupted == 0) {
    if (command.minutes > 0 && seconds_since(start) > command.minutes * 60) break;
    dataset::Trial trial = run_trial(job, proposer.next(), command.measure, best);
    trial.number = static_cast<int>(domain.trials.size());
    log.append(domain.name, trial);
    if (trial.ok() && (best == 0 || trial.step_s() < best)) best = trial.step_s();
    domain.trials.push_back(std::move(trial));
    progress.update(static_cast<int64_t>(domain.trials.size()), fmt::format("best {}", format_seconds(best)));
  }
  fmt::print("{}: {} trials in {}\n", domain.name, domain.trials.size(), command.out);
}

int run(const Command& command) {
  check_compute(command.job.compute);
  return run_on_ranks(command.cluster, command.timeout_s, [&](Context& context) {
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
    StandingJob job(context, command.job);
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
  verb->add_option("--model", c->job.model, "Model of the zoo (see entrain graph --list)")->required();
  verb->add_option("--cluster", c->cluster, "local:4, lab:4x1gbit, cluster.yml")->required();
  verb->add_option("--trials", c->trials,
                   "Strategies of this model and cluster in all, those in the file counted")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--visits", c->visits, "How often each is measured: all of them, then all again")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--minutes", c->minutes, "Stop after so long; 0: when all trials are done")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--batch-size", c->job.batch_size, "Examples a rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--compute", c->job.compute, "real, or replay:FILE (a profiled graph)")
      ->capture_default_str();
  verb->add_option("--steps", c->measure.least, "Least measured steps of a trial")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--most-steps", c->measure.most, "Most, while short steps are not steady")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--machine", c->machine, "Words about the machine for the record");
  verb->add_option("--seed", c->job.seed, "Seed of parameters, data and strategies")->capture_default_str();
  verb->add_option("--out", c->out, "File of trials; continued when it exists")->capture_default_str();
  verb->add_option("--timeout", c->timeout_s, "Seconds without progress after which a rank is given up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->footer("Example:\n  entrain dataset collect --model bert-small --cluster lab:4x1gbit --trials 300");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app
