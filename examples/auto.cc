// The strategy is found while the model trains: every trial step is a training step, for all strategies make
// the same update. More steps let it try more.
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "entrain/entrain.h"

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(64, 512), torch::nn::ReLU(), torch::nn::Linear(512, 512),
                              torch::nn::ReLU(), torch::nn::Linear(512, 10));
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  auto trainer = entrain::distribute(context, *model, optimizer, {.strategy = "auto", .steps = steps});

  torch::manual_seed(context.rank());
  for (int step = 0; step < steps; ++step) {
    const auto x = torch::randn({32, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    const auto loss = torch::cross_entropy_loss(model->forward(x), y);
    trainer->step(loss);
    if (step % 50 == 49 && context.rank() == 0) {
      std::cout << "step " << step + 1 << ", loss " << loss.item<float>() << ", strategy "
                << trainer->strategy().name() << std::endl;
    }
  }
  if (context.rank() == 0) trainer->strategy().save("strategy.json");  // for the next run
}
