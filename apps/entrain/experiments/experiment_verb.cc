// entrain experiment ranking|transfer|search: AutoSync's tables and figures from recorded trials.
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/base/units.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/simulator/learned/registry.h"
#include "experiments/evaluation_setup.h"
#include "experiments/experiment_report.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::experiment_verb {
namespace {

namespace fs = std::filesystem;

struct Command {
  std::vector<fs::path> data;
  std::vector<std::string> only;  // parts of domains' names
  int seeds = 3;
  fs::path out = "results";
  bool json = false;
  double margin = 0;
  simulator::LearnOptions learn;
  // ranking
  std::vector<std::string> simulators;
  // transfer, and search in published mode
  std::string ranker;
  int target_trials = 10;
  bool no_matrix = false;
  // search
  std::vector<std::string> modes = {"own", "published", "random"};
  std::vector<std::string> logs;  // MODE=FILE
  std::string graph, cluster;
  int trials = 50;
  tuner::SimulatedOptions simulated;
  int evaluations = 0;
};

dataset::Dataset load_data(const Command& command) {
  dataset::Dataset data = chosen_domains(dataset::load(command.data), command.only);
  if (data.domains.empty())
    bad_input("no domain of the data has a name with {}", fmt::join(command.only, " or "));
  return data;
}

int finish(const Command& command, const ExperimentReport& report) {
  const std::string name = report.document.at("experiment");
  make_folders(command.out);
  const std::string text = report.document.dump(2) + "\n";
  write_file_atomically(command.out / (name + ".json"), text);
  for (const Picture& picture : report.pictures) {
    write_file_atomically(command.out / (picture.name + ".svg"), picture.svg);
  }
  fmt::print("{}", command.json ? text : report.text);
  fmt::print(stderr, "written to {}: {}.json and {} pictures\n", command.out.string(), name,
             report.pictures.size());
  return 0;
}

// Networks are trained anew in every domain and for every seed: 40 minutes for 49 domains and 3 seeds.
void announce_ranking(const Command& command, size_t domains, const std::vector<std::string>& simulators) {
  constexpr double kSecondsPerNetwork = 5.5;  // on 2 cores
  const std::vector<std::string> networks = {"linear", "rnn", "gat"};
  const auto trained = std::count_if(simulators.begin(), simulators.end(), [&](const std::string& name) {
    return std::find(networks.begin(), networks.end(), name) != networks.end();
  });
  const double seconds =
      kSecondsPerNetwork * static_cast<double>(trained) * static_cast<double>(domains) * command.seeds;
  if (seconds < 60) return;
  log_info("training networks takes about {}; shorter: --simulators event,boosted --seeds 1, or --only MODEL",
           format_seconds(seconds));
}

int run_ranking(const Command& command) {
  const auto allowed = all_simulators();
  const auto& simulators = command.simulators.empty() ? allowed : command.simulators;
  for (const auto& name : simulators) {
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      bad_input("--simulators has {}, allowed: {}", name, fmt::join(allowed, ", "));
    }
  }
  make_folders(command.out);  // fails before the work where nothing can be written
  const dataset::Dataset data = load_data(command);
  announce_ranking(command, data.domains.size(), simulators);
  const auto evaluation = simulator::evaluate(simulator::prepared_domains(data), simulators,
                                              evaluation_options(command, "ranking"));
  ExperimentReport report = ranking_report(evaluation, data, simulators);
  report.document["seeds"] = command.seeds;
  return finish(command, report);
}

