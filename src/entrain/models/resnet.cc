#include "entrain/models/resnet.h"

#include "entrain/layers/batch_norm.h"
#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

// Convolution without bias (the normalization has one), normalized.
struct SquareConvNormImpl : nn::Module {
  SquareConvNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride)
      : conv(register_module(
            "conv",
            nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false)))),
        norm(register_module("norm", layers::BatchNorm2d(out))) {
    nn::init::kaiming_uniform_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)); }

  nn::Conv2d conv;
  layers::BatchNorm2d norm;
};
TORCH_MODULE(SquareConvNorm);

struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t first_stride)
      : a(register_module("a", SquareConvNorm(in, out, 3, first_stride))),
        b(register_module("b", SquareConvNorm(out, out, 3, 1))),
        stride(first_stride),
        padding(out - in) {}

  torch::Tensor forward(const torch::Tensor& x) {
    auto shortcut = x;
    if (stride > 1) shortcut = shortcut.slice(2, 0, INT64_MAX, stride).slice(3, 0, INT64_MAX, stride);
    if (padding > 0) shortcut = torch::constant_pad_nd(shortcut, {0, 0, 0, 0, 0, padding});
    return torch::relu(b(torch::relu(a(x))) + shortcut);
  }

  SquareConvNorm a, b;
  int64_t stride, padding;
};
TORCH_MODULE(BasicBlock);

struct BottleneckImpl : nn::Module {
  BottleneckImpl(int64_t in, int64_t width, int64_t stride)
      : a(register_module("a", SquareConvNorm(in, width, 1, 1))),
        b(register_module("b", SquareConvNorm(width, width, 3, stride))),
        c(register_module("c", SquareConvNorm(width, 4 * width, 1, 1))) {
    if (in != 4 * width || stride > 1) {
      shortcut = register_module("shortcut", SquareConvNorm(in, 4 * width, 1, stride));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = c(torch::relu(b(torch::relu(a(x)))));
    return torch::relu(y + (shortcut ? shortcut(x) : x));
  }

  SquareConvNorm a, b, c, shortcut{nullptr};
};
TORCH_MODULE(Bottleneck);

// Stem, stages and classifier; the two kinds differ in blocks and stem.
class Resnet : public Classifier {
 public:
  explicit Resnet(const CifarResnetOptions& options) : side_(options.side), classes_(options.classes) {
    stem_ = register_module("stem", SquareConvNorm(3, options.width, 3, 1));
    int64_t channels = options.width;
    for (int stage = 0; stage < 3; ++stage) {
      for (int64_t i = 0; i < options.blocks; ++i) {
        const int64_t width = options.width << stage;
        stages_->push_back(BasicBlock(channels, width, stage > 0 && i == 0 ? 2 : 1));
        channels = width;
      }
    }
    finish(channels);
  }

  explicit Resnet(const BottleneckResnetOptions& options)
      : side_(options.side), classes_(options.classes), pool_stem_(true) {
    stem_ = register_module("stem", SquareConvNorm(3, options.width, 7, 2));
    int64_t channels = options.width;
    for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
      for (int64_t i = 0; i < options.blocks[stage]; ++i) {
        const int64_t width = options.width << stage;
        stages_->push_back(Bottleneck(channels, width, stage > 0 && i == 0 ? 2 : 1));
        channels = 4 * width;
      }
    }
    finish(channels);
  }

  std::vector<layers::Layer> parts() override {
    const auto stem = [stem = stem_, pool = pool_stem_](const torch::Tensor& x, layers::Skips&) mutable {
      const auto y = torch::relu(stem(x));
      return pool ? torch::max_pool2d(y, 3, 2, 1) : y;
    };
    const auto head = [fc = fc_](const torch::Tensor& x, layers::Skips&) mutable {
      return fc(x.mean({2, 3}));
    };
    std::vector<layers::Layer> result = layers_of("stages", stages_);
    result.insert(result.begin(), {"stem", stem_.ptr(), stem});
    result.push_back({"fc", fc_.ptr(), head});
    return result;
  }

  int64_t classes() const override { return classes_; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, side_, classes_, generator);
  }

 private:
  void finish(int64_t channels) {
    register_module("stages", stages_);
    fc_ = register_module("fc", nn::Linear(channels, classes_));
  }

  int64_t side_, classes_;
  bool pool_stem_ = false;
  SquareConvNorm stem_{nullptr};
  nn::Sequential stages_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_cifar_resnet(const CifarResnetOptions& options) {
  return std::make_shared<Resnet>(options);
}

std::shared_ptr<Model> make_bottleneck_resnet(const BottleneckResnetOptions& options) {
  return std::make_shared<Resnet>(options);
}

}  // namespace entrain::models
