#include "entrain/models/amoebanet.h"

#include <array>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/classifier.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

enum class Kind { kIdentity, kAverage3, kMax3, kMax2, kConv1, kConv3, kConv1x7x1 };

struct Operation {
  size_t from;  // which state it reads
  Kind kind;
};

// States 0 and 1 are the outputs of the cell before and of the one before that; each pair of operations,
// added up, makes the next state; the output is some of the states, side by side.
struct Genotype {
  std::array<std::array<Operation, 2>, 5> pairs;
  std::vector<size_t> output;
};

const Genotype& normal_genotype() {
  static const Genotype genotype{{{{{{1, Kind::kConv1}, {1, Kind::kMax3}}},
                                   {{{1, Kind::kIdentity}, {0, Kind::kConv1x7x1}}},
                                   {{{0, Kind::kConv1}, {0, Kind::kConv1x7x1}}},
                                   {{{2, Kind::kMax3}, {2, Kind::kIdentity}}},
                                   {{{1, Kind::kAverage3}, {5, Kind::kConv1}}}}},
                                 {0, 3, 4, 6}};
  return genotype;
}

const Genotype& reduction_genotype() {
  static const Genotype genotype{{{{{{0, Kind::kMax2}, {0, Kind::kMax3}}},
                                   {{{2, Kind::kIdentity}, {1, Kind::kConv3}}},
                                   {{{2, Kind::kConv1x7x1}, {2, Kind::kMax3}}},
                                   {{{3, Kind::kIdentity}, {1, Kind::kMax2}}},
                                   {{{2, Kind::kAverage3}, {3, Kind::kConv1}}}}},
                                 {4, 5, 6}};
  return genotype;
}

struct ReluConvNormImpl : nn::Module {
  ReluConvNormImpl(int64_t in, int64_t out, std::array<int64_t, 2> kernel, std::array<int64_t, 2> stride)
      : conv(register_module("conv", nn::Conv2d(nn::Conv2dOptions(in, out, {kernel[0], kernel[1]})
                                                    .stride({stride[0], stride[1]})
                                                    .padding({kernel[0] / 2, kernel[1] / 2})
                                                    .bias(false)))),
        norm(register_module("norm", layers::BatchNorm2d(out))) {}
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(torch::relu(x))); }

  nn::Conv2d conv;
  layers::BatchNorm2d norm;
};
TORCH_MODULE(ReluConvNorm);

ReluConvNorm conv1(int64_t in, int64_t out, int64_t stride = 1) {
  return ReluConvNorm(in, out, std::array<int64_t, 2>{1, 1}, std::array<int64_t, 2>{stride, stride});
}

// Halves the sides: one half of the channels from the even places, the other from the odd ones.
struct HalveImpl : nn::Module {
  HalveImpl(int64_t in, int64_t out)
      : even(register_module("even", nn::Conv2d(nn::Conv2dOptions(in, out / 2, 1).stride(2).bias(false)))),
        odd(register_module("odd", nn::Conv2d(nn::Conv2dOptions(in, out / 2, 1).stride(2).bias(false)))),
        norm(register_module("norm", layers::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const auto x = torch::relu(input);
    const auto first = even(x);  // apart: the order of use is part of G
    const auto second = odd(x.slice(2, 1).slice(3, 1));
    return norm(torch::cat({first, second}, 1));
  }

  nn::Conv2d even, odd;
  layers::BatchNorm2d norm;
};
TORCH_MODULE(Halve);

nn::Sequential make_operation(Kind kind, int64_t channels, int64_t stride) {
  const int64_t narrow = channels / 4;
  const auto conv = [&](std::array<int64_t, 2> kernel, std::array<int64_t, 2> strides) {
    return ReluConvNorm(narrow, narrow, kernel, strides);
  };
  switch (kind) {
    case Kind::kIdentity:
      return nn::Sequential(nn::Identity());
    case Kind::kAverage3:
      return nn::Sequential(
          nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(stride).padding(1).count_include_pad(false)));
    case Kind::kMax3:
      return nn::Sequential(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(stride).padding(1)));
    case Kind::kMax2:
      return nn::Sequential(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(stride)));
    case Kind::kConv1:
      return nn::Sequential(conv1(channels, channels, stride));
    case Kind::kConv3:
      return nn::Sequential(conv1(channels, narrow), conv({3, 3}, {stride, stride}), conv1(narrow, channels));
    case Kind::kConv1x7x1:
      return nn::Sequential(conv1(channels, narrow), conv({1, 7}, {1, stride}), conv({7, 1}, {stride, 1}),
                            conv1(narrow, channels));
  }
  fail("unknown operation");
}

