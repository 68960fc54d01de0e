// Counts, noise and splits of a data set, and its table.
#include "entrain/dataset/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "entrain/base/error.h"
#include "entrain/dataset/csv.h"
#include "entrain/dataset/split.h"
#include "entrain/dataset/testing.h"
#include "entrain/dataset/visits.h"

namespace entrain::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_domain;

Dataset three_domains() {
  return {{small_domain("ncf", "lab:4x1gbit"), small_domain("vgg16", "lab:4x1gbit"),
           small_domain("vgg16", "lab:2x1gbit")}};
}

// As many trials as asked for, all of different strategies.
Domain many(const std::string& model, int count) {
  Domain domain = small_domain(model, "lab:4x1gbit");
  const Trial pattern = domain.trials[0];
  domain.trials.clear();
  for (int i = 0; i < count; ++i) {
    domain.trials.push_back(pattern);
    domain.trials.back().number = i;
    domain.trials.back().strategy.variables[1].parts[0].priority = i;
  }
  return domain;
}

std::set<int> numbers(const Dataset& part, const std::string& domain) {
  std::set<int> result;
  if (const Domain* d = part.find(domain)) {
    for (const Trial& trial : d->trials) result.insert(trial.number);
  }
  return result;
}

TEST(Stats, CountsRecordsModelsClustersAndStatuses) {
  const Stats s = stats(three_domains());
  EXPECT_EQ(s.records, 30u);
  EXPECT_THAT(s.models, ElementsAre("ncf", "vgg16"));
  EXPECT_THAT(s.clusters, ElementsAre("lab:2x1gbit", "lab:4x1gbit"));
  EXPECT_EQ(s.statuses.at("ok"), 27u);
  EXPECT_EQ(s.statuses.at("failed"), 3u);
  ASSERT_EQ(s.domains.size(), 3u);
  EXPECT_EQ(s.domains[2].workers, 2);
  EXPECT_NEAR(*s.domains[0].least_s, 0.1 * (1 / 3.0 + 1 / 2.9 + 1 / 2.8) / 3, 1e-12);
  EXPECT_NEAR(*s.domains[0].largest_s, 0.18 * (1 / 3.0 + 1 / 2.9 + 1 / 2.8) / 3, 1e-12);
}

TEST(Stats, NoiseIsMeasuredWithinTrialsAndBetweenRepeats) {
  Domain domain = many("ncf", 3);
  domain.trials[0].seconds = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
  domain.trials[1].seconds = {0.9, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.1, 1.1};
  domain.trials[2].seconds = {0.8, 1.3};  // too few steps for a spread
  Trial repeat = domain.trials[2];
  repeat.number = 3;
  repeat.strategy.id = "again, under another name";
  repeat.seconds = {0.95};
  domain.trials.push_back(repeat);
  const Noise noise = stats({{domain}}).domains[0].noise;
  EXPECT_EQ(noise.trials, 2u);
  EXPECT_NEAR(noise.within, 0.1, 1e-12) << "the median of 0 and 0.2";
  EXPECT_EQ(noise.repeated, 1u);
  EXPECT_NEAR(noise.between, 0.1, 1e-12);
}

