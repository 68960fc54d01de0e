// `entrain dataset collect`, a subcommand of `entrain dataset`.
#pragma once

#include "verbs.h"

namespace entrain::app::collect_verb {

void add_dataset_collect(CLI::App& dataset, Action& action);

}  // namespace entrain::app::collect_verb
