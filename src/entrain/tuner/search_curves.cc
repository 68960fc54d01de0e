#include "entrain/tuner/search_curves.h"

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::tuner {
namespace {

TuneResult search_once(const dataset::Domain& plain, Mode mode, uint64_t seed,
                       const SearchComparison& comparison) {
  SimulatedOptions truth = comparison.cluster;
  truth.seed = seed;
  SimulatedCluster cluster(plain.graph, plain.cluster, truth);
  const simulator::EventSimulation believed(plain.graph, plain.cluster, comparison.cluster.calibration);
  std::unique_ptr<simulator::Ranker> ranker;
  if (mode == Mode::kPublished) {
    if (!comparison.make_ranker) fail("a search in published mode needs a ranker");
    ranker = comparison.make_ranker();
  }
  Guide guide;
  guide.simulator = mode == Mode::kOwn ? &believed : nullptr;
  guide.ranker = ranker.get();
  guide.calibration = comparison.cluster.calibration;
  guide.learn = comparison.learn;
  guide.learn.seed = seed;
  TuneOptions options;
  options.trials = comparison.trials;
  options.builders = comparison.builders;
  options.search = comparison.search;
  options.search.mode = mode;
  options.search.seed = seed;
  Tuner tuner(plain, guide, options);
  while (const auto task = tuner.next()) {
    tuner.report(trial_of(*task, cluster.run(task->strategy, options.deadline_s)));
  }
  return tuner.result();
}

Curves join(const std::vector<const SearchRun*>& runs) {
  Curves joined{runs[0]->mode, runs[0]->domain, static_cast<int>(runs.size()), {}, {}, {}, {}};
  size_t length = runs[0]->result.curve.size();
  std::vector<double> speedups;
  for (const SearchRun* run : runs) {
    length = std::min(length, run->result.curve.size());
    speedups.push_back(run->result.speedup);
  }
  joined.speedup = simulator::mean_std(speedups);
  for (size_t i = 0; i < length; ++i) {
    std::vector<double> improvements, hits;
    for (const SearchRun* run : runs) {
      improvements.push_back(run->result.curve[i].improvement);
      hits.push_back(run->result.curve[i].hit_rate);
    }
    joined.k.push_back(runs[0]->result.curve[i].k);
    joined.improvement.push_back(simulator::mean_std(improvements));
    joined.hit_rate.push_back(simulator::mean_std(hits));
  }
  return joined;
}

}  // namespace

std::vector<SearchRun> simulate_searches(const dataset::Domain& domain, const SearchComparison& comparison) {
  const dataset::Domain plain{domain.name, domain.graph, domain.cluster, domain.settings, {}};
  std::vector<SearchRun> runs;
  const int total = static_cast<int>(comparison.modes.size()) * comparison.seeds;
  for (const Mode mode : comparison.modes) {
    for (int s = 0; s < comparison.seeds; ++s) {
      const uint64_t seed = comparison.seed + static_cast<uint64_t>(s);
      const std::string name(to_string(mode));
      comparison.progress(static_cast<int>(runs.size()), total,
                          fmt::format("{} {}, seed {}", name, domain.name, seed));
      runs.push_back({name, domain.name, seed, search_once(plain, mode, seed, comparison)});
    }
  }
  comparison.progress(total, total, domain.name);
  return runs;
}

std::vector<SearchRun> searches_from_log(const std::string& mode, const std::filesystem::path& log) {
  std::vector<SearchRun> runs;
  for (const dataset::Domain& domain : dataset::load(log).domains) {
    const bool baseline =
        std::any_of(domain.trials.begin(), domain.trials.end(),
                    [](const dataset::Trial& trial) { return trial.ok() && trial.origin == kBuilderOrigin; });
    if (baseline) runs.push_back({mode, domain.name, domain.settings.seed, summarize(domain.trials)});
  }
  return runs;
}

std::vector<Curves> curves(const std::vector<SearchRun>& runs) {
  std::vector<std::vector<const SearchRun*>> groups;
  for (const SearchRun& run : runs) {
    const auto same = [&](const auto& group) {
      return group[0]->mode == run.mode && group[0]->domain == run.domain;
    };
    const auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) {
      groups.push_back({&run});
    } else {
      at->push_back(&run);
    }
  }
  std::vector<Curves> result;
  for (const auto& group : groups) result.push_back(join(group));
  return result;
}

}  // namespace entrain::tuner
