// Small problems whose answers are known, and a way to run any rule on them: workers are threads of this
// process. For the tests of the theory and `entrain experiment`.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "entrain/optim/distributed_optimizer.h"
#include "entrain/strategy/optimizer.h"

namespace entrain::optim {

// min f(x) over float64 vectors. All functions are pure: called from several threads at once.
struct Problem {
  std::string name;
  std::function<torch::Tensor(int worker)> start;
  std::function<double(const torch::Tensor& x)> objective;  // f
  // What a worker sees at step k (counted from 0): the gradient of f, or a noisy one.
  std::function<torch::Tensor(const torch::Tensor& x, int worker, int64_t k)> gradient;
};

// f(x) = sum_d (x_d^2 - 1)^2 / 4 + tilt x_d. Wells near -1 and 1, a hill between. Worker i starts at
// starts[i].
Problem double_well(std::vector<double> starts, double tilt = 0);

// Symmetric matrix completion: M = U U^T with U n x rank, observed at a symmetric random set of entries that
// holds the diagonal; f(X) = |P(M - X X^T)|^2 / (4 n), 0 at X = U Q for every rotation Q. Even workers start
// at a random X, odd ones at -X, which is as good: their mean, 0, is a saddle. `jitter` > 0 moves each start
// by a random step of that size per coordinate, which breaks the symmetry.
Problem matrix_completion(int n, int rank, double observed, uint64_t seed, double jitter = 0);

// f(x) = x^T A x / 2, A diagonal with eigenvalues spread evenly over [1, condition]; gradients carry noise of
// standard deviation `noise` per coordinate, drawn from (seed, worker, k). All start at the same random x.
Problem noisy_quadratic(int dimensions, double condition, double noise, uint64_t seed);

// f(x) = sum_i |A_i x - b_i|^2 / (2 l rows), worker i sees its own A_i, b_i only (a shard of the data).
struct LeastSquares {
  std::vector<torch::Tensor> a, b;  // by worker
  Problem problem() const;
};
LeastSquares least_squares(int workers, int rows, int dimensions, uint64_t seed);

struct RunSettings {
  std::vector<std::vector<int>> groups = {};        // empty: one
  std::function<double(int64_t k)> rate = nullptr;  // of step k; null: the settings' own
  int64_t record_every = 1;                         // steps
  uint64_t seed = 0;
};

struct Trace {
  std::vector<int64_t> steps;                         // recorded after this many steps; the first is 0
  std::vector<std::vector<torch::Tensor>> positions;  // x by record and worker
  std::vector<double> objective;                      // f(mean of the workers) by record
  torch::Tensor tested;                               // test_parameters() at the end (of worker 0)
  std::vector<Journal> journals;                      // by worker
  uint64_t bytes_sent = 0;                            // by all, after the first step
};

// Trains `workers` workers by the rule of `settings`, each `steps` steps; a worker's loss is f at its x. lsgd
// with one worker is plain training by the base. Throws the first worker's error.
Trace run_rule_on(const Problem& problem, const strategy::Optimizer& settings, int workers, int64_t steps,
                  const RunSettings& run = {});

}  // namespace entrain::optim
