#include "entrain/planner/partial_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace entrain::planner {
namespace {

// What a host with these shares does, and what each direction of its link carries.
struct Load {
  double work = 0, flow = 0, spread = 0;
  bool all_spread = true;
};
Load load_of(const LinkLayers& layers, const std::vector<double>& shares) {
  Load load;
  for (size_t l = 0; l < shares.size(); ++l) {
    load.work += layers.examples * layers.work[l] * shares[l];
    const bool spread = shares[l] > 0 && shares[l] < 1;
    if (spread) load.spread += layers.spread[l];
    load.all_spread = load.all_spread && spread;
    if (l > 0) load.flow += layers.examples * layers.flow[l - 1] * std::abs(shares[l] - shares[l - 1]);
  }
  return load;
}

TEST(PartialWork, IsNeverLessThanWhatAnySharesDoWithTheSameBytes) {
  std::mt19937_64 rng(7);
  const auto uniform = [&](double most) { return std::uniform_real_distribution<>(0, most)(rng); };
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t count = 2 + rng() % 5;
    LinkLayers layers{static_cast<double>(1 + rng() % 100), {}, {}, {}};
    for (size_t l = 0; l < count; ++l) {
      layers.work.push_back(uniform(3));
      layers.spread.push_back(rng() % 3 == 0 ? 0 : uniform(1000));
      if (l > 0) layers.flow.push_back(uniform(10));
    }
    const PartialWork partial(layers);
    for (int j = 0; j < 60; ++j) {
      std::vector<double> shares;
      for (size_t l = 0; l < count; ++l) {
        const bool as_before = l > 0 && rng() % 2 == 0;
        const double options[] = {0, 1, uniform(1), uniform(0.05)};
        shares.push_back(as_before ? shares.back() : options[rng() % 4]);
      }
      const Load load = load_of(layers, shares);
      if (load.all_spread || load.work <= 0 || load.work >= layers.all_work() * (1 - 1e-12)) continue;
      const double bytes = (load.flow + load.spread) * (1 + 1e-9);
      EXPECT_GE(partial.most(load.work, bytes, load.flow * (1 + 1e-9)), load.work * (1 - 1e-9));
      ++checked;
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(PartialWork, IsNothingWithoutBytes) {
  const PartialWork partial({8, {1, 1, 1}, {100, 100, 100}, {5, 5}});
  EXPECT_EQ(partial.most(24, 0, 0), 0);
  EXPECT_EQ(partial.most(24, 1000, -1), 0);
}

TEST(PartialWork, OfOneLayerIsNothingSinceThatIsSpreadOrNot) {
  EXPECT_EQ(PartialWork({8, {3}, {100}, {}}).most(24, 1e9, 1e9), 0);
}

TEST(PartialWork, ACutMustBePaidWhereTheWorkIs) {
  // The cheap cut splits 1 off 9: a host of at most half the work can only do that 1, or pay the dear cut.
  const PartialWork partial({1, {4, 5, 1}, {1e6, 1e6, 1e6}, {1000, 10}});
  EXPECT_NEAR(partial.most(5, 20, 20), 1, 0.2);
  EXPECT_NEAR(partial.most(5, 2000, 2000), 5, 0.2);
  EXPECT_NEAR(partial.most(9.5, 20, 20), 9, 0.2);  // and without that 1
}

TEST(PartialWork, SpreadingSmallLayersCostsTheirBytesAndAPartOfTheFlow) {
  // Layers 0 and 1 have 10 bytes each; half of the examples leave behind them: 10 + 10 + 8 x 2 / 2.
  const PartialWork partial({8, {1, 1, 1}, {10, 10, 1e6}, {3, 2}});
  EXPECT_NEAR(partial.most(8, 28.1, 28.1), 8, 0.3);
  EXPECT_LT(partial.most(8, 15, 15), 7);
}

TEST(PartialWork, IsTheSameInAnyUnitOfBytes) {
  const PartialWork bytes({8, {1, 1, 1}, {10, 10, 1e6}, {3, 2}});
  const PartialWork megabytes({8, {1, 1, 1}, {1e-5, 1e-5, 1}, {3e-6, 2e-6}});
  for (const double total : {0.0, 9.0, 11.0, 14.3, 19.0, 24.7, 31.0}) {
    for (const double part : {1.0, 0.4}) {
      EXPECT_NEAR(bytes.most(8, total, part * total), megabytes.most(8, total * 1e-6, part * total * 1e-6),
                  1e-6)
          << part << " of " << total;
    }
  }
}

TEST(PartialWork, WhatIsSpreadIsPaidEvenWhereExamplesCrossACutForNothing) {
  // Layers 0 and 1 of a quarter of the examples would be 20 bytes of gradients. 15 bytes pay for one layer,
  // and for a fifth of the examples over the dear cut, 10 + 24 x 5 / 24.
  const PartialWork partial({8, {1, 1, 1}, {10, 10, 1e6}, {3, 0.001}});
  EXPECT_NEAR(partial.most(4, 21, 21), 4, 0.2);
  EXPECT_LT(partial.most(4, 15, 15), 3.2);
  EXPECT_GE(partial.most(4, 15, 15), 8 * 5 / 24.0);
}

TEST(PartialWork, RoundsLittleForManyLayers) {
  // Only the cut behind the tenth of forty layers can be paid.
  LinkLayers layers{1, std::vector<double>(40, 1), std::vector<double>(40, 1e6),
                    std::vector<double>(39, 1e6)};
  layers.flow[9] = 10;
  const PartialWork partial(layers);
  EXPECT_NEAR(partial.most(20, 20, 20), 10, 1);
  EXPECT_NEAR(partial.most(35, 20, 20), 30, 1);
  EXPECT_EQ(partial.most(20, 9, 9), 0);
}

TEST(PartialWork, OfLayersThatTakeNoTimeIsNothing) {
  EXPECT_EQ(PartialWork({8, {0, 0}, {1, 1}, {1}}).most(1, 100, 100), 0);
}

}  // namespace
}  // namespace entrain::planner
