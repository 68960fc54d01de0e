// The example of README.md and docs/cpp.md. Run it with: entrain launch -n 4 -- build/examples/train
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

int main() {
  auto context = entrain::init();  // who am I in this job?
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  auto trainer = entrain::distribute(context, *model, optimizer, {.strategy = "allreduce"});

  torch::manual_seed(context.rank());  // each rank sees its own examples
  for (int step = 0; step < 100; ++step) {
    const auto x = torch::randn({32, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    const auto loss = torch::cross_entropy_loss(model->forward(x), y);
    trainer->step(loss);  // backward, synchronize, update
    if (step % 20 == 19 && context.rank() == 0) std::cout << "loss " << loss.item<float>() << std::endl;
  }
}
