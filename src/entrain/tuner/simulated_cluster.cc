#include "entrain/tuner/simulated_cluster.h"

#include <cmath>
#include <random>

#include "entrain/dataset/stats.h"

namespace entrain::tuner {
namespace {

// splitmix64: neighbouring seeds give unrelated streams.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hash(const std::string& text) {
  uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// Box and Muller, since std::normal_distribution may differ from one library to the next.
double normal(std::mt19937_64& rng) {
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53
  const double u = (static_cast<double>(rng() >> 11) + 1) * kScale,
               v = static_cast<double>(rng() >> 11) * kScale;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

simulator::Calibration disturbed(simulator::Calibration c, double error, uint64_t seed) {
  std::mt19937_64 rng(mix(seed));
  for (double* number : {&c.link_efficiency, &c.latency_s, &c.message_s, &c.reduce_bytes_per_s,
                         &c.update_bytes_per_s, &c.compute_scale}) {
    *number *= std::exp(error * normal(rng));
  }
  c.link_efficiency = std::min(c.link_efficiency, 0.99);
  return c;
}

}  // namespace

SimulatedCluster::SimulatedCluster(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   const SimulatedOptions& options)
    : options_(options),
      simulation_(graph, cluster, disturbed(options.calibration, options.calibration_error, options.seed)) {}

double SimulatedCluster::truth(const strategy::Strategy& strategy) const {
  std::mt19937_64 rng(mix(options_.seed ^ hash(dataset::strategy_key(strategy))));
  return simulation_.estimate(strategy).seconds * std::exp(options_.model_error * normal(rng));
}

Measured SimulatedCluster::run(const strategy::Strategy& strategy, double deadline_s) {
  std::mt19937_64 rng(mix(options_.seed + mix(++trials_)));
  const double base = truth(strategy) * std::exp(options_.trial_noise * normal(rng));
  Measured measured;
  double spent = 0;
  for (int i = 0; i < options_.steps; ++i) {
    const double seconds = base * std::exp(options_.step_noise * normal(rng));
    spent += seconds;
    if (spent > deadline_s) {
      measured.status = dataset::Status::kDeadline;
      return measured;
    }
    measured.seconds.push_back(seconds);
  }
  return measured;
}

}  // namespace entrain::tuner
