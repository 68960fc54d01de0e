#include "pipelines/pipeline_costs.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/models/blueprint.h"
#include "entrain/models/registry.h"
#include "entrain/pipeline/profile/layer_estimate.h"
#include "entrain/pipeline/profile/layer_profile.h"

namespace entrain::app {
namespace {

constexpr double kMostSeconds = 5;      // of one profiled pass, forward and backward, as estimated
constexpr double kShareOfMemory = 0.7;  // of what is available, for a profile

double available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  double kilobytes = 0;
  while (file >> name >> kilobytes && std::getline(file, rest)) {
    if (name == "MemAvailable:") return 1024 * kilobytes;
  }
  return std::numeric_limits<double>::infinity();
}

ModelCosts estimated(const CostRequest& request, int batch, double flops_per_s) {
  const auto blueprint = models::make_blueprint(request.model);
  const layers::Sequence sequence = blueprint->sequence();
  if (sequence.layers.empty()) {
    bad_input("--model {}: is not a sequence of layers; a pipeline cannot cut it", request.model);
  }
  auto generator = at::detail::createCPUGenerator(request.seed);
  const models::Batch planned = blueprint->synthetic(batch, generator).to(torch::kMeta);
  ModelCosts costs{pipeline::estimate_layers(sequence, planned.input, planned.target, flops_per_s)};
  for (const auto& parameter : blueprint->parameters()) costs.parameters += parameter.numel();
  return costs;
}

// Parameters, their gradients, and what one micro-batch keeps.
double bytes_to_run(const ModelCosts& costs) {
  double bytes = 2 * static_cast<double>(costs.parameter_bytes());
  for (const auto& layer : costs.layers) bytes += static_cast<double>(layer.internal_bytes);
  return bytes;
}

}  // namespace

ModelCosts model_costs(const CostRequest& request) {
  const double flops_per_s = request.flops_per_s > 0 ? request.flops_per_s : pipeline::measure_flops_per_s();
  ModelCosts costs = estimated(request, request.batch, flops_per_s);
  if (request.estimate) return costs;

  const double pass_s =
      3 * costs.flops() / (request.flops_per_s > 0 ? pipeline::measure_flops_per_s() : flops_per_s);
  const int fewer = static_cast<int>(request.batch * std::min(1.0, kMostSeconds / std::max(pass_s, 1e-9)));
  if (fewer < 1) {
    costs.why = fmt::format("one example would take {} here", format_seconds(pass_s / request.batch));
    return costs;
  }
  const double bytes = bytes_to_run(costs), available = available_bytes();
  if (bytes > kShareOfMemory * available) {
    costs.why = fmt::format("a profile would take {}, {} is available here", format_bytes(bytes),
                            format_bytes(available));
    return costs;
  }
  const auto model = models::make_model(request.model, request.seed);
  auto generator = at::detail::createCPUGenerator(request.seed);
  const models::Batch batch = model->synthetic(fewer, generator);
  pipeline::MeasureOptions options;
  options.seed = request.seed;
  ModelCosts measured{pipeline::measure_layers(model->sequence(), batch.input, batch.target, options)};
  measured.parameters = costs.parameters;
  return measured;
}

}  // namespace entrain::app
