#include "entrain/optim/problems.h"

#include <ATen/CPUGeneratorImpl.h>

namespace entrain::optim {
namespace {

torch::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kFloat64);
}

}  // namespace

Problem double_well(std::vector<double> starts, double tilt) {
  Problem problem;
  problem.name = "double well";
  problem.start = [starts](int worker) { return torch::tensor({starts.at(worker)}, torch::kFloat64); };
  problem.objective = [tilt](const torch::Tensor& x) {
    return ((x.square() - 1).square() / 4 + tilt * x).sum().item<double>();
  };
  problem.gradient = [tilt](const torch::Tensor& x, int, int64_t) { return x * (x.square() - 1) + tilt; };
  return problem;
}

Problem matrix_completion(int n, int rank, double observed, uint64_t seed, double jitter) {
  const torch::Tensor u = normal({n, rank}, seed);
  const torch::Tensor m = u.matmul(u.t());
  torch::Tensor mask = torch::rand({n, n}, at::detail::createCPUGenerator(seed + 1), torch::kFloat64)
                           .lt(observed)
                           .to(torch::kFloat64);
  mask = mask.triu();
  mask = torch::maximum(mask, mask.t()).fill_diagonal_(1);
  const torch::Tensor start = normal({n, rank}, seed + 2).flatten() * 0.5;
  const auto miss = [=](const torch::Tensor& x) {
    const torch::Tensor square = x.view({n, rank});
    return mask * (square.matmul(square.t()) - m);
  };
  Problem problem;
  problem.name = "matrix completion";
  problem.start = [=](int worker) {
    const torch::Tensor side = worker % 2 == 0 ? start : -start;
    return side + jitter * normal({n * rank}, seed + 3 + static_cast<uint64_t>(worker));
  };
  problem.objective = [=](const torch::Tensor& x) { return miss(x).square().sum().item<double>() / (4 * n); };
  // Twice the miss, for X stands on both sides, and twice for the square: 4 / (4 n).
  problem.gradient = [=](const torch::Tensor& x, int, int64_t) {
    return miss(x).matmul(x.view({n, rank})).flatten() / n;
  };
  return problem;
}

Problem noisy_quadratic(int dimensions, double condition, double noise, uint64_t seed) {
  const torch::Tensor a = torch::linspace(1, condition, dimensions, torch::kFloat64);
  const torch::Tensor start = normal({dimensions}, seed);
  Problem problem;
  problem.name = "noisy quadratic";
  problem.start = [=](int) { return start.clone(); };
  problem.objective = [=](const torch::Tensor& x) { return (a * x.square()).sum().item<double>() / 2; };
  problem.gradient = [=](const torch::Tensor& x, int worker, int64_t k) {
    const auto draw = seed * 1000003 + static_cast<uint64_t>(k) * 1021 + static_cast<uint64_t>(worker) + 1;
    return a * x + noise * normal({dimensions}, draw);
  };
  return problem;
}

Problem LeastSquares::problem() const {
  Problem problem;
  problem.name = "least squares";
  const auto dimensions = a.front().size(1);
  problem.start = [=](int worker) { return normal({dimensions}, 77 + static_cast<uint64_t>(worker)); };
  problem.objective = [*this](const torch::Tensor& x) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i].mv(x) - b[i]).square().mean().item<double>();
    return sum / (2 * static_cast<double>(a.size()));
  };
  problem.gradient = [*this](const torch::Tensor& x, int worker, int64_t) {
    const torch::Tensor& rows = a.at(worker);
    return rows.t().mv(rows.mv(x) - b.at(worker)) / static_cast<double>(rows.size(0));
  };
  return problem;
}

LeastSquares least_squares(int workers, int rows, int dimensions, uint64_t seed) {
  LeastSquares problem;
  for (int i = 0; i < workers; ++i) {
    const auto from = seed + 2 * static_cast<uint64_t>(i);
    problem.a.push_back(normal({rows, dimensions}, from));
    problem.b.push_back(normal({rows}, from + 1));
  }
  return problem;
}

}  // namespace entrain::optim
