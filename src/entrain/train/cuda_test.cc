// Training on a GPU: ranks that share one give what one process gives on the whole batch.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "entrain/strategy/builders/registry.h"
#include "entrain/train/train.h"
#include "support/jobs.h"

namespace entrain::train {
namespace {

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "libtorch sees no GPU here";
    at::globalContext().setAllowTF32CuDNN(false);  // equal to float's precision, not to TF32's
  }
};

TrainOptions options_for(const std::string& model, const std::string& device, const std::string& strategy) {
  TrainOptions options;
  options.model = model;
  options.device = device;
  options.strategy = strategy;
  options.optimizer.base = "momentum";
  options.optimizer.learning_rate = 0.01;
  options.steps = 5;
  options.batch_size = 4;
  options.seed = 7;
  options.progress = false;
  return options;
}

double last_loss(const std::string& cluster, const TrainOptions& options) {
  double loss = 0;
  testing::run_job(cluster, [&](job::Context& context) {
    const TrainReport report = train(context, options);
    if (context.rank() == 0) loss = report.last_loss;
  });
  return loss;
}

TEST_F(CudaTest, AsOnTheCpuUnderEveryBuilder) {
  for (const char* model : {"vgg16-small", "ncf-sparse-small"}) {
    const double expected = last_loss("lab:3x1gbit", options_for(model, "cpu", "allreduce"));
    for (const auto& builder : strategy::names()) {
      EXPECT_NEAR(last_loss("lab:3x1gbit", options_for(model, "cuda", builder)), expected, 2e-4 * expected)
          << model << " " << builder;
    }
  }
}

TEST_F(CudaTest, Alone) {
  for (const char* model : {"vgg16-small", "ncf-sparse-small"}) {
    const double expected = last_loss("local:1", options_for(model, "cpu", "allreduce"));
    EXPECT_NEAR(last_loss("local:1", options_for(model, "cuda", "allreduce")), expected, 2e-4 * expected)
        << model;
  }
}

TEST_F(CudaTest, WithServersThatHaveNoGpu) {
  const double expected = last_loss("lab:2x1gbit", options_for("bert-small", "cpu", "allreduce"));
  for (const char* builder : {"ps", "byteps"}) {
    EXPECT_NEAR(last_loss("lab:2x1gbit+1x10gbit/server", options_for("bert-small", "cuda", builder)),
                expected, 2e-4 * expected)
        << builder;
  }
}

// Cells in turn on the GPUs there are; with one GPU, all of them on it.
TEST_F(CudaTest, Pipelines) {
  for (const char* model : {"vgg16-small", "unet-small"}) {
    TrainOptions options = options_for(model, "cpu", "allreduce");
    options.batch_size = 8;
    options.pipeline.devices = 2;
    options.pipeline.micro_batches = 4;
    options.pipeline.cells = "threads";
    for (const char* cluster : {"local:1", "lab:2x1gbit"}) {  // replicas too
      for (const char* remat : {"never", "always"}) {
        options.pipeline.remat = pipeline::parse_remat(remat);
        options.device = "cpu";
        const double expected = last_loss(cluster, options);
        options.device = "cuda";
        EXPECT_NEAR(last_loss(cluster, options), expected, 1e-3 * expected) << model << " " << remat;
      }
    }
  }
}

TEST_F(CudaTest, Compressed) {
  const double expected = last_loss("lab:2x1gbit", options_for("vgg16-small", "cpu", "allreduce"));
  for (const char* strategy : {"allreduce+fp16", "allreduce+powersgd"}) {
    EXPECT_NEAR(last_loss("lab:2x1gbit", options_for("vgg16-small", "cuda", strategy)), expected,
                0.05 * expected)
        << strategy;
  }
}

TEST(Device, AGpuThatIsNotThereIsBadInput) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  testing::run_job("local:1", [](job::Context& context) {
    EXPECT_THROW(train(context, options_for("vgg16-small", "cuda", "allreduce")), InputError);
  });
}

}  // namespace
}  // namespace entrain::train
