#include "entrain/train/loop.h"

#include <gtest/gtest.h>

#include <thread>

#include "entrain/transport/control_tags.h"
#include "support/jobs.h"

namespace entrain::train {
namespace {

// Its steps are an exchange that must end within the job's timeout; rank 0's tests and files take longer.
class SlowBetweenSteps final : public Run {
 public:
  explicit SlowBetweenSteps(job::Context& context) : context_(context) {}
  bool stops_before(int64_t, bool) override { return false; }
  double make(int64_t, const TrainingClock&) override {
    transport::barrier(*context_.transport, transport::tags::kText, Deadline::after(context_.job.timeout_s));
    return 0;
  }
  std::optional<Test> test(int64_t, TrainingClock&) override {
    dawdle();
    return std::nullopt;
  }
  void save(int64_t step, bool last) override {
    if (!last && step == 2) dawdle();
  }
  void finish(TrainReport&) override {}

 private:
  void dawdle() const {
    if (context_.rank() != 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * context_.job.timeout_s));
  }
  job::Context& context_;
};

void run(TrainOptions options) {
  options.progress = false;
  options.steps = 3;
  testing::run_job("local:3", [&](job::Context& context) {
    context.job.timeout_s = 1;
    SlowBetweenSteps slow(context);
    run_loop(context, options, 0, slow);
  });
}

TEST(Loop, ATestMayTakeLongerThanAnExchange) {
  TrainOptions options;
  options.test_every = 2;
  EXPECT_NO_THROW(run(options));
}

TEST(Loop, ACheckpointMayTakeLongerThanAnExchange) {
  TrainOptions options;
  options.out = "given";
  options.checkpoint_every = 2;
  EXPECT_NO_THROW(run(options));
}

}  // namespace
}  // namespace entrain::train
