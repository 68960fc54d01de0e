// A model under a shape, which says which ranks hold which layers and which share of the examples they take.
// Between two steps the shape changes: layers move to their new holders, and training goes on as before.
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

int main(int argc, char** argv) {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::manual_seed(0);  // the same model in every run
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256),
                              torch::nn::ReLU(), torch::nn::Linear(256, 10));
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& target) {
    return torch::cross_entropy_loss(output, target);
  };
  // Layers 0 to 3 on three ranks, rank 0 with a fifth of the examples; layer 4 on rank 0 alone.
  auto trainer = entrain::pipelined(context, model, loss, optimizer,
                                    {.shape = "0-3@0*.2,1-2*.4 4@0 m=10", .examples = 60});
  const entrain::Checkpoints checkpoints(argc > 1 ? argv[1] : "run-shaped");

  for (int64_t step = checkpoints.resume(*trainer); step < 100; ++step) {
    if (step == 50) {
      const int64_t bytes = trainer->reshape("@1,2 m=4");  // from now on rank 0 holds no layer
      std::cout << "rank " << context.rank() << " was sent " << bytes << " bytes" << std::endl;
    }
    // An update's examples follow from its step, so it does not matter which rank makes which of them.
    const double now = trainer->step([&](int64_t begin, int64_t count) {
      auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step));
      const auto x = torch::randn({60, 64}, generator).narrow(0, begin, count);
      return std::make_pair(x, x.narrow(1, 0, 10).argmax(1));
    });
    if (step % 20 == 19 && context.rank() == 0) std::cout << "loss " << now << std::endl;
  }
  checkpoints.save(100, *trainer);  // the whole model, whatever the shape
}
