// --shape and --global-batch, for verbs that train.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/shape.h"
#include "entrain/train/train.h"

namespace entrain::app {

// Of the job's model, or of the profile that it replays; a model that is no sequence of layers counts as one.
int layers_of(const train::TrainOptions& options);

// What was asked for: by the flag, else by a strategy file that has a shape. `layers`: of the model.
std::optional<strategy::Shape> shape_for(const std::string& flag, const strategy::Request& request,
                                         int layers);

// --batch-size and --global-batch of verbs whose ranks all have the whole model.
struct BatchFlags {
  int64_t global = 0;  // examples per update, of all ranks together; 0: by the batch size per rank

  // What is meant: examples per rank. Throws InputError where the ranks cannot have equally many.
  int64_t per_rank(int64_t batch_size, const std::string& cluster) const;
};

// Both outlive the verb's parsing.
void add_batch_options(CLI::App& verb, int64_t& batch_size, BatchFlags& flags, const std::string& help);

// `shape` outlives the verb's parsing.
CLI::Option* add_shape_option(CLI::App& verb, std::string& shape);

}  // namespace entrain::app
