// Saves of workers that train apart belong together, whenever the job is killed and whichever file is
// damaged.
#include "entrain/train/common_saves.h"

#include <gmock/gmock.h>

#include <fstream>
#include <latch>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/train/train.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> numbers_in(const fs::path& folder) {
  std::vector<int64_t> numbers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;  // half written
    numbers.push_back(std::stoll(entry.path().stem().string().substr(std::string("checkpoint-").size())));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

fs::path file_of(const fs::path& folder, int worker, int64_t number) {
  return folder / fmt::format("worker-{}", worker) / fmt::format("checkpoint-{:08}.safetensors", number);
}

void damage(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-3, std::ios::end);
  stream.put('x');
}

// ---- the class alone

struct Toy {
  torch::nn::Linear module{2, 1};
  torch::optim::SGD optimizer{module->parameters(), 0.1};
  checkpoint::CheckpointInfo info(int64_t number) const {
    checkpoint::CheckpointInfo result;
    result.step = number;
    result.model = "toy";
    return result;
  }
};

TEST(CommonSaves, OlderOnesGoOnlyWhenANewerOneIsCompleteEverywhere) {
  const test::TempDir folder;
  std::latch fast_done(1), slow_done(1), tidied(1);
  testing::run_job("lab:2x1gbit", [&](job::Context& context) {
    const fs::path own = folder.path() / fmt::format("worker-{}", context.rank());
    const Toy toy;
    CommonSaves saves(context, own, std::nullopt);
    const auto save = [&](int64_t number) {
      if (context.rank() == 0) saves.begin(number, false, false);
      saves.save(toy.info(number), *toy.module, toy.optimizer);
      saves.tidy();
    };
    if (context.rank() == 0) {  // five saves ahead of the other
      for (const int64_t number : {1, 2, 3, 4, 5}) save(number);
      EXPECT_THAT(numbers_in(own), ElementsAre(1, 2, 3, 4, 5)) << "none is complete yet";
      fast_done.count_down();
      slow_done.wait();
      saves.tidy();
      EXPECT_THAT(numbers_in(own), ElementsAre(3, 4, 5)) << "3 is complete, the first";
      tidied.count_down();
    } else {
      fast_done.wait();
      save(3);
      slow_done.count_down();
      tidied.wait();
      save(4);
      saves.leave();
    }
    if (context.rank() == 0) {
      while (numbers_in(own).size() > 3) saves.tidy();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    saves.finish();
    if (context.rank() == 1) {
      EXPECT_THAT(numbers_in(own), ElementsAre(3, 4));
    }
  });
}

TEST(CommonSaves, UnderOneNumberEachWhereItIs) {
  const test::TempDir folder;
  testing::run_job("lab:3x1gbit", [&](job::Context& context) {
    context.transport->tolerate_losses();
    const fs::path own = folder.path() / fmt::format("worker-{}", context.rank());
    const Toy toy;
    CommonSaves saves(context, own, std::nullopt);
    if (context.rank() == 0) {
      EXPECT_THAT(saves.begin(7, true, false), ElementsAre(0, 1, 2));
      saves.save(toy.info(7), *toy.module, toy.optimizer);
      saves.begin(9, true, true);
      saves.save(toy.info(9), *toy.module, toy.optimizer);
      saves.leave();
      for (const int worker : {1, 2}) {
        while (!fs::exists(file_of(folder.path(), worker, 9))) std::this_thread::yield();
      }
    } else {
      bool last = false;
      while (!last) {
        const auto order = saves.wait_for_order(Deadline::after(30));
        if (!order) fail("no order came");
        checkpoint::CheckpointInfo info = toy.info(order->number);
        info.data_position = 100 * context.rank();
        saves.save(info, *toy.module, toy.optimizer);
        last = order->last;
      }
      saves.leave();
    }
    saves.finish();
  });
  Toy toy;
  for (const int worker : {1, 2}) {
    const auto info = checkpoint::Checkpoints(folder.path() / fmt::format("worker-{}", worker))
                          .load_newest(*toy.module, toy.optimizer);
    EXPECT_EQ(info->step, 9);
    EXPECT_EQ(info->data_position, 100 * worker);
  }
}

// ---- whole jobs

struct Outcome {
  std::string error;
  std::vector<int64_t> first_steps;  // by worker
};

TrainOptions job(const std::string& rule, const fs::path& out, int64_t steps, int64_t every) {
  TrainOptions options;
  options.model = "cnn7-small";
  strategy::set_rule(options.optimizer, rule);
  options.optimizer.period = 2;
  options.optimizer.learning_rate = 0.002;
  options.steps = steps;
  options.checkpoint_every = every;
  options.batch_size = 1;
  options.progress = false;
  options.out = out;
  return options;
}

Outcome run(const TrainOptions& options, const std::string& cluster = "lab:3x1gbit") {
  Outcome outcome;
  outcome.first_steps.resize(3, -1);
  std::latch ended(1);
  try {
    testing::run_job(cluster, [&](job::Context& context) {
      const std::shared_ptr<void> at_end(nullptr, [&](void*) {
        if (context.rank() == 0) ended.count_down();
      });
      const TrainReport report = train(context, options);
      outcome.first_steps[context.rank()] = report.first_step;
      if (context.rank() != 0) ended.wait();
    });
  } catch (const Error& e) {
    outcome.error = e.what();
  }
  return outcome;
}

class CommonSavesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(CommonSavesOf, AllWorkersHoldTheSameSaves) {
  const test::TempDir folder;
  ASSERT_EQ(run(job(GetParam(), folder.path(), 20, 3)).error, "");
  const auto expected = numbers_in(folder.path() / "worker-0");
  EXPECT_EQ(expected.size(), 2u);
  EXPECT_EQ(expected.back(), 20);
  for (const int worker : {1, 2}) {
    const auto numbers = numbers_in(folder.path() / fmt::format("worker-{}", worker));
    EXPECT_EQ(numbers.back(), 20);
    EXPECT_TRUE(std::find(numbers.begin(), numbers.end(), expected[0]) != numbers.end())
        << "the one before is whole everywhere too";
  }
}

// A damaged newest file at one worker refused the whole job.
TEST_P(CommonSavesOf, ADamagedFileAtOneWorkerCostsOneSave) {
  const test::TempDir folder;
  ASSERT_EQ(run(job(GetParam(), folder.path(), 20, 3)).error, "");
  const int64_t before = numbers_in(folder.path() / "worker-0")[0];
  damage(file_of(folder.path(), 1, 20));
  TrainOptions again = job(GetParam(), folder.path(), 26, 3);
  again.resume = folder.path();
  const Outcome resumed = run(again);
  EXPECT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.first_steps[0], before);
  EXPECT_EQ(numbers_in(folder.path() / "worker-1").back(), 26);
}

