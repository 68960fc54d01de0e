// Throughput of the thread engine on equal layers, against a plain loop over the same micro-batches on one
// core, interleaved. Prints one JSON document. The bound is the bubble's: K cores give at most
// K * M / (M + K - 1) times one core's throughput.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "entrain/base/blas.h"
#include "entrain/base/clock.h"
#include "entrain/base/quantile.h"
#include "entrain/pipeline/thread_pipeline.h"

namespace {

using namespace entrain;

struct Settings {
  int devices = 2, micro_batches = 8, layers = 16, width = 512, batch = 256, steps = 10;
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

// As zero_grad() of libtorch 2 does.
void drop_gradients(const torch::nn::Sequential& modules) {
  for (auto& parameter : modules->parameters()) parameter.mutable_grad().reset();
}

// Where a step's time goes beside the bubble.
struct Losses {
  std::vector<double> computed_s;  // by device: where cells are unequal or slow each other, it shows here
  double begin_s = 0;              // until the first pass begins
  double handover_s = 0;           // from the end of what a pass waits for to its begin, the mean
  double end_s = 0;                // from the last pass's end until the caller has the loss
};

bool computes(const pipeline::Span& span) {
  return span.kind == pipeline::Span::Kind::kForward || span.kind == pipeline::Span::Kind::kBackward;
}

Losses losses_of(const std::vector<std::vector<pipeline::Span>>& spans, double step_s) {
  using Pass = std::tuple<pipeline::Span::Kind, int, int>;
  std::map<Pass, double> ends;
  for (const auto& device : spans) {
    for (const auto& span : device) {
      if (computes(span)) ends[{span.kind, span.cell, span.micro_batch}] = span.end_s;
    }
  }
  Losses result;
  double gaps = 0, last = 0;
  int passes = 0;
  for (const auto& device : spans) {
    double before = 0;
    result.computed_s.push_back(0);
    for (const auto& span : device) {
      if (!computes(span)) continue;
      const int from = span.cell + (span.kind == pipeline::Span::Kind::kForward ? -1 : 1);
      const auto sent = ends.find({span.kind, from, span.micro_batch});
      const double ready = sent == ends.end() ? before : std::max(before, sent->second);
      if (ready > 0) {
        gaps += span.begin_s - ready;
        ++passes;
      } else {
        result.begin_s = span.begin_s;
      }
      before = span.end_s;
      result.computed_s.back() += span.end_s - span.begin_s;
    }
    last = std::max(last, before);
  }
  result.handover_s = gaps / std::max(passes, 1);
  result.end_s = step_s - last;
  return result;
}

// One core's step while K - 1 others do the same: what K cores give at best. Cores share memory and power.
double together(const Settings& s, const torch::Tensor& x, const torch::Tensor& y,
                const std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>& loss) {
  std::vector<std::vector<double>> times(s.devices);
  std::vector<std::thread> threads;
  std::vector<torch::nn::Sequential> models;
  for (int i = 0; i < s.devices; ++i) models.push_back(make_modules(s));
  for (int i = 0; i < s.devices; ++i) {
    threads.emplace_back([&, i] {
      pipeline::Options options = options_of(s, 1);
      pipeline::ThreadPipeline alone({layers::layers_of(models[i]), loss}, options);
      for (int step = 0; step < s.steps / 2 + 1; ++step) {
        const auto start = Clock::now();
        drop_gradients(models[i]);
        alone.run(x, y);
        if (step > 0) times[i].push_back(seconds_since(start));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& own : times) all.insert(all.end(), own.begin(), own.end());
  return median(all);
}

int run(const Settings& s) {
  const auto x = torch::randn({s.batch, s.width}), y = torch::randn({s.batch, s.width});
  const auto loss = [](const auto& output, const auto& target) { return torch::mse_loss(output, target); };
  auto one = make_modules(s), many = make_modules(s);
  pipeline::ThreadPipeline alone({layers::layers_of(one), loss}, options_of(s, 1));
  pipeline::ThreadPipeline pipelined({layers::layers_of(many), loss}, options_of(s, s.devices));
  std::vector<double> alone_s, pipelined_s;
  std::vector<Losses> losses;
  for (int step = 0; step < s.steps + 2; ++step) {
    const auto start = Clock::now();
    drop_gradients(one);
    alone.run(x, y);
    const double first = seconds_since(start);
    const auto middle = Clock::now();
    drop_gradients(many);
    pipelined.run(x, y);
    if (step < 2) continue;  // warm-up
    alone_s.push_back(first);
    pipelined_s.push_back(seconds_since(middle));
    losses.push_back(losses_of(pipelined.spans(), pipelined_s.back()));
  }
  const auto middle_of = [&](const auto& part) {
    std::vector<double> values;
    for (const Losses& step : losses) values.push_back(part(step));
    return median(values);
  };
  std::vector<double> computed_s;
  for (int d = 0; d < s.devices; ++d) {
    computed_s.push_back(middle_of([d](const Losses& step) { return step.computed_s[d]; }));
  }
  const double side_by_side = together(s, x, y, loss);
  const double bound = static_cast<double>(s.micro_batches) / (s.micro_batches + s.devices - 1);
  const double efficiency = median(alone_s) / (s.devices * median(pipelined_s));
  const char* core = std::getenv("OPENBLAS_CORETYPE");
  nlohmann::json json = {{"devices", s.devices},
                         {"openblas_core", core == nullptr ? "" : core},  // a peer should get the same
                         {"micro_batches", s.micro_batches},
                         {"schedule", s.schedule},
                         {"remat", s.remat},
                         {"alone_s", median(alone_s)},
                         {"pipeline_s", median(pipelined_s)},
                         {"alone_times_s", alone_s},
                         {"pipeline_times_s", pipelined_s},
                         {"computed_s", computed_s},
                         {"begin_s", middle_of([](const Losses& step) { return step.begin_s; })},
                         {"handover_s", middle_of([](const Losses& step) { return step.handover_s; })},
                         {"end_s", middle_of([](const Losses& step) { return step.end_s; })},
                         {"side_by_side_s", side_by_side},
                         {"bubble_bound", bound},
                         {"efficiency", efficiency},
                         {"of_bound", efficiency / bound},
                         {"of_cores", side_by_side / (s.devices * median(pipelined_s)) / bound}};
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
  app.add_option("--steps", s.steps);
  app.add_option("--schedule", s.schedule);
  app.add_option("--remat", s.remat);
  CLI11_PARSE(app, argc, argv);
  return run(s);
}
