// entrain dataset: records of strategies and their run-times.
#include "collect_verb.h"
#include "verbs.h"

namespace entrain::app {

void add_dataset(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("dataset", "Collect (model, cluster, strategy, run-times) records");
  verb->require_subcommand(1);
  add_dataset_collect(*verb, action);
}

}  // namespace entrain::app
