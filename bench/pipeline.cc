// Throughput of the thread engine on equal layers, against a plain loop over the same micro-batches on one
// core. Prints one JSON document. The bound is the bubble's: K cores give at most K * M / (M + K - 1) times
// one core's throughput.
//
// In turns of some seconds each, as training runs: with a step of one between two steps of the other, K cores
// wake at once at each step, and a host then often has two of a virtual machine's on one core of its own.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "entrain/base/blas.h"
#include "entrain/base/clock.h"
#include "entrain/base/quantile.h"
#include "entrain/pipeline/run/thread_pipeline.h"

namespace {

using namespace entrain;

struct Settings {
  int devices = 2, micro_batches = 8, layers = 16, width = 512, batch = 256, steps = 10, turns = 3;
  double turn_s = 1;  // at least
  std::string schedule = "gpipe", remat = "never";
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Block);

// Equal layers.
torch::nn::Sequential make_modules(const Settings& s) {
  torch::manual_seed(1);
  torch::nn::Sequential modules;
  for (int i = 0; i < s.layers; ++i) {
    modules->push_back(Block(s.width));
  }
  return modules;
}

pipeline::Options options_of(const Settings& s, int devices) {
  pipeline::Options options;
  options.devices = devices;
  options.micro_batches = s.micro_batches;
  options.schedule = devices == 1 ? "gpipe" : s.schedule;
  options.chunks = options.schedule == "interleaved" ? 2 : 1;
  options.remat = pipeline::parse_remat(s.remat);
  options.threads_per_cell = 1;
  const int cells = devices * options.chunks;
  for (int c = 0; c < cells; ++c)
    options.balance.push_back(s.layers * (c + 1) / cells - s.layers * c / cells);
  return options;
}

torch::Tensor mse(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

// As zero_grad() of libtorch 2 does.
void drop_gradients(const torch::nn::Sequential& modules) {
  for (auto& parameter : modules->parameters()) parameter.mutable_grad().reset();
}

// One pass of a step: a micro-batch through a cell, forward or backward.
struct Pass {
  size_t device;
  const pipeline::Span* span;
  double seconds() const { return span->end_s - span->begin_s; }
};

// In the order in which they began, so that what a pass waits for comes before it.
std::vector<Pass> passes_of(const std::vector<std::vector<pipeline::Span>>& spans) {
  using Kind = pipeline::Span::Kind;
  std::vector<Pass> passes;
  for (size_t device = 0; device < spans.size(); ++device) {
    for (const auto& span : spans[device]) {
      if (span.kind == Kind::kForward || span.kind == Kind::kBackward) passes.push_back({device, &span});
    }
  }
  std::stable_sort(passes.begin(), passes.end(),
                   [](const Pass& a, const Pass& b) { return a.span->begin_s < b.span->begin_s; });
  return passes;
}

// Where a step's time goes beside the bubble.
struct Losses {
  std::vector<double> computed_s;  // by device: where cells are unequal or slow each other, it shows here
  double handover_s = 0;           // from the end of what a pass waits for to its begin, the mean
  double passes_s = 0;  // the step, had each pass begun at once: what passes as long as these allow
};

Losses losses_of(const std::vector<std::vector<pipeline::Span>>& spans) {
  using Key = std::tuple<pipeline::Span::Kind, int, int>;
  struct End {
    double measured = 0, at_best = 0;
  };
  Losses result;
  result.computed_s.resize(spans.size());
  std::vector<End> free(spans.size());  // by device
  std::map<Key, End> ends;
  const auto passes = passes_of(spans);
  for (const Pass& pass : passes) {
    const pipeline::Span& span = *pass.span;
    const int from = span.cell + (span.kind == pipeline::Span::Kind::kForward ? -1 : 1);
    const auto sent = ends.find({span.kind, from, span.micro_batch});
    End ready = free[pass.device];
    if (sent != ends.end()) {
      ready = {std::max(ready.measured, sent->second.measured),
               std::max(ready.at_best, sent->second.at_best)};
    }
    result.handover_s += (span.begin_s - ready.measured) / static_cast<double>(passes.size());
    result.computed_s[pass.device] += pass.seconds();
    free[pass.device] = {span.end_s, ready.at_best + pass.seconds()};
    ends[{span.kind, span.cell, span.micro_batch}] = free[pass.device];
    result.passes_s = std::max(result.passes_s, free[pass.device].at_best);
  }
  return result;
}

// One contender's steps.
class Contender {
 public:
  Contender(const Settings& s, int devices)
      : modules_(make_modules(s)), pipeline_({layers::layers_of(modules_), mse}, options_of(s, devices)) {}

  // The first steps of a turn are not counted.
  void take_turn(const Settings& s, const torch::Tensor& x, const torch::Tensor& y) {
    const auto began = Clock::now();
    for (int step = 0; step < kWarmUp + s.steps || seconds_since(began) < s.turn_s; ++step) {
      const auto start = Clock::now();
      drop_gradients(modules_);
      pipeline_.run(x, y);
      if (step < kWarmUp) continue;
      times_s_.push_back(seconds_since(start));
      losses_.push_back(losses_of(pipeline_.spans()));
    }
  }

  const std::vector<double>& times_s() const { return times_s_; }
  const std::vector<Losses>& losses() const { return losses_; }

 private:
  static constexpr int kWarmUp = 2;
  torch::nn::Sequential modules_;
  pipeline::ThreadPipeline pipeline_;
  std::vector<double> times_s_;
  std::vector<Losses> losses_;
};

// One core's step while K - 1 others do the same: what K cores give at best. Cores share memory and power.
double together(const Settings& s, const torch::Tensor& x, const torch::Tensor& y) {
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<std::thread> threads;
  for (int i = 0; i < s.devices; ++i) contenders.push_back(std::make_unique<Contender>(s, 1));
  for (auto& each : contenders) threads.emplace_back([&] { each->take_turn(s, x, y); });
  for (auto& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& each : contenders) all.insert(all.end(), each->times_s().begin(), each->times_s().end());
  return median(all);
}

int run(const Settings& s) {
  const auto x = torch::randn({s.batch, s.width}), y = torch::randn({s.batch, s.width});
  Contender alone(s, 1), pipelined(s, s.devices);
  for (int turn = 0; turn < s.turns; ++turn) {
    alone.take_turn(s, x, y);
    pipelined.take_turn(s, x, y);
  }
  const double alone_s = median(alone.times_s()), pipeline_s = median(pipelined.times_s());
  const auto middle_of = [&](const auto& part) {
    std::vector<double> values;
    for (const Losses& step : pipelined.losses()) values.push_back(part(step));
    return median(values);
  };
  std::vector<double> computed_s;
  for (int d = 0; d < s.devices; ++d) {
    computed_s.push_back(middle_of([d](const Losses& step) { return step.computed_s[d]; }));
  }
  const double side_by_side = together(s, x, y);
  const double bound = static_cast<double>(s.micro_batches) / (s.micro_batches + s.devices - 1);
  std::vector<double> of_passes;
  for (size_t i = 0; i < pipelined.losses().size(); ++i) {
    of_passes.push_back(pipelined.losses()[i].passes_s / pipelined.times_s()[i]);
  }
  const double efficiency = alone_s / (s.devices * pipeline_s);
  const char* core = std::getenv("OPENBLAS_CORETYPE");
  nlohmann::json json = {{"devices", s.devices},
                         {"openblas_core", core == nullptr ? "" : core},  // a peer should get the same
                         {"micro_batches", s.micro_batches},
                         {"schedule", s.schedule},
                         {"remat", s.remat},
                         {"alone_s", alone_s},
                         {"pipeline_s", pipeline_s},
                         {"alone_times_s", alone.times_s()},
                         {"pipeline_times_s", pipelined.times_s()},
                         {"computed_s", computed_s},
                         {"handover_s", middle_of([](const Losses& step) { return step.handover_s; })},
                         {"passes_s", middle_of([](const Losses& step) { return step.passes_s; })},
                         {"side_by_side_s", side_by_side},
                         {"bubble_bound", bound},
                         {"efficiency", efficiency},
                         {"of_bound", efficiency / bound},
                         {"of_passes", median(of_passes)},
                         {"of_cores", side_by_side / (s.devices * pipeline_s) / bound}};
  fmt::print("{}\n", json.dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ensure_fast_blas(argv);
  Settings s;
  CLI::App app("Throughput of a pipeline of equal layers against its bubble bound");
  app.add_option("--devices", s.devices, "K");
  app.add_option("--micro-batches", s.micro_batches, "M");
  app.add_option("--layers", s.layers);
  app.add_option("--width", s.width);
  app.add_option("--batch", s.batch);
  app.add_option("--steps", s.steps, "Measured in a turn, at least");
  app.add_option("--turns", s.turns, "Of each contender");
  app.add_option("--turn-seconds", s.turn_s, "At least");
  app.add_option("--schedule", s.schedule);
  app.add_option("--remat", s.remat);
  CLI11_PARSE(app, argc, argv);
  return run(s);
}
