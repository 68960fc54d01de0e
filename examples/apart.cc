// Training apart: each worker steps on its own parameters, and Leader SGD pulls them together every 16 steps.
// Compare with Local SGD or EASGD by another rule.
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

int main() {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto worker = entrain::train_apart(context, *model, optimizer, {.rule = entrain::Lsgd{.period = 16}});

  torch::manual_seed(context.rank());  // each rank sees its own examples
  for (int step = 0; step < 96; ++step) {
    const auto x = torch::randn({32, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    const auto loss = torch::cross_entropy_loss(model->forward(x), y);
    worker->step(loss);  // backward, this worker's update, the pull, an exchange when it is due
    if (step % 16 == 15) {
      const double mean = entrain::mean(context, loss.item<double>());
      if (context.rank() == 0) std::cout << "step " << step + 1 << ", loss " << mean << std::endl;
    }
  }
  worker->finish();
  worker->take_result();  // the mean of the workers' parameters
  if (context.rank() == 0) std::cout << worker->exchanges() << " exchanges" << std::endl;
}
