#include "entrain/pipeline/plan/partition.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

// Integer costs (their sums are exact, so are comparisons), a tenth of them 0, a few large.
std::vector<double> random_costs(std::mt19937* random, int layers) {
  std::vector<double> costs(layers);
  for (auto& c : costs) {
    const unsigned kind = (*random)() % 10;
    c = kind == 0 ? 0 : kind == 1 ? (*random)() % 1000 : (*random)() % 100;
  }
  return costs;
}

double largest(const std::vector<double>& costs, const std::vector<int>& balance,
               const std::vector<double>& speed = {}) {
  const auto sums = cell_costs(costs, balance);
  double most = 0;
  for (size_t k = 0; k < sums.size(); ++k) most = std::max(most, sums[k] / (speed.empty() ? 1 : speed[k]));
  return most;
}

double squares(const std::vector<double>& costs, const std::vector<int>& balance,
               const std::vector<double>& speed = {}) {
  const auto sums = cell_costs(costs, balance);
  double sum = 0;
  for (size_t k = 0; k < sums.size(); ++k) sum += std::pow(sums[k] / (speed.empty() ? 1 : speed[k]), 2);
  return sum;
}

void expect_valid(const std::vector<int>& balance, int layers, int cells) {
  EXPECT_EQ(static_cast<int>(balance.size()), cells);
  EXPECT_EQ(std::accumulate(balance.begin(), balance.end(), 0), layers);
  EXPECT_GE(*std::min_element(balance.begin(), balance.end()), 1);
}

void for_all_partitions(int layers, int cells, const std::function<void(const std::vector<int>&)>& f,
                        std::vector<int> head = {}) {
  if (static_cast<int>(head.size()) == cells - 1) {
    head.push_back(layers);
    return f(head);
  }
  const int after = cells - static_cast<int>(head.size()) - 1;
  for (int first = 1; first <= layers - after; ++first) {
    auto longer = head;
    longer.push_back(first);
    for_all_partitions(layers - first, cells, f, longer);
  }
}

int64_t worst_excess(const std::vector<int>& balance, const MinMaxOptions& options) {
  int64_t worst = std::numeric_limits<int64_t>::min();
  int first = 0;
  for (int k = 0; k < static_cast<int>(balance.size()); ++k) {
    worst = std::max(worst, options.memory(first, first + balance[k] - 1, k) - options.memory_limit[k]);
    first += balance[k];
  }
  return worst;
}

TEST(Partition, NeverWorseThanTheOthersOnAThousandRandomSequences) {
  std::mt19937 random(5);
  int better_than_variance = 0, better_than_block = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 60);
    const int cells = 1 + static_cast<int>(random() % std::min(layers, 12));
    const auto costs = random_costs(&random, layers);
    const auto best = min_max(costs, cells);
    const auto variance = min_variance(costs, cells);
    const auto block = block_partition(costs, cells);
    for (const auto& balance : {best.balance, variance, block}) expect_valid(balance, layers, cells);
    EXPECT_EQ(best.max_time, largest(costs, best.balance));
    EXPECT_LE(best.max_time, largest(costs, variance));
    EXPECT_LE(best.max_time, largest(costs, block));
    EXPECT_LE(squares(costs, variance), squares(costs, best.balance));
    better_than_variance += best.max_time < largest(costs, variance);
    better_than_block += best.max_time < largest(costs, block);
  }
  std::cout << fmt::format("min_max is strictly better than min_variance in {}, than block in {} of 1000\n",
                           better_than_variance, better_than_block);
}

// Calls f with every sequence of these costs.
void for_all_costs(int layers, const std::vector<double>& values,
                   const std::function<void(const std::vector<double>&)>& f, std::vector<double> head = {}) {
  if (static_cast<int>(head.size()) == layers) return f(head);
  for (const double value : values) {
    auto longer = head;
    longer.push_back(value);
    for_all_costs(layers, values, f, longer);
  }
}

TEST(BlockPartition, LeavesNoCellEmptyThoughLayersCostNothing) {
  for (int layers = 1; layers <= 6; ++layers) {
    for (int cells = 1; cells <= layers; ++cells) {
      for_all_costs(layers, {0, 1, 5},
                    [&](const auto& costs) { expect_valid(block_partition(costs, cells), layers, cells); });
    }
  }
}

