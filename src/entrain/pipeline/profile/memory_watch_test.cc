#include "entrain/pipeline/profile/memory_watch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace entrain::pipeline {
namespace {

constexpr int64_t kKB = 1000;

torch::Tensor kilobytes(int64_t count) { return torch::empty({count * kKB}, torch::kByte); }

TEST(MemoryWatch, CountsExactly) {
  const MemoryWatch watch;
  {
    const torch::Tensor a = kilobytes(3);
    EXPECT_EQ(watch.live(), 3 * kKB);
    const torch::Tensor view = a.view({3, kKB});  // takes nothing
    const torch::Tensor b = a.clone();
    EXPECT_EQ(watch.live(), 6 * kKB);
  }
  EXPECT_EQ(watch.live(), 0);
  EXPECT_EQ(watch.peak(), 6 * kKB);
}

TEST(MemoryWatch, WatchesOfDifferentAgesDoNotDisturbEachOther) {
  MemoryWatch first;
  auto a = kilobytes(5);
  {
    MemoryWatch second;
    EXPECT_EQ(second.live(), 0);
    a.reset();
    EXPECT_EQ(second.live(), -5 * kKB);  // of an older tensor
    EXPECT_EQ(second.peak(), 0);
    second.reset_peak();
    EXPECT_EQ(second.peak(), -5 * kKB);
  }
  EXPECT_EQ(first.live(), 0);
  EXPECT_EQ(first.peak(), 5 * kKB);
  first.reset_peak();
  EXPECT_EQ(first.peak(), 0);
}

// Cells of a pipeline are threads: what one makes, another frees.
TEST(MemoryWatch, SeesAllThreads) {
  const MemoryWatch watch;
  torch::Tensor made;
  std::thread([&] { made = kilobytes(7); }).join();
  EXPECT_EQ(watch.live(), 7 * kKB);
  std::thread([taken = std::move(made)]() mutable { taken.reset(); }).join();
  EXPECT_EQ(watch.live(), 0);
}

TEST(MemoryWatch, TensorsWorkAsBefore) {
  const MemoryWatch watch;
  torch::Tensor x = torch::rand({33, 17}, torch::requires_grad());
  torch::mm(x, x.t()).relu().sum().backward();
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data_ptr()) % 64, 0u);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
  torch::Tensor grown = torch::empty({1});
  grown.resize_({1000});
  EXPECT_EQ(grown.numel(), 1000);
}

}  // namespace
}  // namespace entrain::pipeline
