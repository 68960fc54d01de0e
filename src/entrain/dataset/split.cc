#include "entrain/dataset/split.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "entrain/base/error.h"
#include "entrain/dataset/stats.h"

namespace entrain::dataset {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// FNV-1a: std::hash may differ from one library to the next.
uint64_t hash(const std::string& text) {
  uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// Fisher and Yates. std::shuffle, too, may differ from one library to the next.
template <typename T>
void shuffle(std::vector<T>& values, std::mt19937_64& rng) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng() % i]);
}

void check_names(const Dataset& dataset, const std::vector<std::string>& wanted, const char* what,
                 const std::string& (*name_of)(const Domain&)) {
  std::set<std::string> known;
  for (const Domain& domain : dataset.domains) known.insert(name_of(domain));
  for (const std::string& name : wanted) {
    if (!known.contains(name))
      bad_input("no domain has the {} {}, allowed: {}", what, name, fmt::join(known, ", "));
  }
}

const std::string& model_of(const Domain& domain) { return domain.graph.model; }
const std::string& cluster_of(const Domain& domain) { return domain.cluster.name; }
const std::string& domain_name(const Domain& domain) { return domain.name; }

void check(const Dataset& dataset, const SplitOptions& options) {
  if (!(options.training > 0 && options.validation >= 0 && options.training + options.validation <= 1)) {
    bad_input("shares are {} for training and {} for validation, allowed: above 0, together at most 1",
              options.training, options.validation);
  }
  check_names(dataset, options.hold_out_models, "model", model_of);
  check_names(dataset, options.hold_out_clusters, "cluster", cluster_of);
  check_names(dataset, options.hold_out_domains, "name", domain_name);
}

Domain without_trials(const Domain& domain) {
  return {domain.name, domain.graph, domain.cluster, domain.settings, {}};
}

void add(Dataset& part, Domain domain) {
  if (!domain.trials.empty()) part.domains.push_back(std::move(domain));
}

// Trials by strategy, in shuffled order of strategies.
std::vector<std::vector<const Trial*>> bundles_of(const Domain& domain, uint64_t seed) {
  std::map<std::string, size_t> index;
  std::vector<std::vector<const Trial*>> bundles;
  for (const Trial& trial : domain.trials) {
    const auto [at, fresh] = index.emplace(strategy_key(trial.strategy), bundles.size());
    if (fresh) bundles.emplace_back();
    bundles[at->second].push_back(&trial);
  }
  std::mt19937_64 rng(seed ^ hash(domain.name));
  shuffle(bundles, rng);
  return bundles;
}

}  // namespace

Parts split(const Dataset& dataset, const SplitOptions& options) {
  check(dataset, options);
  const bool holds_out = !options.hold_out_models.empty() || !options.hold_out_clusters.empty() ||
                         !options.hold_out_domains.empty();
  const double known = holds_out ? options.training + options.validation : 1;
  Parts parts;
  for (const Domain& domain : dataset.domains) {
    if (contains(options.hold_out_models, model_of(domain)) ||
        contains(options.hold_out_clusters, cluster_of(domain)) ||
        contains(options.hold_out_domains, domain.name)) {
      add(parts.test, domain);
      continue;
    }
    Domain pieces[3] = {without_trials(domain), without_trials(domain), without_trials(domain)};
    const auto bundles = bundles_of(domain, options.seed);
    const auto cut = [&](double share) {
      return static_cast<size_t>(std::lround(share / known * static_cast<double>(bundles.size())));
    };
    const size_t first = cut(options.training), second = cut(options.training + options.validation);
    for (size_t i = 0; i < bundles.size(); ++i) {
      Domain& piece = pieces[i < first ? 0 : i < second ? 1 : 2];
      for (const Trial* trial : bundles[i]) piece.trials.push_back(*trial);
    }
    for (Domain& piece : pieces) {
      std::sort(piece.trials.begin(), piece.trials.end(),
                [](const Trial& a, const Trial& b) { return a.number < b.number; });
    }
    add(parts.training, std::move(pieces[0]));
    add(parts.validation, std::move(pieces[1]));
    add(parts.test, std::move(pieces[2]));
  }
  return parts;
}

}  // namespace entrain::dataset
