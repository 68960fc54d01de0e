#include "entrain/models/vgg.h"

#include "entrain/layers/pass.h"
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

  std::vector<layers::Layer> parts() override {
    std::vector<layers::Layer> result;
    for (size_t i = 0; i < convs_.size(); ++i) {
      result.push_back(
          {"conv" + std::to_string(i + 1), convs_[i].ptr(),
           [conv = convs_[i], pool = pool_after_[i]](const torch::Tensor& x, layers::Skips&) mutable {
             const auto y = torch::relu(conv(x));
             return pool ? torch::max_pool2d(y, 2) : y;
           }});
    }
    result.push_back(hidden("fc1", fc1_));
    result.push_back(hidden("fc2", fc2_));
    result.push_back(layers::layer_of("fc3", fc3_));
    return result;
  }

  int64_t classes() const override { return options_.classes; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, options_.side, options_.classes, generator);
  }

 private:
  layers::Layer hidden(const std::string& name, nn::Linear fc) const {
    return {name, fc.ptr(), [fc, p = options_.dropout](const torch::Tensor& x, layers::Skips&) mutable {
              return layers::drop(torch::relu(fc(x.flatten(1))), p, fc->is_training());
            }};
  }

  VggOptions options_;
  std::vector<nn::Conv2d> convs_;
  std::vector<bool> pool_after_;
  nn::Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_vgg16(const VggOptions& options) { return std::make_shared<Vgg16>(options); }

}  // namespace entrain::models
