// Two models, two optimizers, two handles: a generator learns to draw from a ring of points. The generator's
// backward leaves gradients in the discriminator, too, so each is zeroed before its own step, as ever.
#include <torch/torch.h>

#include <cmath>
#include <iostream>

#include "entrain/entrain.h"

namespace {

torch::nn::Sequential layers(int64_t in, int64_t out) {
  return torch::nn::Sequential(torch::nn::Linear(in, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64),
                               torch::nn::ReLU(), torch::nn::Linear(64, out));
}

torch::Tensor points_of_ring(int64_t count) {
  const auto angle = torch::rand({count}) * 2 * M_PI;
  return torch::stack({angle.cos(), angle.sin()}, 1) + 0.05 * torch::randn({count, 2});
}

}  // namespace

int main() {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  auto generator = layers(8, 2), discriminator = layers(2, 1);
  const auto settings = torch::optim::AdamOptions(1e-3).betas({0.5, 0.9});
  torch::optim::Adam of_generator(generator->parameters(), settings);
  torch::optim::Adam of_discriminator(discriminator->parameters(), settings);
  auto generates = entrain::distribute(context, *generator, of_generator);
  auto discriminates = entrain::distribute(context, *discriminator, of_discriminator);

  const auto loss_of = [](const torch::Tensor& verdict, bool real) {
    return torch::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, real ? 1.0 : 0.0));
  };
  torch::manual_seed(context.rank());
  for (int step = 0; step < 200; ++step) {
    const auto drawn = generator->forward(torch::randn({64, 8}));
    of_discriminator.zero_grad();
    const auto told = loss_of(discriminator->forward(points_of_ring(64)), true) +
                      loss_of(discriminator->forward(drawn.detach()), false);
    discriminates->step(told);

    of_generator.zero_grad();
    generates->step(loss_of(discriminator->forward(drawn), true));
    if (step % 50 == 49) {
      const double radius = entrain::mean(context, drawn.norm(2, 1).mean().item<double>());
      if (context.rank() == 0) std::cout << "step " << step + 1 << ", mean radius " << radius << std::endl;
    }
  }
}
