#include "entrain/base/suggest.h"

#include <gtest/gtest.h>

namespace entrain {
namespace {

TEST(Suggest, FindsTheNameThatWasMeant) {
  const std::vector<std::string> known = {"ps", "allreduce", "partitioned-ps", "byteps", "ddp"};
  EXPECT_EQ(nearest_name("alreduce", known), "allreduce");
  EXPECT_EQ(nearest_name("all-reduce", known), "allreduce");
  EXPECT_EQ(nearest_name("part", known), "partitioned-ps");
  EXPECT_EQ(nearest_name("dpd", known), "ddp");
  EXPECT_EQ(nearest_name("horovod", known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Suggest, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(did_you_mean("trian", {"train", "tune"}), "; did you mean train?");
  EXPECT_EQ(did_you_mean("nosuch", {"train", "tune"}), "");
}

}  // namespace
}  // namespace entrain
