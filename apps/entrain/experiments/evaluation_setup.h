// What `entrain experiment` and `entrain simulator` do alike before an evaluation.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/base/progress.h"
#include "entrain/dataset/visits.h"
#include "entrain/simulator/evaluation/evaluation.h"
#include "entrain/simulator/learned/registry.h"

namespace entrain::app {

// Each strategy once, of the domains that have one of `only` in their names (empty: of all).
inline dataset::Dataset chosen_domains(const dataset::Dataset& recorded,
                                       const std::vector<std::string>& only) {
  dataset::Dataset data = dataset::join_visits(recorded);
  std::erase_if(data.domains, [&](const dataset::Domain& domain) {
    return !only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& text) {
      return domain.name.find(text) != std::string::npos;
    });
  });
  return data;
}

// Everything that can be evaluated, by name.
inline std::vector<std::string> all_simulators() {
  std::vector<std::string> names = {"repeats", "published-sum", "published-max", "event"};
  for (const auto& ranker : simulator::ranker_names()) names.emplace_back(ranker);
  names.emplace_back("boosted+others");
  return names;
}

// A bar that learns its length from the first call and lives as long as the function.
inline std::function<void(int, int, const std::string&)> progress_bar(const std::string& label) {
  auto bar = std::make_shared<std::unique_ptr<Progress>>();
  return [bar, label](int done, int total, const std::string& what) {
    if (!*bar) *bar = std::make_unique<Progress>(label, total);
    (*bar)->update(done, what);
  };
}

// Every ranker, as the command's settings say, with a progress bar.
template <typename Command>
simulator::EvaluationOptions evaluation_options(const Command& command, const std::string& label) {
  simulator::EvaluationOptions options;
  options.seeds = command.seeds;
  options.seed = command.learn.seed;
  options.margin = command.margin;
  options.learn = command.learn;
  options.make_ranker = simulator::make_ranker;
  options.progress = progress_bar(label);
  return options;
}

}  // namespace entrain::app
