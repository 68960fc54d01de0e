// A job that can be killed at any moment: start it again, and it goes on from its newest checkpoint.
//   checkpoints FOLDER [STEPS]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "entrain/entrain.h"

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "run";
  const int64_t steps = argc > 2 ? std::atoi(argv[2]) : 100;
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::manual_seed(1);  // the same start in every run; rank 0's parameters count
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Dropout(0.1),
                              torch::nn::Linear(256, 10));
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  auto trainer = entrain::distribute(context, *model, optimizer);

  const entrain::Checkpoints checkpoints(folder);
  torch::manual_seed(context.rank());  // resume() sets the random numbers to those of that step
  int64_t step = checkpoints.resume(*trainer);
  if (context.rank() == 0) std::cout << "from step " << step << std::endl;
  for (torch::Tensor loss; step < steps; ++step) {
    const auto x = torch::randn({32, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    loss = torch::cross_entropy_loss(model->forward(x), y);
    trainer->step(loss);
    if (step % 20 == 19) checkpoints.save(step + 1, *trainer);
    if (step + 1 == steps && context.rank() == 0) std::cout << "loss " << loss.item<float>() << std::endl;
  }
}
