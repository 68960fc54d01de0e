#include "entrain/optim/finite.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "entrain/base/error.h"

namespace entrain::optim {
namespace {

constexpr auto kTypes = {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16,
                         torch::kComplexFloat};

TEST(Finite, FindsOneValueWhereverItIs) {
  for (const auto type : kTypes) {
    for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      for (const int64_t at :
           {0, 1, 7, 16383, 16384, 20000}) {  // in the first, the second and the last block
        torch::Tensor x = torch::randn({20001}, torch::kFloat32).to(type);
        ASSERT_TRUE(all_finite(x)) << c10::toString(type);
        x[at] = value;
        ASSERT_FALSE(all_finite(x)) << c10::toString(type) << " " << value << " at " << at;
      }
    }
  }
}

TEST(Finite, LargestAndSmallestNumbersAreFinite) {
  for (const double sign : {1.0, -1.0}) {
    using F = std::numeric_limits<float>;
    using D = std::numeric_limits<double>;
    EXPECT_TRUE(all_finite(torch::tensor({sign * F::max(), sign * F::min(), sign * F::denorm_min(), sign * 0},
                                         torch::kFloat32)));
    EXPECT_TRUE(all_finite(torch::tensor({sign * D::max(), sign * D::min(), sign * D::denorm_min(), sign * 0},
                                         torch::kFloat64)));
    EXPECT_TRUE(all_finite(torch::tensor({sign * 65504, sign * 6e-8, sign * 0}, torch::kFloat16)));
    EXPECT_TRUE(all_finite(torch::tensor({sign * 3.38e38, sign * 1e-40, sign * 0}, torch::kBFloat16)));
  }
}

TEST(Finite, WhateverTheLayout) {
  EXPECT_TRUE(all_finite(torch::Tensor()));
  EXPECT_TRUE(all_finite(torch::zeros({0})));
  EXPECT_TRUE(all_finite(torch::full({3}, INT64_MAX, torch::kInt64)));
  torch::Tensor x = torch::zeros({2, 3, 4, 5});
  const torch::Tensor part = x.narrow(3, 1, 2);  // every other number in memory is not of it
  x.select(3, 0).fill_(NAN);
  EXPECT_TRUE(all_finite(part));
  EXPECT_FALSE(all_finite(x));
  EXPECT_FALSE(all_finite(x.contiguous(torch::MemoryFormat::ChannelsLast)));
  EXPECT_FALSE(all_finite(x.narrow(3, 0, 2)));
  const auto sparse = [](double value) {
    return torch::sparse_coo_tensor(torch::tensor({{1, 3}}), torch::tensor({1.0, value}), {5});
  };
  EXPECT_TRUE(all_finite(sparse(2)));
  EXPECT_FALSE(all_finite(sparse(NAN)));
}

TEST(Finite, NamesTheFirstThatIsNot) {
  const torch::Tensor good = torch::ones({4}), bad = torch::tensor({1.0F, INFINITY, NAN});
  EXPECT_EQ(first_non_finite({{"a", good}, {"b", bad}, {"c", bad}}), "b");
  EXPECT_EQ(first_non_finite({{"a", good}, {"b", {}}}), std::nullopt);
  EXPECT_EQ(describe_non_finite(bad), "2 of 3 values, the first is inf");
}

TEST(Finite, AllOfSeveral) {
  const torch::Tensor good = torch::ones({4}), bad = torch::tensor({1.0F, INFINITY, NAN});
  EXPECT_TRUE(all_finite(std::vector<torch::Tensor>{}));
  EXPECT_TRUE(all_finite({good, torch::Tensor(), torch::tensor({1, 2})}));
  EXPECT_FALSE(all_finite({good, bad}));
  EXPECT_FALSE(all_finite({bad, good}));
}

TEST(Finite, SaysWhatIsWrongWithAStep) {
  const torch::Tensor a = torch::ones({2}, torch::requires_grad()),
                      b = torch::ones({3}, torch::requires_grad());
  const NamedTensors parameters = {{"a", a}, {"b", b}};
  (a.sum() * 2).backward();  // b has no gradient
  EXPECT_EQ(trouble_with(1, parameters), std::nullopt);
  EXPECT_EQ(trouble_with(NAN, parameters), "the loss is nan");
  b.mutable_grad() = torch::tensor({0.0F, NAN, -INFINITY});
  EXPECT_EQ(trouble_with(1, parameters), "the gradient of b is not finite (2 of 3 values, the first is nan)");
  EXPECT_THROW(
      {
        try {
          stop_at_non_finite(3, 17, "the loss is inf");
        } catch (const Error& e) {
          EXPECT_STREQ(e.what(),
                       "rank 3, step 17: the loss is inf; a lower learning rate or clipping may help");
          throw;
        }
      },
      Error);
}

TEST(Finite, PoliciesByName) {
  for (const auto policy : {NonFinite::kStop, NonFinite::kSkip}) {
    EXPECT_EQ(parse_non_finite(to_string(policy)), policy);
  }
  EXPECT_THROW(parse_non_finite("ignore"), InputError);
}

}  // namespace
}  // namespace entrain::optim