TEST(BlockPartition, TheLargestCellExceedsTheSmallestByAtMostOneLayer) {
  for (int layers = 1; layers <= 7; ++layers) {
    for (int cells = 1; cells <= layers; ++cells) {
      for_all_costs(layers, {1, 2, 5}, [&](const auto& costs) {
        const auto sums = cell_costs(costs, block_partition(costs, cells));
        const auto [least, most] = std::minmax_element(sums.begin(), sums.end());
        EXPECT_LE(*most - *least, *std::max_element(costs.begin(), costs.end()));
      });
    }
  }
}

TEST(Partition, EqualsBruteForce) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 10);
    const int cells = 1 + static_cast<int>(random() % layers);
    const auto costs = random_costs(&random, layers);
    MinMaxOptions options;
    if (trial % 2 == 1) {
      for (int k = 0; k < cells; ++k) options.speed.push_back(std::exp2(static_cast<int>(random() % 5) - 2));
    }
    double best = std::numeric_limits<double>::infinity(), best_squares = best, least_variance = best;
    for_all_partitions(layers, cells, [&](const std::vector<int>& balance) {
      const double time = largest(costs, balance, options.speed);
      const double square = squares(costs, balance, options.speed);
      if (time < best || (time == best && square < best_squares)) best_squares = square;
      best = std::min(best, time);
      least_variance = std::min(least_variance, squares(costs, balance));
    });
    const auto result = min_max(costs, cells, options);
    expect_valid(result.balance, layers, cells);
    EXPECT_EQ(largest(costs, result.balance, options.speed), best);
    EXPECT_EQ(squares(costs, result.balance, options.speed), best_squares);
    EXPECT_EQ(squares(costs, min_variance(costs, cells)), least_variance);
  }
}

// Layers' own bytes add up; a cell also keeps its input, once for each micro-batch in flight.
TEST(Partition, EqualsBruteForceWithAMemoryLimit) {
  std::mt19937 random(7);
  int infeasible = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 10);
    const int cells = 1 + static_cast<int>(random() % layers);
    const auto costs = random_costs(&random, layers);
    std::vector<int64_t> bytes(layers), input(layers);
    for (auto& b : bytes) b = random() % 100;
    for (auto& b : input) b = random() % 30;
    MinMaxOptions options;
    options.memory = [&](int first, int last, int cell) {
      const int64_t in_flight = cells - cell;
      return std::accumulate(bytes.begin() + first, bytes.begin() + last + 1, in_flight * input[first]);
    };
    for (int k = 0; k < cells; ++k) {
      options.speed.push_back(std::exp2(static_cast<int>(random() % 3) - 1));
      options.memory_limit.push_back(80 + static_cast<int>(random() % 250));
    }
    double best = std::numeric_limits<double>::infinity();
    int64_t shortfall = std::numeric_limits<int64_t>::max();
    for_all_partitions(layers, cells, [&](const std::vector<int>& balance) {
      const int64_t excess = worst_excess(balance, options);
      shortfall = std::min(shortfall, excess);
      if (excess <= 0) best = std::min(best, largest(costs, balance, options.speed));
    });
    const auto result = min_max(costs, cells, options);
    expect_valid(result.balance, layers, cells);
    EXPECT_EQ(result.fits(), shortfall <= 0);
    if (result.fits()) {
      EXPECT_EQ(result.max_time, best);
      EXPECT_LE(worst_excess(result.balance, options), 0);
    } else {
      ++infeasible;
      EXPECT_EQ(result.shortfall_bytes, shortfall);
      EXPECT_FALSE(can_fit(layers, cells, options, shortfall - 1));
      EXPECT_TRUE(can_fit(layers, cells, options, shortfall));
      EXPECT_EQ(worst_excess(result.balance, options), shortfall);
    }
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 280);
}

// Cumulative shares, as some implementations cut, leave the cells after a large layer empty.
TEST(Partition, NoCellIsEmptyWhereCostsAreZeroOrOneIsLarge) {
  EXPECT_THAT(min_max({100, 0, 0, 0}, 4).balance, ElementsAre(1, 1, 1, 1));
  for (const auto& costs : {std::vector<double>(8, 0), {0, 0, 0, 0, 0, 0, 0, 9}, {9, 0, 0, 0, 0, 0, 0, 0}}) {
    for (int cells = 1; cells <= 8; ++cells) {
      expect_valid(min_max(costs, cells).balance, 8, cells);
      expect_valid(min_variance(costs, cells), 8, cells);
      expect_valid(block_partition(costs, cells), 8, cells);
    }
  }
}

