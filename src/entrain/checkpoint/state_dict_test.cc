#include "entrain/checkpoint/state_dict.h"

#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/models/registry.h"
#include "support/temp_dir.h"

namespace entrain::checkpoint {
namespace {

TEST(StateDict, GoesOutAndInAndRefusesAnotherModels) {
  const test::TempDir dir;
  const auto path = dir.path() / "s.safetensors";
  const auto a = models::make_model("resnet20-small", 1), b = models::make_model("resnet20-small", 2);
  a->buffers()[0].fill_(3);
  save_state_dict(*a, path);
  load_state_dict(*b, path);
  const auto want = a->state(), got = b->state();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(torch::equal(want[i].second, got[i].second)) << want[i].first;
  EXPECT_THROW(load_state_dict(*models::make_model("cnn7-small", 1), path), InputError);
}

}  // namespace
}  // namespace entrain::checkpoint
