#include "launcher/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "entrain/base/error.h"

namespace entrain::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::vector<int>> split(const std::string& cluster, int cores) {
  std::vector<int> all(static_cast<size_t>(cores));
  std::iota(all.begin(), all.end(), 10);
  return cores_by_host(cluster::parse(cluster), all);
}

TEST(Cores, ManyAreSharedOutAmongTheHosts) {
  EXPECT_THAT(split("lab:2x1gbit+1x1gbit/server", 7),
              ElementsAre(ElementsAre(10, 11), ElementsAre(12, 13), ElementsAre(14, 15)));
}

TEST(Cores, FewAreUsedByAllHosts) {
  EXPECT_THAT(split("lab:4x1gbit", 2), IsEmpty());
  EXPECT_THAT(split("lab:4x1gbit", 7), IsEmpty());
}

TEST(Cores, AHostGetsAsManyAsItsCpusSay) {
  EXPECT_THAT(split("lab:1x1gbit/cpus=1+1x1gbit/cpus=2", 3),
              ElementsAre(ElementsAre(10), ElementsAre(11, 12)));
  EXPECT_THAT(split("lab:1x1gbit/cpus=1+2x1gbit", 5),
              ElementsAre(ElementsAre(10), ElementsAre(11, 12), ElementsAre(13, 14)));
  EXPECT_THAT(split("lab:1x1gbit/cpus=1+2x1gbit", 3),
              ElementsAre(ElementsAre(10), ElementsAre(11), ElementsAre(12)));
}

TEST(Cores, MoreCpusThanThereAreAreRefused) {
  for (const auto& [cluster, cores] :
       {std::pair{"lab:4x1gbit/cpus=1", 3}, {"lab:1x1gbit/cpus=2+1x1gbit", 2}}) {
    try {
      split(cluster, cores);
      ADD_FAILURE() << cluster;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr(fmt::format("this machine {}", cores)));
    }
  }
}

TEST(Cores, AreSaid) {
  EXPECT_EQ(describe_cores(split("lab:2x1gbit", 8)), "4 cores per host");
  EXPECT_EQ(describe_cores(split("lab:2x1gbit/cpus=1", 2)), "1 core per host");
  EXPECT_EQ(describe_cores(split("lab:1x1gbit/cpus=1+1x1gbit", 5)), "1, 4 cores");
  EXPECT_EQ(describe_cores({}), "");
}

TEST(Cores, ThisProcessHasOne) { EXPECT_FALSE(usable_cores().empty()); }

}  // namespace
}  // namespace entrain::app