TEST(Partition, OfRealCosts) {
  std::mt19937 random(8);
  std::lognormal_distribution<double> cost(-8, 1.5);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> costs(40);
    for (auto& c : costs) c = cost(random);
    const auto best = min_max(costs, 7);
    const double rounding = 1 + 1e-12;
    EXPECT_LE(best.max_time, largest(costs, min_variance(costs, 7)) * rounding);
    EXPECT_LE(best.max_time, largest(costs, block_partition(costs, 7)) * rounding);
  }
}

TEST(Partition, TiesGoToTheEvenOne) {
  EXPECT_THAT(min_max({8, 1, 1, 1, 1, 1, 1}, 3).balance, ElementsAre(1, 3, 3));
}

TEST(Partition, AFastDeviceTakesMore) {
  MinMaxOptions options;
  options.speed = {1, 3};
  EXPECT_THAT(min_max(std::vector<double>(8, 1), 2, options).balance, ElementsAre(2, 6));
}

TEST(Partition, ErrorsNameWhatIsAllowed) {
  EXPECT_THAT(message_of([] { min_max({1, 2}, 3); }), AllOf(HasSubstr("cells 3"), HasSubstr("2 layers")));
  EXPECT_THAT(message_of([] { min_variance({1, 2}, 3); }), HasSubstr("2 layers"));
  EXPECT_THAT(message_of([] { block_partition({1, 2}, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(message_of([] { min_max({1, -2}, 2); }), HasSubstr("layer 1 is -2"));
  MinMaxOptions options;
  options.speed = {1, 0};
  EXPECT_THAT(message_of([&] { min_max({1, 2}, 2, options); }), HasSubstr("speed 0"));
}

TEST(Balance, IsTheUsers) {
  EXPECT_THAT(parse_balance("3,5,4", 12, 3), ElementsAre(3, 5, 4));
  EXPECT_THAT(message_of([] { parse_balance("3,5,4", 13, 3); }), AllOf(HasSubstr("12"), HasSubstr("13")));
  EXPECT_THAT(message_of([] { parse_balance("3,9", 12, 3); }), HasSubstr("2 cells, must be 3"));
  for (const char* text : {"3,0,9", "3,x,9", "", "3,,9", "3,9,", "3,-1,10", "3.5,4,4", "99999999999,1,1"}) {
    EXPECT_THAT(message_of([&] { parse_balance(text, 12, 3); }), HasSubstr("whole number")) << text;
  }
}

// A figure, not a condition: the goal is 100 ms (of processor time, so that neighbours do not count).
TEST(Partition, TimeOfAThousandLayersInSixtyFourCells) {
  std::mt19937 random(9);
  std::lognormal_distribution<double> cost(0, 1);
  std::vector<double> costs(1000);
  for (auto& c : costs) c = cost(random);
  std::vector<double> prefix(1001, 0);
  std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
  MinMaxOptions limited;
  limited.memory = [&](int first, int last, int) {
    return static_cast<int64_t>(prefix[last + 1] - prefix[first]);
  };
  limited.memory_limit.assign(64, static_cast<int64_t>(prefix.back() / 40));
  MinMaxOptions infeasible = limited;
  infeasible.memory_limit.assign(64, static_cast<int64_t>(prefix.back() / 80));
  const auto report = [](const char* what, const std::function<void()>& call) {
    const std::clock_t begin = std::clock();
    call();
    std::cout << fmt::format("{:32} {:6.1f} ms\n", what,
                             1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  };
  report("min_max", [&] { min_max(costs, 64); });
  report("min_max, memory limit", [&] { EXPECT_TRUE(min_max(costs, 64, limited).fits()); });
  report("min_max, limit cannot be met", [&] { EXPECT_FALSE(min_max(costs, 64, infeasible).fits()); });
  report("min_max, all costs 0", [&] { min_max(std::vector<double>(1000, 0), 64); });
  report("min_variance", [&] { min_variance(costs, 64); });
  report("block_partition", [&] { block_partition(costs, 64); });
}

}  // namespace
}  // namespace entrain::pipeline
