// What entrain adds to a training step on one GPU: its step() against a plain libtorch loop on the same
// model, in turns. Prints one JSON document.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "entrain/base/clock.h"
#include "entrain/base/quantile.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"

namespace {

using namespace entrain;

struct Settings {
  std::string model = "bert-base", device = "cuda";
  int batch_size = 8, steps = 10, rounds = 10;
};

// A model with its optimizer: two of them start alike.
struct Job {
  explicit Job(const Settings& s) : model(models::make_model(s.model, 1)) {
    model->to(torch::Device(s.device));
    optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), 1e-3);
  }
  std::shared_ptr<models::Model> model;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

double seconds_a_step(const Settings& s, const std::function<void()>& step) {
  const auto drain = [&] {
    if (s.device != "cpu") torch::cuda::synchronize();
  };
  drain();
  const auto start = Clock::now();
  for (int i = 0; i < s.steps; ++i) step();
  drain();
  return seconds_since(start) / s.steps;
}

int run(const Settings& s) {
  job::Context context = job::init("local:1");
  Job plain(s), ours(s);
  auto generator = at::detail::createCPUGenerator(2);
  const models::Batch batch = plain.model->synthetic(s.batch_size, generator).to(torch::Device(s.device));
  const auto distributed = parallel::distribute(context, *ours.model, *ours.optimizer);
  const auto plain_step = [&] {
    for (auto& parameter : plain.model->parameters())
      parameter.mutable_grad().reset();  // as libtorch 2's zero_grad()
    plain.model->loss(batch).backward();
    plain.optimizer->step();
  };
  const auto our_step = [&] { distributed->step(ours.model->loss(batch)); };
  seconds_a_step(s, plain_step);
  seconds_a_step(s, our_step);
  std::vector<double> plain_s, ours_s, ratios;
  for (int round = 0; round < s.rounds; ++round) {
    plain_s.push_back(seconds_a_step(s, plain_step));
    ours_s.push_back(seconds_a_step(s, our_step));
    ratios.push_back(ours_s.back() / plain_s.back());
  }
  distributed->finish();
  const nlohmann::json json = {{"model", s.model},
                               {"device", s.device},
                               {"batch_size", s.batch_size},
                               {"plain_s", median(plain_s)},
                               {"entrain_s", median(ours_s)},
                               {"ratio", median(ratios)},
                               {"ratios", ratios}};
  fmt::print("{}\n", json.dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("entrain's overhead over a plain libtorch loop on one GPU");
  app.add_option("--model", s.model);
  app.add_option("--device", s.device);
  app.add_option("--batch-size", s.batch_size);
  app.add_option("--steps", s.steps, "In one turn");
  app.add_option("--rounds", s.rounds, "Turns of each");
  CLI11_PARSE(app, argc, argv);
  return run(s);
}
