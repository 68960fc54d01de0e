// Throughput of the thread engine on equal layers, against a plain loop over the same micro-batches on one
// core, interleaved. Prints one JSON document. The bound is the bubble's: K cores give at most
// K * M / (M + K - 1) times one core's throughput.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

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
  torch::optim::SGD optimizer_one(one->parameters(), 0.01), optimizer_many(many->parameters(), 0.01);
  pipeline::ThreadPipeline alone({layers::layers_of(one), loss}, options_of(s, 1));
  pipeline::ThreadPipeline pipelined({layers::layers_of(many), loss}, options_of(s, s.devices));
  std::vector<double> alone_s, pipelined_s;
  for (int step = 0; step < s.steps + 2; ++step) {
    const auto start = Clock::now();
    optimizer_one.zero_grad();
    alone.run(x, y);
    const double first = seconds_since(start);
    const auto middle = Clock::now();
    optimizer_many.zero_grad();
    pipelined.run(x, y);
    if (step < 2) continue;  // warm-up
    alone_s.push_back(first);
    pipelined_s.push_back(seconds_since(middle));
  }
  const double side_by_side = together(s, x, y, loss);
  const double bound = static_cast<double>(s.micro_batches) / (s.micro_batches + s.devices - 1);
  const double efficiency = median(alone_s) / (s.devices * median(pipelined_s));
  nlohmann::json json = {{"devices", s.devices},
                         {"micro_batches", s.micro_batches},
                         {"schedule", s.schedule},
                         {"remat", s.remat},
                         {"alone_s", median(alone_s)},
                         {"pipeline_s", median(pipelined_s)},
                         {"pipeline_times_s", pipelined_s},
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
