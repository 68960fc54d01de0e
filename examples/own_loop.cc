// DistributedDataParallel's contract: backward() leaves the mean gradients in .grad, and the rest is the
// program's own: clipping by value, the gradients' norm, an optimizer with a schedule, evaluation, a stop
// rule.
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

int main() {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0.01));
  torch::optim::StepLR schedule(optimizer, 40, 0.5);
  auto trainer = entrain::distribute(context, *model, optimizer);

  torch::manual_seed(context.rank());
  for (int step = 0; step < 200; ++step) {
    const auto x = torch::randn({32, 64});
    const auto y = x.narrow(1, 0, 10).argmax(1);
    const auto loss = torch::cross_entropy_loss(model->forward(x), y);
    trainer->backward(loss);
    torch::nn::utils::clip_grad_value_(model->parameters(), 0.5);
    const double norm = torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    optimizer.zero_grad();

    const double mean = entrain::mean(context, loss.item<double>());  // the same on all ranks
    if (step % 40 == 39) {
      entrain::on_rank_0(context, [&] {
        std::cout << "step " << step + 1 << ", loss " << mean << ", gradient norm " << norm << std::endl;
      });
    }
    if (entrain::any(context, mean < 0.3)) break;  // all ranks stop at the same step
  }
}
