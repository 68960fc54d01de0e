// The memory that a pipeline takes, against the formula's prediction. A program of its own: it counts every
// tensor of the process.
#include <gtest/gtest.h>

#include <numeric>

#include "entrain/models/registry.h"
#include "entrain/pipeline/profile/layer_profile.h"
#include "entrain/pipeline/profile/memory_watch.h"
#include "entrain/pipeline/run/thread_pipeline.h"

namespace entrain::pipeline {
namespace {

struct Peak {
  double predicted;  // bytes of activations, all devices
  double measured;
};

// A 32-block transformer, K = 4, M = 8.
Peak peak_of(Remat remat) {
  constexpr int kDevices = 4, kMicroBatches = 8, kBatch = 32;
  const auto model = models::make_model("transformer-32", 0);
  auto generator = at::detail::createCPUGenerator(1);
  const models::Batch batch = model->synthetic(kBatch, generator);
  const auto sequence = model->sequence();
  const auto part = batch.narrow(0, kBatch / kMicroBatches);
  const auto costs = measure_layers(sequence, part.input, part.target, {.repeats = 1, .budget_s = 0});

  FitRequest request = request_for(costs);
  request.batch = kBatch;
  request.devices.resize(kDevices);
  Pipeline choice{kDevices, kMicroBatches, "gpipe", 1, remat};
  const auto layers = static_cast<int>(sequence.layers.size());
  for (int c = 0; c < kDevices; ++c) {
    choice.balance.push_back(layers * (c + 1) / kDevices - layers * c / kDevices);
  }
  Peak peak{0, 0};
  for (const DeviceMemory& device : predict(request, choice).memory) {
    peak.predicted += static_cast<double>(device.activation_bytes);
  }

  Options options{choice};
  options.threads_per_cell = 1;
  ThreadPipeline pipeline(sequence, options);
  pipeline.run(batch.input, batch.target);  // gradients are there from now on
  const MemoryWatch watch;
  pipeline.run(batch.input, batch.target);
  peak.measured = static_cast<double>(watch.peak());
  return peak;
}

TEST(PeakMemory, OfRematerializationIsAsTheFormulaSays) {
  const MemoryWatch first;  // counting begins before the model
  const Peak always = peak_of(Remat::kAlways), never = peak_of(Remat::kNever);
  std::printf("always: predicted %.1f MB, measured %.1f MB; never: predicted %.1f MB, measured %.1f MB\n",
              always.predicted / 1e6, always.measured / 1e6, never.predicted / 1e6, never.measured / 1e6);
  EXPECT_NEAR(always.measured / always.predicted, 1, 0.15);
  EXPECT_NEAR(never.measured / never.predicted, 1, 0.15);
  EXPECT_LT(always.measured, 0.45 * never.measured);
}

}  // namespace
}  // namespace entrain::pipeline
