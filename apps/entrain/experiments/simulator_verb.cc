// entrain simulator train|eval|transfer: rankers learnt from a data set, and how well they rank.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/simulator/evaluation/evaluation.h"
#include "entrain/simulator/learned/registry.h"
#include "experiments/simulator_experiments.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::simulator_verb {
namespace {

using nlohmann::json;

int train(const SimulatorCommand& command) {
  check_ranker_names(command.rankers, learning_rankers());
  if (command.rankers.size() != 1)
    bad_input("--ranker names {} rankers; allowed: one", command.rankers.size());
  const auto data = load_data(command);
  const std::string& name = command.rankers.front();
  std::vector<simulator::Lesson> training, validation, test;
  const auto prepared = simulator::prepared_domains(data);
  for (const auto& domain : prepared) {
    const auto parts = domain.split(command.learn.seed);
    training.push_back(domain.pick(parts.training));
    validation.push_back(domain.pick(parts.validation));
    test.push_back(domain.pick(parts.test));
  }
  const auto ranker = simulator::make_ranker(name);
  simulator::LearnOptions learn = command.learn;
  learn.progress = true;
  ranker->learn(training, validation, learn);
  const std::string file = command.save.empty() ? name + ".ranker" : command.save;
  ranker->save(file);
  json domains = json::object();
  std::vector<double> accuracies;
  for (size_t d = 0; d < test.size(); ++d) {
    std::vector<strategy::Strategy> asked;
    std::vector<double> seconds;
    for (const auto* trial : test[d].trials) {
      asked.push_back(trial->strategy);
      seconds.push_back(trial->step_s());
    }
    const double accuracy = simulator::pair_accuracy(ranker->score(test[d], asked), seconds, command.margin);
    domains[data.domains[d].name] = std::isnan(accuracy) ? json() : json(accuracy);
    if (!std::isnan(accuracy)) accuracies.push_back(accuracy);
    if (!command.json_output) fmt::print("{:<50} {:.3f}\n", data.domains[d].name, accuracy);
  }
  const simulator::MeanStd mean = simulator::mean_std(accuracies);
  if (command.json_output) {
    fmt::print("{}\n", json{{"ranker", name},
                            {"file", file},
                            {"records", data.records()},
                            {"test_accuracy", mean.mean},
                            {"domains", domains}}
                           .dump(2));
  } else {
    fmt::print("{} trained on {} domains, test accuracy {:.3f} in the mean; saved to {}\n", name,
               data.domains.size(), mean.mean, file);
  }
  return 0;
}

CLI::App* add(CLI::App& parent, const std::string& name, const std::string& description,
              const std::shared_ptr<SimulatorCommand>& c, Action& action,
              int (*run)(const SimulatorCommand&)) {
  auto* verb = parent.add_subcommand(name, description);
  verb->add_option("--data", c->data, "Data set: FILE.jsonl[.gz] or a folder of them")->required();
  verb->add_option("--only", c->only, "Domains whose name holds one of these")->delimiter(',');
  verb->add_option("--epochs", c->learn.epochs, "Most epochs (boosted: half the most trees of a bag)")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->learn.seed, "The first seed of splits and rankers");
  verb->add_option("--margin", c->margin, "Leave out pairs whose times differ by less than this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add_json_option(*verb, c->json_output);
  verb->callback([c, &action, run] { action = [c, run] { return run(*c); }; });
  return verb;
}

void add_experiment_options(CLI::App& verb, SimulatorCommand& c) {
  verb.add_option("--seeds", c.seeds, "Mean and std are over this many")
      ->check(positive())
      ->capture_default_str();
  verb.add_option("--out", c.out, "Folder for the JSON document and the plot");
}

}  // namespace

void add_simulator(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("simulator", "Learn to rank strategies, and measure how well it goes");
  verb->require_subcommand(1);

  auto learn = std::make_shared<SimulatorCommand>();
  auto* train_verb = add(*verb, "train", "Train a ranker and save it", learn, action, train);
  train_verb->add_option("--ranker", learn->rankers, "linear, rnn, gat, boosted")->required();
  train_verb->add_option("--save", learn->save, "File of the ranker (default: RANKER.ranker)");

  auto judge = std::make_shared<SimulatorCommand>();
  auto* eval_verb = add(*verb, "eval", "Ranking accuracy of simulators in every domain", judge, action,
                        evaluate_simulators);
  eval_verb
      ->add_option("--ranker", judge->rankers,
                   "Some of: repeats, published-sum, published-max, event, linear, "
                   "rnn, gat, boosted, boosted+others (default: all)")
      ->delimiter(',');
  add_experiment_options(*eval_verb, *judge);

  auto move = std::make_shared<SimulatorCommand>();
  move->rankers = {"boosted"};
  auto* transfer_verb =
      add(*verb, "transfer", "Train in some domains, test in another", move, action, transfer_rankers);
  transfer_verb->add_option("--ranker", move->rankers, "linear, rnn, gat, boosted")->capture_default_str();
  transfer_verb
      ->add_option("--target-trials", move->target_trials, "Also with this many trials of the target")
      ->check(not_negative())
      ->capture_default_str();
  transfer_verb->add_flag("--matrix", move->matrix, "From each domain to each other one");
  add_experiment_options(*transfer_verb, *move);

  verb->footer(
      "Examples:\n  entrain simulator eval --data trials.jsonl.gz --out results\n"
      "  entrain simulator train --data trials.jsonl.gz --ranker boosted --save boosted.ranker\n"
      "  entrain simulator transfer --data trials.jsonl.gz --target-trials 20");
}

}  // namespace entrain::app::simulator_verb
