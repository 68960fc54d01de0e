#include "entrain/train/job_settings.h"

#include <gmock/gmock.h>

#include <functional>
#include <mutex>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TrainOptions job() {
  TrainOptions options;
  options.model = "cnn7-small";
  options.steps = 3;
  options.batch_size = 2;
  options.progress = false;
  return options;
}

// What each rank that fails says when rank `odd` is given other options. Empty: they agree.
std::vector<std::string> errors_of(const std::function<void(TrainOptions&)>& change, int odd = 1,
                                   const std::string& cluster = "lab:3x1gbit",
                                   const TrainOptions& options = job()) {
  std::vector<std::string> errors;
  std::mutex mutex;
  testing::run_job(cluster, [&](job::Context& context) {
    TrainOptions own = options;
    if (context.rank() == odd) change(own);
    try {
      agree_on_settings(context, own);
    } catch (const InputError& e) {
      const std::lock_guard lock(mutex);
      errors.push_back(e.what());
    }
  });
  return errors;
}

// Each of these used to train on, silently.
TEST(JobSettings, WhatDecidesTheUpdateIsNamedWithBothValues) {
  const std::vector<std::pair<std::string, std::function<void(TrainOptions&)>>> cases = {
      {"optimizer.learning_rate is 0.5 on rank 1 and 0.01 on rank 0",
       [](auto& o) { o.optimizer.learning_rate = 0.5; }},
      {"optimizer.base is adam on rank 1 and sgd on rank 0", [](auto& o) { o.optimizer.base = "adam"; }},
      {"optimizer.rule is lsgd on rank 1 and sgd on rank 0", [](auto& o) { o.optimizer.rule = "lsgd"; }},
      {"optimizer.clip_norm is 1 on rank 1", [](auto& o) { o.optimizer.clip_norm = 1; }},
      {"optimizer.period is 8 on rank 1", [](auto& o) { o.optimizer.period = 8; }},
      {"optimizer.rate_schedule is cosine", [](auto& o) { o.optimizer.rate_schedule = "cosine"; }},
      {"pipeline.micro_batches is 2 on rank 1", [](auto& o) { o.pipeline.micro_batches = 2; }},
      {"pipeline.balance is [1,2] on rank 1",
       [](auto& o) {
         o.pipeline.balance = {1, 2};
       }},
      {"seed is 7 on rank 1 and 0 on rank 0", [](auto& o) { o.seed = 7; }},
      {"batch_size is 4 on rank 1 and 2 on rank 0", [](auto& o) { o.batch_size = 4; }},
      {"steps is 30 on rank 1", [](auto& o) { o.steps = 30; }},
      {"seconds is 2 on rank 1", [](auto& o) { o.seconds = 2; }},
      {"model is cnn7 on rank 1", [](auto& o) { o.model = "cnn7"; }},
      {"strategy is allreduce+fp16 on rank 1", [](auto& o) { o.strategy = "allreduce+fp16"; }},
      {"switches is [2=ps] on rank 1",
       [](auto& o) {
         o.switches = {{2, "ps"}};
       }},
      {"data is not a file on rank 1 and made up on rank 0", [](auto& o) { o.data = "text:/no/such"; }},
      {"checkpoint_every is 1 on rank 1", [](auto& o) { o.checkpoint_every = 1; }},
      {"test_every is 1 on rank 1", [](auto& o) { o.test_every = 1; }},
      {"bn_recompute is 0 on rank 1", [](auto& o) { o.bn_recompute = 0; }},
      {"on_nonfinite is skip on rank 1", [](auto& o) { o.on_nonfinite = NonFinite::kSkip; }},
      {"out is given on rank 1 and not given on rank 0", [](auto& o) { o.out = "/somewhere"; }},
      {"resume is given on rank 1", [](auto& o) { o.resume = "/somewhere"; }},
      {"save is given on rank 1", [](auto& o) { o.save = "/somewhere"; }},
      {"init is not a file on rank 1", [](auto& o) { o.init = "/no/such"; }},
  };
  for (const auto& [words, change] : cases) {
    const auto errors = errors_of(change);
    EXPECT_THAT(errors, SizeIs(3)) << words << ": every rank ends, also those that agree with rank 0";
    EXPECT_THAT(errors, Each(HasSubstr(words)));
  }
}

TEST(JobSettings, AllThatDiffersIsNamedAndTheRank) {
  const auto errors = errors_of(
      [](auto& o) {
        o.seed = 7;
        o.batch_size = 4;
      },
      2);
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("batch_size is 4 on rank 2 and 2 on rank 0"),
                                 HasSubstr("seed is 7 on rank 2 and 0 on rank 0"))));
}

TEST(JobSettings, WhatMayDiffer) {
  TrainOptions options = job();
  options.out = options.save = options.trace = "/here";
  const auto change = [](TrainOptions& o) {
    o.out = o.save = o.trace = "/there";
    o.progress = true;
    o.device = "cuda";
    o.overlap_forward = false;
  };
  EXPECT_THAT(errors_of(change, 1, "lab:3x1gbit", options), SizeIs(0));
}

TEST(JobSettings, FilesCountByContentNotByPath) {
  const test::TempDir folder;
  const auto here = folder.path() / "a.safetensors", there = folder.path() / "b.safetensors";
  write_file_atomically(here, "the same");
  write_file_atomically(there, "the same");
  TrainOptions options = job();
  options.init = here;
  const auto change = [&](TrainOptions& o) { o.init = there; };
  EXPECT_THAT(errors_of(change, 1, "lab:3x1gbit", options), SizeIs(0));
  write_file_atomically(there, "the sane");
  EXPECT_THAT(errors_of(change, 1, "lab:3x1gbit", options), Each(HasSubstr("init is a file of 8 bytes")));
  const std::string large(3 << 20, 'x');
  write_file_atomically(here, large);
  for (const size_t at : {size_t{0}, large.size() - 1}) {
    std::string other = large;
    other[at] = 'y';
    write_file_atomically(there, other);
    EXPECT_THAT(errors_of(change, 1, "lab:3x1gbit", options), SizeIs(3)) << at;
  }
}

TEST(JobSettings, ARankThatOnlyServesNeedsNoFiles) {
  const test::TempDir folder;
  TrainOptions options = job();
  options.init = folder.path() / "a.safetensors";
  write_file_atomically(options.init, "parameters");
  const std::string cluster = "lab:2x1gbit+1x10gbit/server";
  const auto elsewhere = [&](TrainOptions& o) { o.init = folder.path() / "absent"; };
  EXPECT_THAT(errors_of(elsewhere, 2, cluster, options), SizeIs(0));
  EXPECT_THAT(errors_of([](auto& o) { o.seed = 3; }, 2, cluster, options), SizeIs(3));
}

// All kinds of training agree first.
TEST(JobSettings, EveryKindOfTrainingRefuses) {
  for (const char* rule : {"sgd", "lsgd", "downpour", "pipeline"}) {
    try {
      testing::run_job("lab:2x1gbit", [&](job::Context& context) {
        TrainOptions options = job();
        if (rule == std::string("pipeline")) {
          options.pipeline.devices = 2;
        } else {
          options.optimizer.rule = rule;
        }
        options.optimizer.learning_rate = context.rank() == 0 ? 0.01 : 0.02;
        train(context, options);
      });
      FAIL() << rule << " trained on";
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr("optimizer.learning_rate is 0.02 on rank 1 and 0.01 on rank 0"));
    }
  }
}

}  // namespace
}  // namespace entrain::train