struct CellImpl : nn::Module {
  // `halve`: the older input has twice the sides of the newer.
  CellImpl(int64_t in, int64_t older, int64_t channels, bool reduction, bool halve)
      : genotype(reduction ? reduction_genotype() : normal_genotype()) {
    fit->push_back(conv1(in, channels));
    if (halve) {
      fit_older->push_back(Halve(older, channels));
    } else if (older != channels) {
      fit_older->push_back(conv1(older, channels));
    } else {
      fit_older->push_back(nn::Identity());
    }
    register_module("fit", fit);
    register_module("fit_older", fit_older);
    for (const auto& pair : genotype.pairs) {
      for (const auto& [from, kind] : pair) {
        const int64_t stride = reduction && from < 2 ? 2 : 1;
        operations.push_back(register_module("operation" + std::to_string(operations.size()),
                                             make_operation(kind, channels, stride)));
      }
    }
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& older) {
    std::vector<torch::Tensor> states{fit->forward(x)};
    states.push_back(fit_older->forward(older));
    for (size_t i = 0; i < genotype.pairs.size(); ++i) {
      const auto& [a, b] = genotype.pairs[i];
      const auto first = operations[2 * i]->forward(states[a.from]);
      states.push_back(first + operations[2 * i + 1]->forward(states[b.from]));
    }
    std::vector<torch::Tensor> output;
    for (const size_t state : genotype.output) output.push_back(states[state]);
    return torch::cat(output, 1);
  }

  const Genotype& genotype;
  nn::Sequential fit, fit_older;
  std::vector<nn::Sequential> operations;
};
TORCH_MODULE(Cell);

class AmoebanetD : public Classifier {
 public:
  explicit AmoebanetD(const AmoebanetOptions& options) : options_(options) {
    channels_ = older_ = in_ = options.filters / 4;
    stem_ = register_module("stem",
                            nn::Conv2d(nn::Conv2dOptions(3, channels_, 3).stride(2).padding(1).bias(false)));
    stem_norm_ = register_module("stem_norm", layers::BatchNorm2d(channels_));
    append_cell(true);
    append_cell(true);
    for (int stage = 0; stage < 3; ++stage) {
      if (stage > 0) append_cell(true);
      for (int64_t i = 0; i < options.layers / 3; ++i) append_cell(false);
    }
    fc_ = register_module("fc", nn::Linear(in_, options.classes));
  }

  std::vector<layers::Layer> parts() override {
    std::vector<layers::Layer> result;
    result.push_back({"stem", group({{"conv", stem_.ptr()}, {"norm", stem_norm_.ptr()}}),
                      [conv = stem_, norm = stem_norm_](const torch::Tensor& x, layers::Skips&) mutable {
                        return norm(conv(x));
                      }});
    for (size_t i = 0; i < cells_.size(); ++i) result.push_back(cell_layer(i));
    result.push_back({"fc", fc_.ptr(), [fc = fc_](const torch::Tensor& x, layers::Skips&) mutable {
                        return fc(x.mean({2, 3}));
                      }});
    return result;
  }

  int64_t classes() const override { return options_.classes; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_images(batch_size, options_.side, options_.classes, generator);
  }

 private:
  void append_cell(bool reduction) {
    if (reduction) channels_ *= 2;
    Cell cell(in_, older_, channels_, reduction, reduced_);
    older_ = std::exchange(in_, channels_ * static_cast<int64_t>(cell->genotype.output.size()));
    reduced_ = reduction;
    cells_.push_back(register_module(name_of(cells_.size()), cell));
  }

  static std::string name_of(size_t cell) { return "cell" + std::to_string(cell + 1); }

  // A skip is named after the layer whose output it is. It is left by the cell after that, which has it as
  // its input: from there it travels least. The first cell reads the stem's output twice.
  layers::Layer cell_layer(size_t i) const {
    const std::string own = i == 0 ? "stem" : name_of(i - 1);
    const std::string older = i == 0 ? "" : i == 1 ? "stem" : name_of(i - 2);
    const bool leave = i + 1 < cells_.size();
    layers::Layer layer{
        name_of(i), cells_[i].ptr(),
        [cell = cells_[i], own, older, leave](const torch::Tensor& x, layers::Skips& skips) mutable {
          const auto second = older.empty() ? x : skips.pop(older);
          if (leave) skips.stash(own, x);
          return cell(x, second);
        }};
    if (leave) layer.stashes = {own};
    if (!older.empty()) layer.pops = {older};
    return layer;
  }

  AmoebanetOptions options_;
  int64_t channels_, in_, older_;  // of the next cell: inside, and what it reads
  bool reduced_ = false;           // the last cell halved the sides
  nn::Conv2d stem_{nullptr};
  layers::BatchNorm2d stem_norm_{nullptr};
  std::vector<Cell> cells_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_amoebanet_d(const AmoebanetOptions& options) {
  const auto check = [](const char* what, int64_t value, int64_t unit) {
    if (value < unit || value % unit != 0) {
      bad_input("amoebanet-d: {} {}; allowed: multiples of {}", what, value, unit);
    }
  };
  check("L (normal cells)", options.layers, 3);
  check("F (filters)", options.filters, 8);
  check("side", options.side, 32);
  return std::make_shared<AmoebanetD>(options);
}

}  // namespace entrain::models