// Workers used to keep their own two newest: 4150/4200 at one and 1750/1800 at another.
TEST_P(CommonSavesOf, AJobThatIsKilledAtAnyMomentCanGoOn) {
  const test::TempDir folder;
  for (const int64_t death : {3, 20}) {
    TrainOptions options = job(GetParam(), folder.path(), death + 40, 1);
    options.optimizer.period = 32;  // until then nobody notices
    if (death > 3) options.resume = folder.path();
    int64_t last = INT64_MAX;  // that rank 1 wrote before it died
    try {
      testing::run_job("lab:3x1gbit", [&](job::Context& context) {
        std::jthread killer([&](const std::stop_token& stop) {
          while (context.rank() == 1 && !stop.stop_requested()) {
            if (fs::exists(file_of(folder.path(), 1, death))) {
              context.transport->close("killed");
              last = numbers_in(folder.path() / "worker-1").back();
              return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
        train(context, options);
      });
    } catch (const Error&) {  // as it should be
    }
    for (const int64_t number : numbers_in(folder.path() / "worker-1")) {
      if (number > last) fs::remove(file_of(folder.path(), 1, number));  // its thread has outlived it
    }
    TrainOptions again = job(GetParam(), folder.path() / "elsewhere", 100000, 1);
    again.resume = folder.path();
    again.seconds = 0.1;
    const Outcome resumed = run(again);
    ASSERT_EQ(resumed.error, "") << death;
    EXPECT_GT(resumed.first_steps[0], 0);
    fs::remove_all(again.out);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, CommonSavesOf,
                         ::testing::Values("lsgd", "easgd", "lsgd-async", "easgd-async", "downpour",
                                           "async-ps"),
                         [](const auto& rule) {
                           std::string name = rule.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CommonSaves, WithoutAWholeSaveTheMessageSaysWhatEachWorkerHas) {
  const test::TempDir folder;
  ASSERT_EQ(run(job("lsgd", folder.path(), 4, 2)).error, "");
  fs::remove(file_of(folder.path(), 2, 4));
  fs::remove(file_of(folder.path(), 0, 2));
  TrainOptions again = job("lsgd", folder.path(), 8, 2);
  again.resume = folder.path();
  EXPECT_THAT(run(again).error,
              HasSubstr("no save is whole at every worker: rank 0 has [4], rank 1 has [4,2], "
                        "rank 2 has [2]"));
}

// Asynchronous rules go on without a lost worker: so must the job that is resumed from what they left.
TEST(CommonSaves, AWorkerThatWasLostStartsFromRankZerosParameters) {
  const test::TempDir folder;
  ASSERT_EQ(run(job("easgd-async", folder.path(), 10, 5), "lab:2x1gbit").error, "");
  TrainOptions again = job("easgd-async", folder.path(), 14, 5);
  again.resume = folder.path();
  const Outcome resumed = run(again, "lab:3x1gbit");
  EXPECT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.first_steps[0], 10);
  EXPECT_EQ(resumed.first_steps[2], 10);
  EXPECT_EQ(numbers_in(folder.path() / "worker-2").back(), 14);
  // Synchronous workers count the same steps: a new one has no place among them.
  const test::TempDir other;
  ASSERT_EQ(run(job("lsgd", other.path(), 4, 2), "lab:2x1gbit").error, "");
  again = job("lsgd", other.path(), 8, 2);
  again.resume = other.path();
  EXPECT_THAT(run(again, "lab:3x1gbit").error, HasSubstr("no save is whole at every worker"));
}

}  // namespace
}  // namespace entrain::train
