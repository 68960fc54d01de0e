#include "launcher/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "entrain/base/error.h"

namespace entrain::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Capacity, AFewRanksPerCoreNeedNoWord) {
  EXPECT_EQ(check_capacity(cluster::parse("lab:16x1gbit"), {2, 8e9}), "");
  EXPECT_EQ(check_capacity(cluster::parse("local:4"), {1, 0}), "");
}

TEST(Capacity, ManyRanksAreWarnedOfWithCoresAndMemory) {
  EXPECT_THAT(check_capacity(cluster::parse("lab:40x1gbit"), {2, 8e9}),
              AllOf(HasSubstr("40 ranks share 2 cores"), HasSubstr("8.0 GB"), HasSubstr("20x as long")));
}

TEST(Capacity, FarTooManyRanksForCoresOrMemoryAreRefusedUnlessAskedFor) {
  const auto cluster = cluster::parse("lab:300x1gbit");
  for (const Machine& machine : {Machine{2, 64e9}, Machine{64, 8e9}}) {
    try {
      check_capacity(cluster, machine);
      ADD_FAILURE() << machine.cores;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("300 ranks are too many"), HasSubstr("ENTRAIN_OVERCOMMIT=1")));
    }
  }
  EXPECT_EQ(check_capacity(cluster, {64, 64e9}), "");
  ::setenv("ENTRAIN_OVERCOMMIT", "1", 1);
  EXPECT_THAT(check_capacity(cluster, {2, 8e9}), HasSubstr("300 ranks share 2 cores"));
  ::unsetenv("ENTRAIN_OVERCOMMIT");
}

TEST(Capacity, RealHostsAreNotJudgedFromHere) {
  cluster::Cluster cluster = cluster::parse("lab:300x1gbit");
  cluster.kind = cluster::Kind::kHosts;
  EXPECT_EQ(check_capacity(cluster, {1, 1e9}), "");
}

TEST(Capacity, KnowsThisMachine) {
  EXPECT_GE(this_machine().cores, 1);
  EXPECT_GT(this_machine().free_bytes, 0);
}

}  // namespace
}  // namespace entrain::app
