#include "shape_flag.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/models/blueprint.h"
#include "entrain/strategy/shape_file.h"
#include "usage.h"

namespace entrain::app {

int layers_of(const train::TrainOptions& options) {
  const size_t layers = options.replay ? options.replay->layers.size()
                                       : models::make_blueprint(options.model)->sequence().layers.size();
  return static_cast<int>(std::max<size_t>(1, layers));
}

std::optional<strategy::Shape> shape_for(const std::string& flag, const strategy::Request& request,
                                         int layers) {
  if (flag.empty()) return request.stored() ? request.stored()->shape : std::nullopt;
  return strategy::shape_from(flag, layers);
}

int64_t BatchFlags::per_rank(int64_t batch_size, const std::string& cluster) const {
  if (global == 0) return batch_size;
  const int ranks = cluster::parse(cluster).workers();
  if (global % ranks != 0) {
    bad_input("--global-batch {} on {} ranks that train: allowed: a multiple of {}", global, ranks, ranks);
  }
  return global / ranks;
}

void add_batch_options(CLI::App& verb, int64_t& batch_size, BatchFlags& flags, const std::string& help) {
  auto* batch = verb.add_option("--batch-size", batch_size, help)
                    ->check(positive())
                    ->check(examples())
                    ->capture_default_str();
  verb.add_option("--global-batch", flags.global,
                  "Examples per update, of all ranks together [batch size x ranks that train]")
      ->check(positive())
      ->check(examples())
      ->excludes(batch);
}

CLI::Option* add_shape_option(CLI::App& verb, std::string& shape) {
  return verb.add_option(
      "--shape", shape,
      "Which ranks hold which layers, with which share of the examples: LAYERS@RANKS*SHARE ..., as "
      "'0-12@0*.1,1-3*.3 13-15@0 m=10', or a file [every rank all layers]");
}

}  // namespace entrain::app
