#include "entrain/models/densenet.h"

#include "entrain/layers/batch_norm.h"
#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  nn::Conv2d conv(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  nn::init::kaiming_uniform_(conv->weight, 0, torch::kFanIn, torch::kReLU);
  return conv;
}

// Normalized first, then convolved: what it reads was made by many layers.
struct NormConvImpl : nn::Module {
  NormConvImpl(int64_t in, int64_t out, int64_t kernel)
      : norm(register_module("norm", layers::BatchNorm2d(in))),
        conv(register_module("conv", convolution(in, out, kernel))) {}
  torch::Tensor forward(const torch::Tensor& x) { return conv(torch::relu(norm(x))); }

  layers::BatchNorm2d norm;
  nn::Conv2d conv;
};
TORCH_MODULE(NormConv);

// 1x1 to 4 times the growth, 3x3 to the growth, beside what came in.
struct DenseLayerImpl : nn::Module {
  DenseLayerImpl(int64_t in, int64_t growth)
      : a(register_module("a", NormConv(in, 4 * growth, 1))),
        b(register_module("b", NormConv(4 * growth, growth, 3))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::cat({x, b(a(x))}, 1); }

  NormConv a, b;
};
TORCH_MODULE(DenseLayer);

struct TransitionImpl : nn::Module {
  explicit TransitionImpl(int64_t in) : narrow(register_module("narrow", NormConv(in, in / 2, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::avg_pool2d(narrow(x), 2); }

  NormConv narrow;
};
TORCH_MODULE(Transition);

class Densenet : public Classifier {
 public:
  explicit Densenet(const DensenetOptions& options) : side_(options.side), classes_(options.classes) {
    int64_t channels = 2 * options.growth;
    stem_ = register_module("stem", convolution(3, channels, 7, 2));
    stem_norm_ = register_module("stem_norm", layers::BatchNorm2d(channels));
    for (size_t block = 0; block < options.blocks.size(); ++block) {
      if (block > 0) {
        stages_->push_back(Transition(channels));
        channels /= 2;
      }
      for (int64_t i = 0; i < options.blocks[block]; ++i, channels += options.growth) {
        stages_->push_back(DenseLayer(channels, options.growth));
      }
    }
    register_module("stages", stages_);
    norm_ = register_module("norm", layers::BatchNorm2d(channels));
    fc_ = register_module("fc", nn::Linear(channels, classes_));
  }

  std::vector<layers::Layer> parts() override {
    const auto stem = [conv = stem_, norm = stem_norm_](const torch::Tensor& x, layers::Skips&) mutable {
      return torch::max_pool2d(torch::relu(norm(conv(x))), 3, 2, 1);
    };
    const auto head = [norm = norm_, fc = fc_](const torch::Tensor& x, layers::Skips&) mutable {
      return fc(torch::relu(norm(x)).mean({2, 3}));
    };
    std::vector<layers::Layer> result = layers_of("stages", stages_);
    result.insert(result.begin(),
                  {"stem", group({{"stem", stem_.ptr()}, {"stem_norm", stem_norm_.ptr()}}), stem});
    result.push_back({"fc", group({{"norm", norm_.ptr()}, {"fc", fc_.ptr()}}), head});
    return result;
  }

  int64_t classes() const override { return classes_; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, side_, classes_, generator);
  }

 private:
  int64_t side_, classes_;
  nn::Conv2d stem_{nullptr};
  layers::BatchNorm2d stem_norm_{nullptr}, norm_{nullptr};
  nn::Sequential stages_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_densenet(const DensenetOptions& options) {
  return std::make_shared<Densenet>(options);
}

}  // namespace entrain::models
