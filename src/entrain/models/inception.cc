#include "entrain/models/inception.h"

#include <array>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/layers/pass.h"
#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

// One convolution: height, width, channels. Those that halve the sides are not padded, nor are the stem's.
struct Conv {
  int64_t height, width, channels;
  int64_t stride = 1;
  bool padded = true;
};

enum class Pool { kNone, kAverage, kMax };  // before a branch's convolutions; the maximum halves the sides

// Convolutions one after the other. A fork ends in two, 1x3 and 3x1, of the same input, side by side.
struct Branch {
  std::vector<Conv> convs;
  Pool pool = Pool::kNone;
  int64_t fork = 0;  // channels of each; 0: none
};

struct AnyConvNormImpl : nn::Module {
  AnyConvNormImpl(int64_t in, const Conv& c)
      : conv(register_module(
            "conv", nn::Conv2d(nn::Conv2dOptions(in, c.channels, {c.height, c.width})
                                   .stride(c.stride)
                                   .padding({c.padded ? c.height / 2 : 0, c.padded ? c.width / 2 : 0})
                                   .bias(false)))),
        norm(register_module("norm", layers::BatchNorm2d(c.channels))) {
    nn::init::kaiming_uniform_(conv->weight, 0, torch::kFanIn, torch::kReLU);
    norm->eps = 1e-3;
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm(conv(x))); }

  nn::Conv2d conv;
  layers::BatchNorm2d norm;
};
TORCH_MODULE(AnyConvNorm);

struct PathImpl : nn::Module {
  PathImpl(int64_t in, const Branch& branch) : pool(branch.pool), out(in) {
    for (const Conv& conv : branch.convs) {
      convs->push_back(AnyConvNorm(out, conv));
      out = conv.channels;
    }
    register_module("convs", convs);
    if (branch.fork == 0) return;
    wide = register_module("wide", AnyConvNorm(out, Conv{1, 3, branch.fork}));
    high = register_module("high", AnyConvNorm(out, Conv{3, 1, branch.fork}));
    out = 2 * branch.fork;
  }

  torch::Tensor forward(torch::Tensor x) {
    if (pool == Pool::kAverage) x = torch::avg_pool2d(x, 3, 1, 1);
    if (pool == Pool::kMax) x = torch::max_pool2d(x, 3, 2);
    if (!convs->is_empty()) x = convs->forward(x);
    if (!wide) return x;
    const auto first = wide(x);  // apart: the order of use is part of G
    return torch::cat({first, high(x)}, 1);
  }

  Pool pool;
  nn::Sequential convs;
  AnyConvNorm wide{nullptr}, high{nullptr};
  int64_t out;  // channels
};
TORCH_MODULE(Path);

// Branches of the same input, side by side.
struct MixedImpl : nn::Module {
  MixedImpl(int64_t in, const std::vector<Branch>& branches) {
    for (const Branch& branch : branches) {
      paths->push_back(Path(in, branch));
      out += paths->children().back()->as<Path>()->out;
    }
    register_module("paths", paths);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> made;
    for (const auto& path : *paths) made.push_back(path->as<Path>()->forward(x));
    return torch::cat(made, 1);
  }

  nn::ModuleList paths;
  int64_t out = 0;  // channels
};
TORCH_MODULE(Mixed);

// The paper's figures 5 to 7 and table 1, by the names that implementations share.
std::vector<std::vector<Branch>> blocks() {
  const auto a = [](int64_t pooled) -> std::vector<Branch> {
    return {{{{1, 1, 64}}},
            {{{1, 1, 48}, {5, 5, 64}}},
            {{{1, 1, 64}, {3, 3, 96}, {3, 3, 96}}},
            {{{1, 1, pooled}}, Pool::kAverage}};
  };
  const auto c = [](int64_t n) -> std::vector<Branch> {
    return {{{{1, 1, 192}}},
            {{{1, 1, n}, {1, 7, n}, {7, 1, 192}}},
            {{{1, 1, n}, {7, 1, n}, {1, 7, n}, {7, 1, n}, {1, 7, 192}}},
            {{{1, 1, 192}}, Pool::kAverage}};
  };
  const std::vector<Branch> b = {
      {{{3, 3, 384, 2, false}}}, {{{1, 1, 64}, {3, 3, 96}, {3, 3, 96, 2, false}}}, {{}, Pool::kMax}};
  const std::vector<Branch> d = {{{{1, 1, 192}, {3, 3, 320, 2, false}}},
                                 {{{1, 1, 192}, {1, 7, 192}, {7, 1, 192}, {3, 3, 192, 2, false}}},
                                 {{}, Pool::kMax}};
  const std::vector<Branch> e = {{{{1, 1, 320}}},
                                 {{{1, 1, 384}}, Pool::kNone, 384},
                                 {{{1, 1, 448}, {3, 3, 384}}, Pool::kNone, 384},
                                 {{{1, 1, 192}}, Pool::kAverage}};
  return {a(32), a(64), a(64), b, c(128), c(160), c(160), c(192), d, e, e};
}

class InceptionV3 : public Classifier {
 public:
  explicit InceptionV3(const InceptionOptions& options) : options_(options) {
    if (options.divisor < 1 || 16 % options.divisor != 0) {
      bad_input("inception-v3: divisor {} of the channels; allowed: 1, 2, 4, 8, 16", options.divisor);
    }
    if (options.side < 75) bad_input("inception-v3: side {}; allowed: 75 or more", options.side);
    int64_t channels = 3;
    const auto narrowed = [&](Conv conv) {
      conv.channels /= options.divisor;
      return conv;
    };
    for (const Conv& conv :
         {Conv{3, 3, 32, 2, false}, {3, 3, 32, 1, false}, {3, 3, 64}, {1, 1, 80}, {3, 3, 192, 1, false}}) {
      stem_->push_back(AnyConvNorm(channels, narrowed(conv)));
      channels = narrowed(conv).channels;
    }
    register_module("stem", stem_);
    for (std::vector<Branch> branches : blocks()) {
      for (Branch& branch : branches) {
        for (Conv& conv : branch.convs) conv = narrowed(conv);
        branch.fork /= options.divisor;
      }
      Mixed mixed(channels, branches);
      channels = mixed->out;
      mixed_->push_back(mixed);
    }
    register_module("mixed", mixed_);
    fc_ = register_module("fc", nn::Linear(channels, options.classes));
  }

  std::vector<layers::Layer> parts() override {
    std::vector<layers::Layer> result = layers_of("stem", stem_);
    for (const size_t i : {2, 4}) {  // the sides are halved after these
      result[i].forward = [conv = result[i].forward](const torch::Tensor& x, layers::Skips& skips) {
        return torch::max_pool2d(conv(x, skips), 3, 2);
      };
    }
    for (layers::Layer& layer : layers_of("mixed", mixed_)) result.push_back(std::move(layer));
    result.push_back(
        {"fc", fc_.ptr(), [fc = fc_, p = options_.dropout](const torch::Tensor& x, layers::Skips&) mutable {
           return fc(layers::drop(x.mean({2, 3}), p, fc->is_training()));
         }});
    return result;
  }

  int64_t classes() const override { return options_.classes; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, options_.side, options_.classes, generator);
  }

 private:
  InceptionOptions options_;
  nn::Sequential stem_, mixed_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_inception_v3(const InceptionOptions& options) {
  return std::make_shared<InceptionV3>(options);
}

}  // namespace entrain::models
