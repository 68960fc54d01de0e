#include "entrain/tuner/correction.h"

#include <cmath>
#include <limits>

namespace entrain::tuner {
namespace {

using Matrix = std::vector<Vector>;

// L with L L^T = a. Requires: a symmetric, positive definite.
Matrix cholesky(const Matrix& a) {
  const size_t n = a.size();
  Matrix l(n, Vector(n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
      l[i][j] = i == j ? std::sqrt(sum) : sum / l[j][j];
    }
  }
  return l;
}

// x with L x = b.
Vector solve_lower(const Matrix& l, Vector b) {
  for (size_t i = 0; i < l.size(); ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= l[i][k] * b[k];
    b[i] /= l[i][i];
  }
  return b;
}

// x with L^T x = b.
Vector solve_upper(const Matrix& l, Vector b) {
  for (size_t i = l.size(); i-- > 0;) {
    for (size_t k = i + 1; k < l.size(); ++k) b[i] -= l[k][i] * b[k];
    b[i] /= l[i][i];
  }
  return b;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// X^T X, X^T y and y^T y: all that the posterior needs.
struct Moments {
  Matrix xx;
  Vector xy;
  double yy = 0;
  double count = 0;
};

struct Posterior {
  Vector weights;
  Matrix root;
  double evidence;  // log p(y | s, e) up to a constant
};

// Precision A = X^T X / e^2 + diag(1 / s_i^2), mean m = A^-1 X^T y / e^2, and
// 2 log p(y) = -n log e^2 - sum log s_i^2 - log |A| - y^T y / e^2 + m^T X^T y / e^2.
Posterior posterior(const Moments& m, double spread, double noise) {
  constexpr double kScaleSpread = 1.5;  // of the first weight: the simulator's scale may be anything
  const size_t n = m.xy.size();
  const double precision = 1 / (noise * noise);
  Matrix a = m.xx;
  Vector b = m.xy;
  double log_prior = 0;
  for (size_t i = 0; i < n; ++i) {
    for (double& x : a[i]) x *= precision;
    b[i] *= precision;
    const double s = i == 0 ? kScaleSpread : spread;
    a[i][i] += 1 / (s * s);
    log_prior += 2 * std::log(s);
  }
  Posterior result;
  result.root = cholesky(a);
  result.weights = solve_upper(result.root, solve_lower(result.root, b));
  double log_a = 0;
  for (size_t i = 0; i < n; ++i) log_a += 2 * std::log(result.root[i][i]);
  result.evidence =
      -m.count * 2 * std::log(noise) - log_prior - log_a - m.yy * precision + dot(result.weights, b);
  return result;
}

}  // namespace

Vector Correction::features(const Vector& embedding, double log_simulated) const {
  Vector x;
  x.reserve(embedding.size() + 2);
  x.push_back(1);
  x.push_back(log_simulated - centre_);
  x.insert(x.end(), embedding.begin(), embedding.end());
  return x;
}

Correction::Correction(const std::vector<Observation>& observations) {
  if (observations.empty()) return;
  for (const Observation& each : observations) {
    centre_ += each.log_simulated / static_cast<double>(observations.size());
  }
  const size_t n = observations[0].embedding.size() + 2;
  Moments moments{Matrix(n, Vector(n)), Vector(n), 0, static_cast<double>(observations.size())};
  for (const Observation& observation : observations) {
    const Vector x = features(observation.embedding, observation.log_simulated);
    const double y = observation.log_measured - observation.log_simulated;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) moments.xx[i][j] += x[i] * x[j];
      moments.xy[i] += x[i] * y;
    }
    moments.yy += y * y;
  }
  double best = -std::numeric_limits<double>::infinity();
  for (const double spread : {0.03, 0.1, 0.3, 1.0}) {
    for (const double noise : {0.02, 0.04, 0.08, 0.16}) {
      Posterior p = posterior(moments, spread, noise);
      if (!(p.evidence > best)) continue;
      best = p.evidence;
      weights_ = std::move(p.weights);
      root_ = std::move(p.root);
    }
  }
}

double Correction::mean(const Vector& embedding, double log_simulated) const {
  if (weights_.empty()) return log_simulated;
  return log_simulated + dot(weights_, features(embedding, log_simulated));
}

Prediction Correction::predict(const Vector& embedding, double log_simulated) const {
  if (weights_.empty()) return {log_simulated, 0};
  const Vector x = features(embedding, log_simulated);
  const Vector z = solve_lower(root_, x);  // x^T A^-1 x = |L^-1 x|^2
  return {log_simulated + dot(weights_, x), std::sqrt(dot(z, z))};
}

}  // namespace entrain::tuner
