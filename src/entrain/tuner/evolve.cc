#include "entrain/tuner/evolve.h"

#include <algorithm>
#include <unordered_map>

namespace entrain::tuner {
namespace {

using strategy::Strategy;
namespace draw = strategy::sampling;

class Evolution {
 public:
  Evolution(const strategy::Sampler& sampler, const std::vector<Strategy>& parents,
            const std::unordered_set<uint64_t>& known, const EvolveOptions& options, strategy::Rng& rng)
      : sampler_(sampler), parents_(parents), seen_(known), options_(options), rng_(rng) {}

  std::vector<Candidate> run(const Judge& judge) {
    // The first half fresh, the others children of what was measured.
    int judged = 0;
    bool first = true;
    while (judged < options_.evaluations) {
      std::vector<Candidate> brood = first ? beginning() : generation();
      first = false;
      judged += options_.population;  // also when all were seen before: a small space must not hang us
      judge(brood);
      for (Candidate& child : brood) population_.push_back(std::move(child));
      select();
    }
    return std::move(population_);
  }

 private:
  // The best live on, but no more of a niche than its share.
  void select() {
    std::stable_sort(population_.begin(), population_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
    const int share = std::max(1, options_.population / 8);
    std::unordered_map<int, int> held;
    std::vector<Candidate> kept;
    for (Candidate& c : population_) {
      if (kept.size() == static_cast<size_t>(options_.population)) break;
      if (held[c.niche]++ < share) kept.push_back(std::move(c));
    }
    population_ = std::move(kept);
  }

  std::vector<Candidate> beginning() {
    std::vector<Candidate> brood;
    for (int i = 0; i < options_.population; ++i) {
      if (parents_.empty() || i % 2 == 0) {
        add(brood, sampler_.sample(rng_), "random");
      } else {
        add(brood, sampler_.mutate(draw::pick(rng_, parents_), rng_), "mutation");
      }
    }
    return brood;
  }

  std::vector<Candidate> generation() {
    std::vector<Candidate> brood;
    for (int i = 0; i < options_.population; ++i) {
      if (draw::chance(rng_, options_.fresh) || population_.empty()) {
        add(brood, sampler_.sample(rng_), "random");
      } else if (draw::chance(rng_, options_.crossover)) {
        Strategy child = sampler_.crossover(parent(), parent(), rng_);
        if (draw::chance(rng_, 0.3)) child = sampler_.mutate(child, rng_);
        add(brood, std::move(child), "crossover");
      } else {
        add(brood, sampler_.mutate(parent(), rng_), "mutation");
      }
    }
    return brood;
  }

  // One in ten a measured one, else the best of three.
  const Strategy& parent() {
    if (!parents_.empty() && draw::chance(rng_, 0.1)) return draw::pick(rng_, parents_);
    int64_t best = static_cast<int64_t>(population_.size());
    for (int i = 0; i < 3; ++i) {
      best = std::min(best, draw::below(rng_, static_cast<int64_t>(population_.size())));
    }
    return population_[best].strategy;
  }

  void add(std::vector<Candidate>& brood, Strategy child, const char* origin) {
    const uint64_t key = fingerprint(child);
    if (!seen_.insert(key).second) return;
    brood.push_back({std::move(child), origin, key, {}, 0, 0, 0});
  }

  const strategy::Sampler& sampler_;
  const std::vector<Strategy>& parents_;
  std::unordered_set<uint64_t> seen_;
  const EvolveOptions& options_;
  strategy::Rng& rng_;
  std::vector<Candidate> population_;  // best first
};

}  // namespace

std::vector<Candidate> evolve(const strategy::Sampler& sampler, const std::vector<Strategy>& parents,
                              const std::unordered_set<uint64_t>& known, const Judge& judge,
                              const EvolveOptions& options, strategy::Rng& rng) {
  return Evolution(sampler, parents, known, options, rng).run(judge);
}

}  // namespace entrain::tuner
