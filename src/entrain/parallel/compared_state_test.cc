#include "entrain/parallel/compared_state.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <mutex>

#include "entrain/base/error.h"
#include "entrain/parallel/distributed.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What each rank says of the others when `change` has been at its values.
std::vector<std::string> said(const std::string& cluster,
                              const std::function<void(int rank, std::vector<HeldValue>&)>& change) {
  std::mutex mutex;
  std::vector<std::string> texts;
  testing::run_job(cluster, [&](job::Context& context) {
    std::vector<HeldValue> held = {{"a.weight", torch::ones({3, 5})}, {"b.weight", torch::ones({7}), 1}};
    change(context.rank(), held);
    std::string text;
    try {
      compare_state(context, 300, held, {});
    } catch (const Error& e) {
      text = e.what();
    }
    const std::lock_guard lock(mutex);
    texts.push_back(text);
  });
  return texts;
}

TEST(ComparedState, TheRankThatDiffersIsNamedWithStepAndVariable) {
  const auto texts = said("local:3", [](int rank, auto& held) {
    if (rank == 1) held[1].tensor[6] = 1.0000001F;
  });
  EXPECT_THAT(texts,
              AllOf(SizeIs(3), Each(HasSubstr("step 300: rank 1 differs from most others in b.weight,"))));
}

TEST(ComparedState, OfTwoRanksBothAreNamed) {
  const auto texts = said("local:2", [](int rank, auto& held) {
    for (auto& value : held) value.tensor[0] = static_cast<float>(rank);
  });
  EXPECT_THAT(texts, Each(HasSubstr("step 300: ranks 0, 1 differ in a.weight (and 1 more),")));
}

TEST(ComparedState, RanksAreComparedInWhatTheyHoldBoth) {
  const auto texts = said("local:3", [](int rank, auto& held) {
    if (rank == 0) held.pop_back();
    if (rank == 1) held.erase(held.begin());
  });
  EXPECT_THAT(texts, Each(""));
}

TEST(ComparedState, AnyBitChangesTheHash) {
  const torch::Tensor values = torch::arange(37, torch::kInt64);
  const uint64_t hash = hash_of(values);
  EXPECT_EQ(hash_of(values.clone()), hash);
  for (int64_t i = 0; i < values.numel(); ++i) {
    for (const int bit : {0, 31, 63}) {
      torch::Tensor changed = values.clone();
      changed.data_ptr<int64_t>()[i] ^= int64_t{1} << bit;
      EXPECT_NE(hash_of(changed), hash) << i << " " << bit;
    }
  }
  EXPECT_NE(hash_of(values.narrow(0, 0, 36)), hash);
}

TEST(ComparedState, AnotherPlanShows) {
  plan::Plan plan;
  plan.messages.resize(2);
  for (auto& message : plan.messages)
    message.ranks = std::make_shared<const std::vector<int>>(std::vector{0, 1});
  const uint64_t hash = hash_of(plan);
  plan.messages[1].priority = 1;
  EXPECT_NE(hash_of(plan), hash);
}

TEST(ComparedState, AParameterThatChangesInARunningJobEndsIt) {
  for (const bool faulty : {false, true}) {
    const auto train = [&] {
      testing::run_job("local:3", [&](job::Context& context) {
        torch::manual_seed(1);
        torch::nn::Linear model(4, 2);
        torch::optim::SGD optimizer(model->parameters(), 0.1);
        auto distributed =
            distribute(context, *model, optimizer, {.overlap_forward = true, .first_step = 40});
        for (int step = 0; step < 4; ++step) {
          if (faulty && step == 2 && context.rank() == 2) model->bias.data()[1] += 1;
          distributed->step(model->forward(torch::randn({3, 4})).square().sum());
          if (step == 1) distributed->compare();
        }
        distributed->compare();
      });
    };
    if (!faulty) {
      EXPECT_NO_THROW(train());
      continue;
    }
    try {
      train();
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("step 44: rank 2 differs from most others in bias"));
    }
  }
}

}  // namespace
}  // namespace entrain::parallel
