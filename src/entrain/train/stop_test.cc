#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <csignal>

#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/stop_request.h"
#include "entrain/train/train.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

// A job of which one rank is told to end while it trains.
struct Stopped {
  TrainReport report;
  int signal = 0;  // that rank 0 knows of at the end
  bool saved = false;
};

Stopped stop(const std::string& cluster, int told, TrainOptions options) {
  const test::TempDir folder;
  options.model = "cnn7-small";
  options.batch_size = 2;
  options.steps = 100000;
  options.progress = false;
  options.out = folder.path() / "run";
  Stopped result;
  std::array<std::atomic<int>, 4> signals{};
  testing::run_job(cluster, [&](job::Context& context) {
    std::atomic<int>& own = signals[static_cast<size_t>(context.rank())];
    context.stop = std::make_shared<job::StopRequest>(context, [&] { return own.load(); });
    if (context.rank() == told) own = SIGTERM;
    const TrainReport report = train(context, options);
    if (context.rank() != 0) return;
    result.report = report;
    result.signal = context.stop_signal();
  });
  const bool apart = options.optimizer.apart() && options.optimizer.rule != "hogwild";
  result.saved =
      checkpoint::Checkpoints(apart ? options.out / "worker-0" : options.out).newest_step().has_value();
  return result;
}

void expect_orderly(const Stopped& stopped, bool saves = true) {
  EXPECT_TRUE(stopped.report.interrupted);
  EXPECT_EQ(stopped.signal, SIGTERM);
  EXPECT_EQ(stopped.saved, saves);
}

TEST(Stop, AnyRankThatIsToldToEndEndsTheJobWithACheckpoint) {
  for (const int told : {0, 1, 2}) {
    SCOPED_TRACE(told);
    expect_orderly(stop("local:3", told, {}));
  }
}

TEST(Stop, ARankThatOnlyServesCanBeToldToo) {
  TrainOptions options;
  options.strategy = "ps";
  expect_orderly(stop("lab:2x1gbit+1x1gbit/server", 2, options));
}

TEST(Stop, AModelInCellsEnds) {
  TrainOptions options;
  options.pipeline.devices = 2;
  options.pipeline.micro_batches = 2;
  expect_orderly(stop("local:2", 1, options));
}

TEST(Stop, WorkersThatTrainApartEndTogetherOrEachByItself) {
  for (const std::string rule : {"easgd", "local-sgd", "downpour", "async-ps"}) {
    SCOPED_TRACE(rule);
    TrainOptions options;
    options.optimizer.rule = rule;
    expect_orderly(stop("local:3", 2, options));
  }
}

TEST(Stop, ThreadsThatShareParametersEnd) {
  TrainOptions options;
  options.optimizer.rule = "hogwild";
  options.optimizer.threads = 2;
  expect_orderly(stop("local:1", 0, options), /*saves=*/false);
}

}  // namespace
}  // namespace entrain::train
