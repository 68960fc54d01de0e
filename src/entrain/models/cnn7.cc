#include "entrain/models/cnn7.h"

#include "entrain/layers/pass.h"
#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

constexpr int64_t kSide = 28;

class Cnn7 : public Classifier {
 public:
  explicit Cnn7(const Cnn7Options& options) : options_(options) {
    const int64_t width = options.width;
    conv1_ = register_module("conv1", nn::Conv2d(3, width, 5));
    conv2_ = register_module("conv2", nn::Conv2d(width, 2 * width, 5));
    conv3_ = register_module("conv3", nn::Conv2d(2 * width, width, 3));
    fc1_ = register_module("fc1", nn::Linear(width * 2 * 2, options.hidden));
    fc2_ = register_module("fc2", nn::Linear(options.hidden, options.classes));
  }

  std::vector<layers::Layer> parts() override {
    const auto pooled = [](nn::Conv2d conv) {
      return [conv](const torch::Tensor& x, layers::Skips&) mutable {
        return torch::max_pool2d(torch::relu(conv(x)), 2);
      };
    };
    const auto flat = [conv = conv3_](const torch::Tensor& x, layers::Skips&) mutable {
      return torch::relu(conv(x)).flatten(1);
    };
    const auto hidden = [fc = fc1_, p = options_.dropout](const torch::Tensor& x, layers::Skips&) mutable {
      return layers::drop(torch::relu(fc(x)), p, fc->is_training());
    };
    return {{"conv1", conv1_.ptr(), pooled(conv1_)},
            {"conv2", conv2_.ptr(), pooled(conv2_)},
            {"conv3", conv3_.ptr(), flat},
            {"fc1", fc1_.ptr(), hidden},
            layers::layer_of("fc2", fc2_)};
  }

  int64_t classes() const override { return options_.classes; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, kSide, options_.classes, generator);
  }

 private:
  Cnn7Options options_;
  nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_cnn7(const Cnn7Options& options) { return std::make_shared<Cnn7>(options); }

}  // namespace entrain::models
