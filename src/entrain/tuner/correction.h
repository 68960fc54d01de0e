// What trials teach about the simulator's error: Bayesian linear regression of
//
//   log(measured) - log(simulated) = w . (1, log(simulated) - mean, embedding) + noise
//
// w ~ N(0, s^2), noise ~ N(0, e^2); s and e are those of a small grid under which the trials are likeliest
// (evidence). With no trials it is the simulator; with many it has learnt where the simulator is wrong, and
// says how sure it is.
#pragma once

#include <vector>

#include "entrain/tuner/embedding.h"

namespace entrain::tuner {

struct Observation {
  Vector embedding;
  double log_simulated;
  double log_measured;
};

// Logarithms of seconds.
struct Prediction {
  double mean;
  double deviation;  // of the mean, without the noise of a measurement
};

// Thread-safe once made.
class Correction {
 public:
  Correction() = default;  // believes the simulator
  explicit Correction(const std::vector<Observation>& observations);

  double mean(const Vector& embedding, double log_simulated) const;
  Prediction predict(const Vector& embedding, double log_simulated) const;

 private:
  Vector features(const Vector& embedding, double log_simulated) const;

  double centre_ = 0;         // mean log(simulated)
  Vector weights_;            // empty: no observations
  std::vector<Vector> root_;  // lower triangular L with L L^T = posterior precision
};

}  // namespace entrain::tuner