int run_transfer(const Command& command) {
  using simulator::Source;
  simulator::make_ranker(command.ranker);  // fails before the work for an unknown name
  make_folders(command.out);
  const dataset::Dataset data = load_data(command);
  if (data.domains.size() < 2) bad_input("transfer needs two domains or more, the data has one");
  const auto prepared = simulator::prepared_domains(data);
  const auto sources =
      simulator::transfer(prepared, command.ranker,
                          {Source::kNothing, Source::kOtherClusters, Source::kOtherModels, Source::kOthers},
                          command.target_trials, evaluation_options(command, "transfer"));
  std::vector<simulator::TransferCell> matrix;
  if (!command.no_matrix) {
    matrix = simulator::transfer_matrix(prepared, command.ranker, 0, evaluation_options(command, "matrix"));
  }
  ExperimentReport report = transfer_report(sources, matrix, data);
  report.document["ranker"] = command.ranker;
  report.document["seeds"] = command.seeds;
  return finish(command, report);
}

// ---- search

std::vector<tuner::SearchRun> recorded_searches(const Command& command) {
  std::vector<tuner::SearchRun> runs;
  for (const std::string& log : command.logs) {
    const size_t at = log.find('=');
    if (at == 0 || at == std::string::npos)
      bad_input("--from is {}, allowed: MODE=LOG, like own=tune.jsonl", log);
    const auto found = tuner::searches_from_log(log.substr(0, at), log.substr(at + 1));
    if (found.empty()) bad_input("--from {}: no tune in this log: no builder was run", log);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  return runs;
}

std::vector<dataset::Domain> search_domains(const Command& command) {
  if (command.graph.empty() != command.cluster.empty()) bad_input("--graph and --cluster go together");
  std::vector<dataset::Domain> domains;
  if (!command.graph.empty()) {
    dataset::Domain domain;
    domain.graph = graph::load(command.graph);
    domain.cluster = cluster::parse(command.cluster);
    domain.name = domain.graph.model + "@" + command.cluster;
    domains.push_back(std::move(domain));
  }
  if (!command.data.empty()) {
    for (auto& domain : load_data(command).domains) domains.push_back(std::move(domain));
  }
  if (domains.empty())
    bad_input("nothing to search in; give data sets, --graph and --cluster, or --from MODE=LOG");
  return domains;
}

std::vector<tuner::SearchRun> simulated_searches(const Command& command) {
  tuner::SearchComparison comparison;
  comparison.modes.clear();
  for (const auto& mode : command.modes) comparison.modes.push_back(tuner::mode_from(mode));
  comparison.trials = command.trials;
  comparison.seeds = command.seeds;
  comparison.seed = command.learn.seed;
  comparison.cluster = command.simulated;
  comparison.search.evaluations = command.evaluations;
  comparison.learn = command.learn;
  comparison.make_ranker = [&] { return simulator::make_ranker(command.ranker); };
  std::vector<tuner::SearchRun> runs;
  for (const auto& domain : search_domains(command)) {
    comparison.progress = progress_bar("search");
    comparison.cluster.calibration = simulator::calibrate(domain);
    const auto found = tuner::simulate_searches(domain, comparison);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  return runs;
}

int run_search(const Command& command) {
  const bool recorded = !command.logs.empty();
  ExperimentReport report =
      search_report(tuner::curves(recorded ? recorded_searches(command) : simulated_searches(command)));
  report.document["trials_are"] = recorded ? "real" : "simulated";
  if (!recorded) {
    report.document["seeds"] = command.seeds;
    report.document["simulated"] = {{"calibration_error", command.simulated.calibration_error},
                                    {"model_error", command.simulated.model_error},
                                    {"trial_noise", command.simulated.trial_noise},
                                    {"step_noise", command.simulated.step_noise}};
    report.text += "Trials were simulated; --from draws the curves of real tunes.\n";
  }
  return finish(command, report);
}

// ---- options

CLI::App* add(CLI::App& parent, const std::string& name, const std::string& description,
              const std::shared_ptr<Command>& c, Action& action, int (*run)(const Command&),
              bool needs_data) {
  auto* verb = parent.add_subcommand(name, description);
  auto* data = verb->add_option("data", c->data, "Data sets: files (.jsonl, .jsonl.gz) or folders of them");
  if (needs_data) data->required();
  verb->add_option("--only", c->only, "Domains whose name holds one of these")->delimiter(',');
  verb->add_option("--seeds", c->seeds, "Mean and deviation are over this many")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->learn.seed, "The first seed")->capture_default_str();
  verb->add_option("--epochs", c->learn.epochs, "Most epochs of a ranker")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--out", c->out, "Folder for the JSON document and the pictures")->capture_default_str();
  verb->add_flag("--json", c->json, "The JSON document on stdout as well");
  verb->callback([c, &action, run] { action = [c, run] { return run(*c); }; });
  return verb;
}

void add_margin(CLI::App& verb, Command& c) {
  verb.add_option("--margin", c.margin, "Leave out pairs whose times differ by less than this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void add_search_options(CLI::App& verb, Command& c) {
  verb.add_option("--from", c.logs, "Draw recorded tunes instead: MODE=LOG, once per tune");
  verb.add_option("--graph", c.graph, "A graph file (entrain graph --profile-out), with --cluster");
  verb.add_option("--cluster", c.cluster, "lab:4x1gbit, cluster.yml, ...");
  verb.add_option("--modes", c.modes, "Some of: own, published, random, random-published")
      ->delimiter(',')
      ->capture_default_str();
  verb.add_option("--trials", c.trials, "Trials of each search")->check(positive())->capture_default_str();
  verb.add_option("--ranker", c.ranker, "What published mode learns")->capture_default_str();
  verb.add_option("--evaluations", c.evaluations, "Strategies that own mode simulates per batch; 0: by model")
      ->check(not_negative());
  verb.add_option("--model-error", c.simulated.model_error,
                  "How far the simulated cluster is from the simulator")
      ->check(not_negative())
      ->capture_default_str();
  verb.add_option("--noise", c.simulated.step_noise, "Relative deviation of a simulated step")
      ->check(not_negative())
      ->capture_default_str();
}

}  // namespace

void add_experiment(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("experiment", "Tables and figures of the papers");
  verb->require_subcommand(1);

  auto ranking = std::make_shared<Command>();
  auto* ranking_verb = add(*verb, "ranking", "Accuracy of every simulator in every domain", ranking, action,
                           run_ranking, true);
  ranking_verb->add_option("--simulators", ranking->simulators, "Some of them (default: all)")
      ->delimiter(',');
  add_margin(*ranking_verb, *ranking);

  auto transfer = std::make_shared<Command>();
  transfer->ranker = "boosted";
  auto* transfer_verb =
      add(*verb, "transfer", "Train in some domains, test in others", transfer, action, run_transfer, true);
  transfer_verb->add_option("--ranker", transfer->ranker, "linear, rnn, gat, boosted")->capture_default_str();
  transfer_verb
      ->add_option("--target-trials", transfer->target_trials, "Also with this many trials of the target")
      ->check(not_negative())
      ->capture_default_str();
  transfer_verb->add_flag("--no-matrix", transfer->no_matrix,
                          "Leave out the matrix of each domain to each other");
  add_margin(*transfer_verb, *transfer);

  auto search = std::make_shared<Command>();
  search->ranker = "rnn";
  add_search_options(
      *add(*verb, "search", "Improvement and hit rate against trials", search, action, run_search, false),
      *search);

  verb->footer(
      "Time: `ranking` of data/lab-trials.jsonl.gz with all simulators takes about 40 minutes on 2 cores, "
      "the first\n"
      "example a minute or two.\n"
      "Examples:\n"
      "  entrain experiment ranking data/lab-trials.jsonl.gz --simulators event,boosted --seeds 1 --only "
      "bert-small\n"
      "  entrain experiment ranking data/lab-trials.jsonl.gz --out results\n"
      "  entrain experiment search trials.jsonl.gz --only vgg16-32 --trials 50 --seeds 5\n"
      "  entrain experiment search --from own=a.jsonl --from own=b.jsonl --from random=c.jsonl");
}

}  // namespace entrain::app::experiment_verb
