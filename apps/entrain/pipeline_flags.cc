#include "pipeline_flags.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/strategy/strategy.h"

namespace entrain::app {
namespace {

// A flag whose value `set` puts into a pipeline; remembers that it was given.
template <typename T, typename Set>
CLI::Option* pipeline_flag(CLI::App& verb, PipelineFlags& flags, const std::string& name, Set set,
                           const std::string& help) {
  return verb
      .add_option_function<T>(
          name,
          [=, &flags](const T& value) {
            flags.applied.push_back([=](strategy::Pipeline& p) { set(p, value); });
            flags.given.push_back(name);
          },
          help)
      ->group("Pipeline");
}

template <typename T>
void pipeline_field(CLI::App& verb, PipelineFlags& flags, const std::string& name,
                    T strategy::Pipeline::*member, const std::string& help) {
  pipeline_flag<T>(
      verb, flags, name, [=](strategy::Pipeline& p, const T& value) { p.*member = value; }, help);
}

}  // namespace

strategy::Pipeline PipelineFlags::settings(const strategy::Request& request) const {
  strategy::Pipeline settings;
  if (const auto& file = request.stored()) settings = file->pipeline.value_or(settings);
  for (const auto& apply : applied) apply(settings);
  validate(settings);
  const auto has = [&](const char* flag) {
    return std::find(given.begin(), given.end(), flag) != given.end();
  };
  if (!settings.there() && !given.empty() && !has("--pipeline") && !has("--micro-batches")) {
    bad_input("{}: allowed with --pipeline or --micro-batches", fmt::join(given, ", "));
  }
  return settings;
}

void add_pipeline_options(CLI::App& verb, PipelineFlags& flags) {
  using strategy::Pipeline;
  pipeline_field(verb, flags, "--pipeline", &Pipeline::devices,
                 "Devices K that the model is cut over [1: none]");
  pipeline_field(
      verb, flags, "--micro-batches", &Pipeline::micro_batches,
      "Micro-batches M per update and pipeline; without --pipeline: per rank, which accumulates gradients "
      "over them [1]");
  pipeline_field(verb, flags, "--schedule", &Pipeline::schedule, "gpipe, 1f1b or interleaved [1f1b]");
  pipeline_field(verb, flags, "--chunks", &Pipeline::chunks,
                 "Cells per device, with --schedule interleaved [1]");
  pipeline_flag<std::string>(
      verb, flags, "--remat",
      [](Pipeline& p, const std::string& name) { p.remat = pipeline::parse_remat(name); },
      "Recompute activations in backward: never, except-last, always [except-last]");
  pipeline_field(verb, flags, "--cells", &Pipeline::cells,
                 "A device is one of the ranks, or a thread of each rank: ranks, threads, auto [auto]");
  pipeline_flag<std::vector<int>>(
      verb, flags, "--balance", [](Pipeline& p, const std::vector<int>& layers) { p.balance = layers; },
      "Layers per cell, as 3,5,4 [by measured time]")
      ->delimiter(',');
}

}  // namespace entrain::app
