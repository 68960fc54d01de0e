#include "pipeline_flags.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/strategy/stored.h"
#include "strategies/strategy_files.h"

namespace entrain::app {
namespace {

// A flag for one field; remembers that it was given.
template <typename T>
void pipeline_field(CLI::App& verb, PipelineFlags& flags, const std::string& name,
                    T strategy::Pipeline::*member, const std::string& help) {
  verb.add_option_function<T>(
          name,
          [=, &flags](const T& value) {
            flags.applied.push_back([=](strategy::Pipeline& p) { p.*member = value; });
            flags.given.push_back(name);
          },
          help)
      ->group("Pipeline");
}

}  // namespace

strategy::Pipeline PipelineFlags::settings(const std::string& name_or_file) const {
  strategy::Pipeline settings;
  if (is_strategy_file(name_or_file))
    settings = strategy::load(strategy::parse_name(name_or_file).base).pipeline.value_or(settings);
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
  pipeline_field(verb, flags, "--micro-batches", &Pipeline::micro_batches,
                 "Pieces M of each batch; without --pipeline: gradients are accumulated over them [1]");
  pipeline_field(verb, flags, "--schedule", &Pipeline::schedule, "gpipe, 1f1b or interleaved [1f1b]");
  pipeline_field(verb, flags, "--chunks", &Pipeline::chunks,
                 "Cells per device, with --schedule interleaved [1]");
  pipeline_field(verb, flags, "--remat", &Pipeline::remat,
                 "Recompute activations in backward: never, except-last, always [except-last]");
  pipeline_field(verb, flags, "--cells", &Pipeline::cells,
                 "A device is one of the ranks, or a thread of each rank: ranks, threads, auto [auto]");
  verb.add_option_function<std::vector<int>>(
          "--balance",
          [&flags](const std::vector<int>& layers) {
            flags.applied.push_back([=](Pipeline& p) { p.balance = layers; });
            flags.given.emplace_back("--balance");
          },
          "Layers per cell, as 3,5,4 [by measured time]")
      ->delimiter(',')
      ->group("Pipeline");
}

}  // namespace entrain::app
