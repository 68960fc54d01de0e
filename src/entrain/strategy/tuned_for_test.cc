#include "entrain/strategy/tuned_for.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "entrain/base/error.h"
#include "entrain/strategy/stored.h"

namespace entrain::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TunedFor job(const char* model, int64_t batch_size, const char* cluster) {
  return tuned_for(model, batch_size, cluster::parse(cluster));
}

TEST(TunedFor, IsInTheFileAndLeavesTheStrategyAsItIs) {
  Strategy strategy;
  strategy.id = "trial-7";
  strategy.variables = {{"w", std::nullopt, {{AllReduce{}, {}}}}};
  const TunedFor tuned = job("bert-small", 2, "lab:1x1gbit+3x100mbit");
  const auto folder = std::filesystem::temp_directory_path();
  for (const char* name : {"entrain-{}.json", "entrain-{}.pb"}) {
    const auto path = folder / fmt::format(fmt::runtime(name), ::getpid());
    save_tuned(strategy, tuned, path);
    EXPECT_EQ(load(path), strategy);
    EXPECT_EQ(load_tuned_for(path), tuned);
    save(strategy, path);
    EXPECT_EQ(load_tuned_for(path), std::nullopt);
    std::filesystem::remove(path);
    EXPECT_THROW(load_tuned_for(path), InputError);
  }
}

TEST(TunedFor, AnotherBatchSizeModelOrClusterIsADifference) {
  const TunedFor tuned = job("bert-small", 2, "lab:1x1gbit+3x100mbit");
  EXPECT_THAT(differences(tuned, tuned), IsEmpty());
  EXPECT_THAT(differences(tuned, job("bert-small", 32, "lab:1x1gbit+3x100mbit")),
              ElementsAre("batch size 2, here 32"));
  EXPECT_THAT(differences(tuned, job("lstm", 2, "lab:4x1gbit")),
              ElementsAre("model bert-small, here lstm", "cluster lab:1x1gbit+3x100mbit, here lab:4x1gbit"));
}

TEST(TunedFor, TheSameHostsUnderAnotherNameAreNoDifference) {
  EXPECT_THAT(differences(job("m.pt", 2, "lab:4x1gbit"), job("/tmp/m.pt", 2, "lab:1x1gbit+3x1gbit")),
              IsEmpty());
  EXPECT_EQ(job("m", 2, "lab:2x2.5gbit/ranks=2+1x300mbit/server").hosts,
            "2x2.5gbit/ranks=2+1x300mbit/server");
  EXPECT_EQ(job("m", 2, "lab:2x1gbit/speed=0.5+1x999mbit/ranks=3+1x1gbit/ranks=1").hosts,
            "2x1gbit/speed=0.5+1x999mbit/ranks=3+1x1gbit");
  EXPECT_EQ(differences(job("m", 2, "local:2"), job("m", 2, "local:4")).size(), 1u);
}

}  // namespace
}  // namespace entrain::strategy
