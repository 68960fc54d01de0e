#include "entrain/optim/base.h"

#include <gtest/gtest.h>

namespace entrain::optim {
namespace {

torch::Tensor with_gradient(const torch::Tensor& gradient) {
  torch::Tensor parameter = torch::zeros(gradient.sizes(), torch::kFloat64).requires_grad_();
  parameter.mutable_grad() = gradient;
  return parameter;
}

torch::Tensor dense(std::vector<double> values) { return torch::tensor(values, torch::kFloat64); }

// Row 1 comes twice: the gradient is {0, 3 + 1, 0}, of norm 4, not of sqrt(3^2 + 1^2).
torch::Tensor rows() {
  return torch::sparse_coo_tensor(torch::tensor({{1, 1}}, torch::kInt64), dense({3, 1}), {3});
}

TEST(ClipGradients, ScalesAllByTheirCommonNorm) {
  const std::vector<torch::Tensor> parameters = {with_gradient(dense({3, 0})), with_gradient(dense({4}))};
  EXPECT_DOUBLE_EQ(clip_gradients(parameters, 1), 5);
  EXPECT_TRUE(parameters[0].grad().allclose(dense({0.6, 0}), 1e-5));
  EXPECT_TRUE(parameters[1].grad().allclose(dense({0.8}), 1e-5));
}

TEST(ClipGradients, LeavesSmallOnesAndThoseWithoutALimit) {
  const torch::Tensor parameter = with_gradient(dense({3, 4}));
  EXPECT_DOUBLE_EQ(clip_gradients({parameter}, 5.1), 5);
  EXPECT_TRUE(parameter.grad().equal(dense({3, 4})));
  clip_gradients({parameter}, 0);
  EXPECT_TRUE(parameter.grad().equal(dense({3, 4})));
}

TEST(ClipGradients, CountsARowThatCameTwiceAsItsSum) {
  const std::vector<torch::Tensor> parameters = {with_gradient(rows()), with_gradient(dense({3}))};
  EXPECT_DOUBLE_EQ(clip_gradients(parameters, 1), 5);
  EXPECT_TRUE(parameters[0].grad().is_sparse());
  EXPECT_TRUE(parameters[0].grad().to_dense().allclose(dense({0, 0.8, 0}), 1e-5));
  EXPECT_TRUE(parameters[1].grad().allclose(dense({0.6}), 1e-5));
}

TEST(ClipGradients, PassesOverParametersWithoutAGradient) {
  const torch::Tensor unused = torch::zeros({2}, torch::kFloat64).requires_grad_();
  const torch::Tensor used = with_gradient(dense({0, 2}));
  EXPECT_DOUBLE_EQ(clip_gradients({unused, used}, 1), 2);
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_TRUE(used.grad().allclose(dense({0, 1}), 1e-5));
}

TEST(SetRate, IsThatOfTheNextStep) {
  const torch::Tensor x = with_gradient(dense({1}));
  torch::optim::SGD base({x}, torch::optim::SGDOptions(0.5));
  base.step();
  set_rate(base, 0.25);
  base.step();
  EXPECT_DOUBLE_EQ(x.item<double>(), -0.75);
}

}  // namespace
}  // namespace entrain::optim
