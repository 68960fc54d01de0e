#include "entrain/models/unet.h"

#include <fmt/format.h>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/sequential.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

// Convolution without bias (the normalization has one), normalized, leaky ReLU.
struct ConvBlockImpl : nn::Module {
  ConvBlockImpl(int64_t in, int64_t out)
      : conv(register_module("conv", nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)))),
        norm(register_module("norm", layers::BatchNorm2d(out))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::leaky_relu(norm(conv(x)), 0.01); }

  nn::Conv2d conv;
  layers::BatchNorm2d norm;
};
TORCH_MODULE(ConvBlock);

class Unet : public SequentialModel {
 public:
  explicit Unet(const UnetOptions& options) : options_(options) {
    int64_t channels = 3;
    for (int64_t level = 0; level < options.levels; ++level) {
      const int64_t width = options.channels << level;
      down_.push_back(stage(down_name(level), channels, width, width));
      channels = width;
    }
    bottom_ = stage("bottom", channels, 2 * channels, channels);
    for (int64_t level = options.levels - 1; level >= 0; --level) {
      const int64_t width = (options.channels << level) / 2;
      up_.push_back(stage(up_name(level), 2 * channels, width, width));  // from below, and the copy
      channels = width;
    }
    mask_ = register_module("mask", nn::Conv2d(nn::Conv2dOptions(channels, 1, 1).bias(false)));
  }

  // A layer for each convolution: the first of a stage up begins with its copy, the last of a stage down
  // ends with leaving it.
  layers::Sequence sequence() override {
    std::vector<layers::Layer> result;
    const auto append = [&](const std::string& name, const nn::Sequential& stage) {
      for (layers::Layer& layer : layers_of(name, stage)) result.push_back(std::move(layer));
    };
    for (int64_t level = 0; level < options_.levels; ++level) {
      append(down_name(level), down_[static_cast<size_t>(level)]);
      leave_copy(result.back(), down_name(level));
    }
    append("bottom", bottom_);
    for (int64_t level = options_.levels - 1; level >= 0; --level) {
      const size_t first = result.size();
      append(up_name(level), up_[static_cast<size_t>(options_.levels - 1 - level)]);
      take_copy(result[first], down_name(level));
    }
    result.push_back(layers::layer_of("mask", mask_));
    // Binary cross entropy: log(1 + exp(x)) - x t. libtorch 2's own has no meta kernel, which plans are made
    // by.
    return {std::move(result), [](const torch::Tensor& logits, const torch::Tensor& target) {
              return (torch::softplus(logits) - logits * target).mean();
            }};
  }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_discs(batch_size, options_.side, generator);
  }

 private:
  static std::string down_name(int64_t level) { return fmt::format("down{}", level + 1); }
  static std::string up_name(int64_t level) { return fmt::format("up{}", level + 1); }

  nn::Sequential stage(const std::string& name, int64_t in, int64_t middle, int64_t out) {
    nn::Sequential blocks;
    for (int64_t i = 0; i < options_.convolutions; ++i) {
      blocks->push_back(ConvBlock(i == 0 ? in : middle, i + 1 == options_.convolutions ? out : middle));
    }
    return register_module(name, blocks);
  }

  static void leave_copy(layers::Layer& layer, const std::string& skip) {
    layer.stashes = {skip};
    layer.forward = [block = layer.forward, skip](const torch::Tensor& x, layers::Skips& skips) {
      const auto y = block(x, skips);
      skips.stash(skip, y);
      return torch::max_pool2d(y, 2);
    };
  }

  static void take_copy(layers::Layer& layer, const std::string& skip) {
    layer.pops = {skip};
    layer.forward = [block = layer.forward, skip](const torch::Tensor& x, layers::Skips& skips) {
      const auto copy = skips.pop(skip);
      const auto wide = torch::upsample_nearest2d(x, copy.sizes().slice(2));
      return block(torch::cat({wide, copy}, 1), skips);
    };
  }

  UnetOptions options_;
  std::vector<nn::Sequential> down_, up_;  // in the order of use
  nn::Sequential bottom_{nullptr};
  nn::Conv2d mask_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_unet(const UnetOptions& options) {
  if (options.channels % 2 != 0) bad_input("unet: C (channels) {}; allowed: even numbers", options.channels);
  if (options.side % (1 << options.levels) != 0) {
    bad_input("unet: side {}; allowed: multiples of {}", options.side, 1 << options.levels);
  }
  return std::make_shared<Unet>(options);
}

}  // namespace entrain::models
