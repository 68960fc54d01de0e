#include "entrain/tuner/search.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"

namespace entrain::tuner {
namespace {

using strategy::Strategy;

constexpr std::pair<std::string_view, Mode> kModes[] = {{"own", Mode::kOwn},
                                                        {"published", Mode::kPublished},
                                                        {"random", Mode::kRandom},
                                                        {"random-published", Mode::kRandomPublished}};

strategy::SamplerOptions sampler_options(const SearchOptions& options) {
  strategy::SamplerOptions result = options.sampler;
  const bool published = options.mode == Mode::kPublished || options.mode == Mode::kRandomPublished;
  result.space = published ? strategy::Space::kPublished : strategy::Space::kOwn;
  return result;
}

struct Spread {
  double mean = 0, deviation = 0;
};

template <typename Items, typename Value>
Spread spread_of(const Items& items, Value value) {
  Spread spread;
  const auto n = static_cast<double>(items.size());
  for (const auto& item : items) spread.mean += value(item) / n;
  for (const auto& item : items) spread.deviation += std::pow(value(item) - spread.mean, 2) / n;
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

// A ranker's scores have no unit: they are counted in `weight` spreads of the first opinion, and so is what
// its members disagree about.
void add_opinion(std::vector<Scored>& scored, const std::vector<simulator::UncertainScore>& opinion,
                 double weight) {
  const Spread first = spread_of(scored, [](const Scored& s) { return s.mean; });
  const Spread second = spread_of(opinion, [](const simulator::UncertainScore& p) { return p.score; });
  if (!(second.deviation > 0)) return;
  const double unit = weight * first.deviation / second.deviation;
  for (size_t i = 0; i < scored.size(); ++i) {
    scored[i].mean += unit * (opinion[i].score - second.mean);
    scored[i].deviation = std::hypot(scored[i].deviation, unit * opinion[i].uncertainty);
  }
}

std::vector<Proposal> proposals_of(std::vector<Candidate>& candidates, const std::vector<int>& picked) {
  std::vector<Proposal> batch;
  for (const int i : picked) batch.push_back({std::move(candidates[i].strategy), candidates[i].origin});
  return batch;
}

}  // namespace

Mode mode_from(std::string_view name) {
  for (const auto& [text, mode] : kModes) {
    if (text == name) return mode;
  }
  bad_input("mode is \"{}\", allowed: own, published, random, random-published", name);
}

std::string_view to_string(Mode mode) {
  for (const auto& [text, value] : kModes) {
    if (value == mode) return text;
  }
  return "?";
}

double Search::Known::seconds() const { return median(measured); }

Search::Search(const graph::Graph& graph, const cluster::Cluster& cluster, Guide guide, SearchOptions options)
    : graph_(graph),
      cluster_(cluster),
      guide_(std::move(guide)),
      options_(options),
      sampler_(graph, cluster, sampler_options(options)),
      embedder_(graph, cluster) {
  if (options_.mode == Mode::kPublished && guide_.ranker == nullptr) {
    fail("the tuner's published mode needs a ranker");
  }
  if (options_.evaluations <= 0) {
    // The event simulation takes some 50 us for VGG16's 32 variables, and in proportion.
    const auto variables = static_cast<int>(std::max<size_t>(graph.variables.size(), 1));
    options_.evaluations = std::clamp(320'000 / variables, 1'000, 10'000);
  }
}

bool Search::tried(const Strategy& strategy) const {
  return keys_.count(fingerprint(sampler_.canonical(strategy))) > 0;
}

void Search::tell(const dataset::Trial& trial) {
  Strategy canonical = sampler_.canonical(trial.strategy);
  const uint64_t key = fingerprint(canonical);
  const auto [place, added] = index_.try_emplace(key, known_.size());
  if (added) {
    keys_.insert(key);
    Known known;
    known.embedding = embedder_.embed(canonical);
    known.log_simulated = log_simulated({canonical})[0];
    known.strategy = std::move(canonical);
    known_.push_back(std::move(known));
  }
  if (!trial.ok()) return;
  known_[place->second].measured.push_back(trial.step_s());
  told_.push_back(trial);
}

std::vector<Proposal> Search::ask() {
  // From the number of strategies told, not from earlier draws, so that a resumed search draws the same.
  std::seed_seq seed{options_.seed & 0xffffffffu, options_.seed >> 32, static_cast<uint64_t>(known_.size())};
  strategy::Rng rng(seed);
  switch (options_.mode) {
    case Mode::kOwn:
      return ask_own(rng);
    case Mode::kPublished:
      return ask_published(rng);
    default:
      return ask_random(rng);
  }
}

std::vector<Proposal> Search::ask_random(strategy::Rng& rng) const {
  std::vector<Proposal> batch;
  std::unordered_set<uint64_t> seen = keys_;
  constexpr int kMostDraws = 1000;  // a space may be that small
  for (int i = 0; i < kMostDraws && static_cast<int>(batch.size()) < options_.batch.size; ++i) {
    Strategy drawn = sampler_.sample(rng);
    if (seen.insert(fingerprint(drawn)).second) batch.push_back({std::move(drawn), "random"});
  }
  return batch;
}

// AutoSync's: draws, ranked. Before the first lessons all scores are equal, so diversity alone picks.
std::vector<Proposal> Search::ask_published(strategy::Rng& rng) {
  std::vector<Candidate> candidates;
  std::unordered_set<uint64_t> seen = keys_;
  for (int i = 0; i < options_.proposals; ++i) {
    Candidate c{sampler_.sample(rng), "random", 0, {}, 0, 0, 0};
    c.key = fingerprint(c.strategy);
    if (!seen.insert(c.key).second) continue;
    c.embedding = embedder_.embed(c.strategy);
    candidates.push_back(std::move(c));
  }
  if (learn_ranker()) {
    std::vector<Strategy> strategies;
    for (const Candidate& c : candidates) strategies.push_back(c.strategy);
    const std::vector<double> scores = ranked(strategies);
    for (size_t i = 0; i < candidates.size(); ++i) candidates[i].score = scores[i];
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  }
  candidates.resize(std::min<size_t>(candidates.size(), std::max(options_.proposals / 10, 1)));
  std::vector<Scored> scored;
  for (const Candidate& c : candidates) scored.push_back({c.score, 0, &c.embedding});
  return proposals_of(candidates, pick_batch(scored, options_.batch));
}

std::vector<Proposal> Search::ask_own(strategy::Rng& rng) {
  remake_simulator();
  const Correction correction = learn_correction();
  const Judge judge = [&](std::vector<Candidate>& brood) {
    std::vector<Strategy> strategies;
    strategies.reserve(brood.size());
    for (Candidate& c : brood) strategies.push_back(std::move(c.strategy));
    const std::vector<double> simulated = log_simulated(strategies);
    for (size_t i = 0; i < brood.size(); ++i) {
      Candidate& c = brood[i];
      c.strategy = std::move(strategies[i]);
      c.embedding = embedder_.embed(c.strategy);
      c.niche = embedder_.niche(c.embedding);
      c.log_simulated = simulated[i];
      c.score = correction.mean(c.embedding, simulated[i]);
    }
  };
  const EvolveOptions evolution{options_.population, options_.evaluations, 0.15, 0.25};
  std::vector<Candidate> candidates = evolve(sampler_, best_known(8), keys_, judge, evolution, rng);

  std::vector<Scored> scored;
  for (const Candidate& c : candidates) {
    const Prediction p = correction.predict(c.embedding, c.log_simulated);
    scored.push_back({p.mean, p.deviation, &c.embedding});
  }
  if (!candidates.empty() && guide_.ranker != nullptr && (guide_.ranker_ready || learn_ranker())) {
    std::vector<Strategy> strategies;
    for (const Candidate& c : candidates) strategies.push_back(c.strategy);
    add_opinion(scored, guide_.ranker->predict({&graph_, &cluster_, guide_.calibration, {}}, strategies),
                options_.ranker_weight);
  }
  return proposals_of(candidates, pick_batch(scored, options_.batch));
}

void Search::remake_simulator() {
  if (!guide_.remake || told_.empty()) return;
  std::vector<const dataset::Trial*> trials;
  for (const dataset::Trial& trial : told_) trials.push_back(&trial);
  remade_ = guide_.remake(trials);
  for (Known& known : known_) known.log_simulated = log_simulated({known.strategy})[0];
}

std::vector<double> Search::log_simulated(const std::vector<Strategy>& strategies) const {
  const simulator::Simulator* judge = remade_ ? remade_.get() : guide_.simulator;
  if (judge == nullptr) return std::vector<double>(strategies.size(), 0.0);
  std::vector<double> scores = judge->score(strategies);
  constexpr double kHopeless = 1e9;  // what cannot be judged is not proposed
  for (double& s : scores) s = std::log(std::isfinite(s) && s > 0 ? std::min(s, kHopeless) : kHopeless);
  return scores;
}

std::vector<Strategy> Search::best_known(size_t count) const {
  std::vector<const Known*> measured;
  for (const Known& known : known_) {
    if (!known.measured.empty()) measured.push_back(&known);
  }
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Known* a, const Known* b) { return a->seconds() < b->seconds(); });
  std::vector<Strategy> best;
  for (size_t i = 0; i < std::min(count, measured.size()); ++i) best.push_back(measured[i]->strategy);
  return best;
}

Correction Search::learn_correction() const {
  std::vector<Observation> observations;
  for (const Known& known : known_) {
    if (!known.measured.empty()) {
      observations.push_back({known.embedding, known.log_simulated, std::log(known.seconds())});
    }
  }
  return Correction(observations);
}

bool Search::learn_ranker() {
  if (guide_.ranker == nullptr) return false;
  if (static_cast<int>(told_.size()) < options_.learn_from) return guide_.ranker_ready;
  simulator::Lesson lesson{&graph_, &cluster_, guide_.calibration, {}};
  for (const dataset::Trial& trial : told_) lesson.trials.push_back(&trial);
  std::vector<simulator::Lesson> lessons = guide_.other_lessons;
  lessons.push_back(std::move(lesson));
  guide_.ranker->learn(lessons, {}, guide_.learn);
  return true;
}

std::vector<double> Search::ranked(const std::vector<Strategy>& strategies) const {
  return guide_.ranker->score({&graph_, &cluster_, guide_.calibration, {}}, strategies);
}

}  // namespace entrain::tuner
