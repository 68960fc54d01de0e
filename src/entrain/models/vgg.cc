#include "entrain/models/vgg.h"

#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

// He initialization: without batch normalization, the default lets the signal fade over 16 layers.
template <typename Layer>
Layer he(Layer layer) {
  nn::init::kaiming_uniform_(layer->weight, 0, torch::kFanIn, torch::kReLU);
  nn::init::zeros_(layer->bias);
  return layer;
}

class Vgg16 : public Classifier {
 public:
  explicit Vgg16(const VggOptions& options) : options_(options) {
    int64_t channels = 3;
    int number = 0;
    for (const auto& [factor, convolutions] : {std::pair(1, 2), {2, 2}, {4, 3}, {8, 3}, {8, 3}}) {
      for (int i = 0; i < convolutions; ++i) {
        const int64_t out = options.width * factor;
        convs_.push_back(register_module("conv" + std::to_string(++number),
                                         he(nn::Conv2d(nn::Conv2dOptions(channels, out, 3).padding(1)))));
        pool_after_.push_back(i + 1 == convolutions);
        channels = out;
      }
    }
    const int64_t cells = (options.side / 32) * (options.side / 32);
    fc1_ = register_module("fc1", he(nn::Linear(channels * cells, options.hidden)));
    fc2_ = register_module("fc2", he(nn::Linear(options.hidden, options.hidden)));
    fc3_ = register_module("fc3", nn::Linear(options.hidden, options.classes));  // torch's: small logits
  }

  torch::Tensor logits(const torch::Tensor& input) override {
    auto x = input;
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = torch::relu(convs_[i](x));
      if (pool_after_[i]) x = torch::max_pool2d(x, 2);
    }
    x = drop(torch::relu(fc1_(x.flatten(1))));
    x = drop(torch::relu(fc2_(x)));
    return fc3_(x);
  }

  int64_t classes() const override { return options_.classes; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, options_.side, options_.classes, generator);
  }

 private:
  torch::Tensor drop(const torch::Tensor& x) const {
    return options_.dropout > 0 ? torch::dropout(x, options_.dropout, is_training()) : x;
  }

  VggOptions options_;
  std::vector<nn::Conv2d> convs_;
  std::vector<bool> pool_after_;
  nn::Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_vgg16(const VggOptions& options) { return std::make_shared<Vgg16>(options); }

}  // namespace entrain::models