TEST(Stats, NoiseOfSeveralDomainsIsTheirMedian) {
  Domain a = many("ncf", 2), b = many("vgg16", 3);
  for (Domain* d : {&a, &b}) {
    for (size_t i = 0; i < d->trials.size(); ++i) d->trials[i].strategy = d->trials[0].strategy;
  }
  a.trials[0].seconds = {1, 1, 1};
  a.trials[1].seconds = {3, 3};
  b.trials[0].seconds = {1, 2, 3};
  b.trials[1].seconds = {4};
  b.trials[2].seconds = {6};
  const Stats s = stats({{a, b}});
  EXPECT_EQ(s.domains[0].strategies, 1u);
  EXPECT_EQ(s.domains[0].noise.trials, 1u);
  EXPECT_DOUBLE_EQ(s.domains[0].noise.between, 1);                     // 1 and 3
  EXPECT_DOUBLE_EQ(s.domains[0].noise.between_std, std::sqrt(2) / 2);  // around 2
  EXPECT_DOUBLE_EQ(s.domains[1].noise.within, 0.8);                    // 1.2 to 2.8 around 2
  EXPECT_DOUBLE_EQ(s.domains[1].noise.between, 1);                     // 2, 4 and 6
  EXPECT_DOUBLE_EQ(s.domains[1].noise.between_std, 2 / 4.0);
  EXPECT_EQ(s.noise.trials, 2u);
  EXPECT_DOUBLE_EQ(s.noise.within, 0.4);
  EXPECT_EQ(s.noise.repeated, 2u);
  EXPECT_DOUBLE_EQ(s.noise.between_std, (std::sqrt(2) / 2 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(*s.domains[1].least_s, 2);
  EXPECT_DOUBLE_EQ(*s.domains[1].median_s, 4);
  EXPECT_DOUBLE_EQ(*s.domains[1].largest_s, 6);
  EXPECT_EQ(s.domains[1].origins.at("builder"), 3u);
  EXPECT_EQ(s.domains[1].hosts, 4);
  EXPECT_EQ(s.domains[1].variables, 3);
}

TEST(Visits, OfOneStrategyThatFailedBeforeAreGood) {
  Domain domain = many("ncf", 1);
  domain.trials[0].status = Status::kFailed;
  domain.trials[0].seconds = {9.0};
  domain.trials[0].error = "lost";
  Trial good = many("ncf", 1).trials[0];
  good.seconds = {1.0, 2.0};
  domain.trials.push_back(good);
  const Domain joined = join_visits({{domain}}).domains[0];
  ASSERT_EQ(joined.trials.size(), 1u);
  EXPECT_TRUE(joined.trials[0].ok());
  EXPECT_THAT(joined.trials[0].seconds, ElementsAre(1.0, 2.0));
  EXPECT_EQ(joined.trials[0].error, "");
}

TEST(Visits, OfOneStrategyAreOneTrialWithAMedianEach) {
  Domain domain = many("ncf", 3);
  domain.trials[0].seconds = {1.0, 1.1, 9.0};
  domain.trials[2].status = Status::kDeadline;
  Trial again = domain.trials[0];
  again.number = 3;
  again.strategy.id = "again, under another name";
  again.origin = "repeat";
  again.seconds = {1.3};
  domain.trials.push_back(again);
  again.number = 4;
  again.status = Status::kFailed;  // a visit that went wrong says nothing
  domain.trials.push_back(again);
  const Domain joined = join_visits({{domain}}).domains[0];
  ASSERT_EQ(joined.trials.size(), 3u);
  EXPECT_THAT(joined.trials[0].seconds, ElementsAre(1.0, 1.1, 9.0, 1.3));
  EXPECT_EQ(joined.trials[0].origin, domain.trials[0].origin);
  EXPECT_FALSE(joined.trials[2].ok());
}

TEST(Stats, DomainWithoutAGoodTrialHasNoTimes) {
  Domain domain = many("ncf", 1);
  domain.trials[0].status = Status::kDeadline;
  const Stats s = stats({{domain}});
  EXPECT_FALSE(s.domains[0].median_s.has_value());
  EXPECT_EQ(s.statuses.at("deadline"), 1u);
}

TEST(Split, CutsEachDomainInSharesAndLosesNothing) {
  const Dataset dataset{{many("ncf", 100), many("vgg16", 40)}};
  const Parts parts = split(dataset, {});
  EXPECT_EQ(numbers(parts.training, dataset.domains[0].name).size(), 70u);
  EXPECT_EQ(numbers(parts.validation, dataset.domains[0].name).size(), 15u);
  EXPECT_EQ(numbers(parts.test, dataset.domains[1].name).size(), 6u);
  EXPECT_EQ(parts.training.records() + parts.validation.records() + parts.test.records(), 140u);
  std::set<int> all;
  for (const Dataset* part : {&parts.training, &parts.validation, &parts.test}) {
    all.merge(numbers(*part, dataset.domains[0].name));
  }
  EXPECT_EQ(all.size(), 100u);
}

TEST(Split, SameSeedSameParts) {
  const Dataset dataset{{many("ncf", 50)}};
  const std::string name = dataset.domains[0].name;
  SplitOptions options;
  const auto first = numbers(split(dataset, options).test, name);
  EXPECT_EQ(numbers(split(dataset, options).test, name), first);
  options.seed = 1;
  EXPECT_NE(numbers(split(dataset, options).test, name), first);
}

TEST(Split, RepeatsOfAStrategyStayTogether) {
  Domain domain = many("ncf", 20);
  for (int i = 0; i < 20; ++i) {
    domain.trials.push_back(domain.trials[i]);
    domain.trials.back().number = 20 + i;
  }
  const Parts parts = split({{domain}}, {});
  for (const Dataset* part : {&parts.training, &parts.validation, &parts.test}) {
    const auto there = numbers(*part, domain.name);
    for (const int number : there) EXPECT_TRUE(there.contains((number + 20) % 40)) << number;
  }
}

TEST(Split, HeldOutModelsAndClustersAreOnlyTested) {
  SplitOptions options;
  options.hold_out_models = {"ncf"};
  const Parts by_model = split(three_domains(), options);
  ASSERT_EQ(by_model.test.domains.size(), 1u);
  EXPECT_EQ(by_model.test.domains[0].name, "ncf@lab:4x1gbit");
  EXPECT_EQ(by_model.training.records() + by_model.validation.records(), 20u);

  options.hold_out_models.clear();
  options.hold_out_clusters = {"lab:4x1gbit"};
  EXPECT_EQ(split(three_domains(), options).test.records(), 20u);

  options.hold_out_clusters = {"lab:9x1gbit"};
  try {
    split(three_domains(), options);
    FAIL() << "an unknown cluster was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("lab:9x1gbit, allowed: lab:2x1gbit, lab:4x1gbit"));
  }
}

// What the others hold is shared in the proportion of training and validation: 70 to 15 of 34 are 28 and 6.
TEST(Split, WithAHeldOutDomainTheOthersAreNotTested) {
  const Dataset dataset{{many("ncf", 34), many("vgg16", 10)}};
  SplitOptions options;
  options.hold_out_domains = {dataset.domains[1].name};
  const Parts parts = split(dataset, options);
  EXPECT_EQ(parts.training.records(), 28u);
  EXPECT_EQ(parts.validation.records(), 6u);
  EXPECT_EQ(numbers(parts.test, dataset.domains[1].name).size(), 10u);
  EXPECT_EQ(parts.test.domains.size(), 1u);
}

// The shipped results name their parts by seed, so a seed must mean the same for ever.
TEST(Split, IsTheSameEverywhere) {
  const Dataset dataset{{many("ncf", 10)}};
  SplitOptions options;
  options.seed = 3;
  const Parts parts = split(dataset, options);
  const std::string name = dataset.domains[0].name;
  EXPECT_THAT(numbers(parts.test, name), ElementsAre(0));
  EXPECT_THAT(numbers(parts.validation, name), ElementsAre(1, 7));
  for (const Domain& domain : parts.training.domains) {
    for (size_t i = 1; i < domain.trials.size(); ++i) {
      EXPECT_LT(domain.trials[i - 1].number, domain.trials[i].number);
    }
  }
}

TEST(Split, SharesMustBeShares) {
  SplitOptions all;
  all.training = 1;
  all.validation = 0;
  EXPECT_EQ(split(three_domains(), all).training.records(), 30u);
  all.training = 0.5;
  all.validation = 0.5;
  EXPECT_EQ(split(three_domains(), all).test.records(), 0u);
  all.training = 0;
  EXPECT_THROW(split(three_domains(), all), InputError);
  all.training = 0.5;
  all.validation = -0.1;
  EXPECT_THROW(split(three_domains(), all), InputError);
  SplitOptions options;
  options.training = 0.9;
  options.validation = 0.2;
  EXPECT_THROW(split(three_domains(), options), InputError);
}

TEST(Csv, HasALineATrialAndQuotesWhatNeedsIt) {
  Domain domain = small_domain("ncf", "lab:4x1gbit");
  domain.trials.resize(1);
  domain.trials[0].seconds = {0.5};
  domain.trials[0].strategy.id = "a,\"b\"";
  Trial failed = domain.trials[0];
  failed.number = 1;
  failed.strategy.id = "c";
  failed.status = Status::kFailed;
  domain.trials.push_back(failed);
  EXPECT_EQ(to_csv({{domain}}),
            "domain,trial,id,origin,status,seconds\n"
            "ncf@lab:4x1gbit,0,\"a,\"\"b\"\"\",builder,ok,0.5\n"
            "ncf@lab:4x1gbit,1,c,builder,failed,\n");
}

}  // namespace
}  // namespace entrain::dataset
