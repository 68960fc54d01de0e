// torch::data's loaders, each worker on its own share of the examples. Batch norm's statistics are kept
// alike.
#include <torch/torch.h>

#include <iostream>

#include "entrain/entrain.h"

namespace {

// A data set as any other: number i is an example.
class Digits : public torch::data::datasets::Dataset<Digits> {
 public:
  torch::data::Example<> get(size_t index) override {
    const auto x = torch::sin(torch::arange(16) * static_cast<double>(index));
    return {x, x.narrow(0, 0, 4).argmax()};
  }
  torch::optional<size_t> size() const override { return 1000; }
};

}  // namespace

int main() {
  auto context = entrain::init();
  if (!context.trains()) return entrain::serve(context), 0;
  torch::nn::Sequential model(torch::nn::Linear(16, 64), torch::nn::BatchNorm1d(64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 4));
  torch::optim::Adam optimizer(model->parameters(), 3e-3);
  auto trainer = entrain::distribute(context, *model, optimizer, {.buffers = entrain::Buffers::kAverage});

  auto loader = torch::data::make_data_loader(Digits().map(torch::data::transforms::Stack<>()),
                                              entrain::Sampler(context, 1000), 20);
  double last = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (auto& batch : *loader) {
      const auto loss = torch::cross_entropy_loss(model->forward(batch.data), batch.target);
      trainer->step(loss);
      last = loss.item<double>();
    }
    const double mean = entrain::mean(context, last);
    if (context.rank() == 0) std::cout << "epoch " << epoch + 1 << ", loss " << mean << std::endl;
  }
}
