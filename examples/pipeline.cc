// A model cut into two cells that compute at the same time: on two ranks, or on threads where there is one
// rank. With four ranks there are two replicas of the pipeline, which synchronize their gradients.
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

int main() {
  auto context = entrain::init();
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256),
                              torch::nn::ReLU(), torch::nn::Linear(256, 256), torch::nn::ReLU(),
                              torch::nn::Linear(256, 10));
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& target) {
    return torch::cross_entropy_loss(output, target);
  };
  auto pipe = entrain::pipelined(context, model, loss, optimizer, {.cells = 2, .micro_batches = 8});

  torch::manual_seed(pipe->replica());  // the ranks of a pipeline see the same examples
  for (int step = 0; step < 100; ++step) {
    const auto x = torch::randn({64, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    const double now = pipe->step(x, y);
    if (step % 20 == 19 && context.rank() == 0) std::cout << "loss " << now << std::endl;
  }
  pipe->gather();  // rank 0 has the whole model now
  if (context.rank() == 0) {
    std::cout << "layers per cell:";
    for (const int layers : pipe->balance()) std::cout << " " << layers;
    std::cout << std::endl;
  }
}
