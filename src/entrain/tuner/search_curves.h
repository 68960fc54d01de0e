// Searches compared: improvement and hit rate against trials, over several tunes of each mode (AutoSync's
// Figures 2 and 3).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/simulator/ranking.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/simulated_cluster.h"
#include "entrain/tuner/tuner.h"

namespace entrain::tuner {

// One tune. `mode` is a name of Mode, or whatever a figure should call it.
struct SearchRun {
  std::string mode;
  std::string domain;
  uint64_t seed = 0;
  TuneResult result;
};

struct SearchComparison {
  std::vector<Mode> modes;
  int trials = 50;
  int seeds = 3;
  uint64_t seed = 0;  // the first; a seed is that of the search and of the cluster's errors and noise
  SimulatedOptions cluster;
  SearchOptions search;               // mode and seed are set here
  std::vector<std::string> builders;  // empty: all
  // For kPublished: a fresh ranker, and how it learns. Requires: not empty when kPublished is among the
  // modes.
  std::function<std::unique_ptr<simulator::Ranker>()> make_ranker;
  simulator::LearnOptions learn;
  std::function<void(int done, int total, const std::string& what)> progress = [](int, int, const auto&) {};
};

// Tunes the domain's (G, D) on simulated clusters; its trials are not looked at.
std::vector<SearchRun> simulate_searches(const dataset::Domain& domain, const SearchComparison& comparison);

// Real tunes: each domain of the log is one. Domains without a builder's trial are left out.
std::vector<SearchRun> searches_from_log(const std::string& mode, const std::filesystem::path& log);

// Mean and deviation at each number of trials, over the runs of one mode in one domain; as long as the
// shortest of them.
struct Curves {
  std::string mode;
  std::string domain;
  int runs = 0;
  std::vector<double> k;
  std::vector<simulator::MeanStd> improvement, hit_rate;
  simulator::MeanStd speedup;  // of the result: baseline / best after its final round
};

// Domains and modes in the order of their first run.
std::vector<Curves> curves(const std::vector<SearchRun>& runs);

}  // namespace entrain::tuner
