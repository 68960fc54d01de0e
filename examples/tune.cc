// Finds the fastest strategy for a model of the program's own on the hosts of this job, writes it down, and
// trains with it. Before, it says what the simulation expects of each builder.
//   tune [TRIALS]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "entrain/entrain.h"

int main(int argc, char** argv) {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256),
                              torch::nn::ReLU(), torch::nn::Linear(256, 10));
  torch::manual_seed(context.rank());
  const auto x = torch::randn({32, 64});
  const auto y = x.narrow(1, 0, 10).argmax(1);
  const auto loss = [&] { return torch::cross_entropy_loss(model->forward(x), y); };

  if (context.rank() == 0) {
    const auto graph = entrain::Graph::of(*model, loss);
    const auto cluster = entrain::Cluster::of(context);
    for (const auto& name : entrain::Strategy::builders()) {
      const auto expected = entrain::simulate(entrain::Strategy::build(name, graph, cluster), graph, cluster);
      std::cout << name << ": " << 1e3 * expected.step_s << " ms expected" << std::endl;
    }
  }
  const auto tuned = entrain::tune(context, *model, loss, {.trials = argc > 1 ? std::atoi(argv[1]) : 20});
  if (context.rank() == 0) {
    tuned.best.save("tuned.json");
    std::cout << "tuned: " << 1e3 * tuned.step_s << " ms, ddp " << 1e3 * tuned.ddp_s << " ms" << std::endl;
  }

  entrain::barrier(context);  // the file is there
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  auto trainer = entrain::distribute(context, *model, optimizer, {.strategy = "tuned.json"});
  for (int step = 0; step < 20; ++step) trainer->step(loss());
  if (context.rank() == 0) std::cout << "loss " << loss().item<float>() << std::endl;
}
