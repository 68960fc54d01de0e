#include "entrain/job/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "entrain/base/error.h"
#include "entrain/parallel/server.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using ::testing::HasSubstr;

// With a host that only serves, and without.
void on_workers(const std::function<void(job::Context&)>& body) {
  for (const char* cluster : {"local:1", "local:3", "lab:3x1gbit+1x1gbit/server"}) {
    testing::run_job(cluster, [&](job::Context& context) {
      if (context.trains()) return body(context);
      serve(context);
    });
  }
}

TEST(Collectives, SumsMeansAndExtremesAreTheSameEverywhere) {
  on_workers([](job::Context& context) {
    const double n = context.workers(), rank = context.rank();
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16}) {
      for (const int64_t size : {1, 5, 100001}) {  // small ones by way of rank 0, large ones by a ring
        const auto own = torch::full({size}, rank + 1, type);
        const auto expect = [&](job::Reduce how, double value) {
          const auto result = job::all_reduce(context, own, how);
          EXPECT_EQ(result.scalar_type(), type);
          EXPECT_TRUE(torch::equal(result, torch::full({size}, value, type)))
              << static_cast<int>(how) << " " << size;
        };
        expect(job::Reduce::kSum, n * (n + 1) / 2);
        expect(job::Reduce::kMean, (n + 1) / 2);
        expect(job::Reduce::kMin, 1);
        expect(job::Reduce::kMax, n);
      }
    }
    const int64_t large = (int64_t{1} << 60) + context.rank();  // not a float64
    EXPECT_EQ(job::all_reduce(context, torch::tensor(large), job::Reduce::kMax).item<int64_t>(),
              (int64_t{1} << 60) + context.workers() - 1);
    EXPECT_DOUBLE_EQ(job::mean(context, rank), (n - 1) / 2);
    EXPECT_FLOAT_EQ(job::mean(context, torch::tensor(rank).requires_grad_() * 2).item<float>(), n - 1);
  });
}

TEST(Collectives, WhatIsReducedIsLeftAsItIs) {
  on_workers([](job::Context& context) {
    const auto own = torch::full({100001}, 1.0 + context.rank());
    job::all_reduce(context, own);
    EXPECT_EQ(own[7].item<double>(), 1.0 + context.rank());
  });
}

TEST(Collectives, GatheredTensorsMayDifferInShape) {
  on_workers([](job::Context& context) {
    const auto all =
        job::all_gather(context, torch::full({context.rank(), 2}, context.rank(), torch::kInt32));
    ASSERT_EQ(all.size(), static_cast<size_t>(context.workers()));
    for (int rank = 0; rank < context.workers(); ++rank) {
      EXPECT_TRUE(torch::equal(all[rank], torch::full({rank, 2}, rank, torch::kInt32)));
    }
  });
}

TEST(Collectives, BroadcastWritesRankZerosValuesInPlaceWhateverTheLayout) {
  on_workers([](job::Context& context) {
    const auto value = [](double of) { return torch::arange(24, torch::kFloat32).view({1, 2, 3, 4}) + of; };
    auto plain = value(context.rank()), transposed = value(context.rank()).transpose(1, 3);
    auto odd = torch::full({3}, context.rank(), torch::kInt8);
    job::broadcast(context, {plain, transposed, odd});
    EXPECT_TRUE(torch::equal(plain, value(0)));
    EXPECT_TRUE(torch::equal(transposed, value(0).transpose(1, 3)));
    EXPECT_TRUE(torch::equal(odd, torch::zeros({3}, torch::kInt8)));
    job::broadcast(context, std::vector<torch::Tensor>{});
  });
}

TEST(Collectives, OneWorkerIsEnoughForAnyAndAllAreNeededForAll) {
  on_workers([](job::Context& context) {
    const bool last = context.rank() == context.workers() - 1;
    EXPECT_TRUE(job::any(context, last));
    EXPECT_FALSE(job::any(context, false));
    EXPECT_TRUE(job::all(context, true));
    EXPECT_EQ(job::all(context, last), context.workers() == 1);
  });
}

TEST(Collectives, OthersWaitForRankZerosBlockAndForTheBarrier) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> done = false;
    std::atomic<int> here = 0;
    testing::run_job("local:3", [&](job::Context& context) {
      job::on_rank_0(context, [&] {
        EXPECT_EQ(context.rank(), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        done = true;
      });
      EXPECT_TRUE(done);
      ++here;
      job::barrier(context);
      EXPECT_EQ(here, 3);
    });
  }
}

TEST(Collectives, AFailureInRankZerosBlockReachesAll) {
  std::atomic<int> told = 0;
  testing::run_job("local:3", [&](job::Context& context) {
    try {
      job::on_rank_0(context, [] { throw Error("the disk is full"); });
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("the disk is full"));
      ++told;
    }
  });
  EXPECT_EQ(told, 3);
}

TEST(Collectives, ShapesThatDifferAreNamed) {
  try {
    testing::run_job("local:2", [](job::Context& context) {
      job::all_reduce(context, torch::zeros({2, 3 + context.rank()}));
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 1 has Float [2, 4], rank 0 Float [2, 3]"));
  }
}

TEST(Collectives, WhatCannotBeExchangedIsRefused) {
  testing::run_job("local:1", [](job::Context& context) {
    EXPECT_THROW(job::all_reduce(context, torch::Tensor()), InputError);
    EXPECT_THROW(job::all_reduce(context, torch::eye(3).to_sparse()), InputError);
    EXPECT_THROW(job::all_reduce(context, torch::ones({2}, torch::kInt64), job::Reduce::kMean), InputError);
  });
}

}  // namespace
}  // namespace entrain::parallel
