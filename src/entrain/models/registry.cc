#include "entrain/models/registry.h"

#include <fmt/ranges.h>

#include <charconv>
#include <mutex>

#include "entrain/base/error.h"
#include "entrain/base/suggest.h"
#include "entrain/models/amoebanet.h"
#include "entrain/models/bert.h"
#include "entrain/models/cnn7.h"
#include "entrain/models/densenet.h"
#include "entrain/models/inception.h"
#include "entrain/models/lstm.h"
#include "entrain/models/ncf.h"
#include "entrain/models/resnet.h"
#include "entrain/models/script.h"
#include "entrain/models/transformer.h"
#include "entrain/models/unet.h"
#include "entrain/models/vgg.h"

namespace entrain::models {
namespace {

const VggOptions kVggSmall{.side = 32, .width = 4, .hidden = 64, .classes = 10};
const NcfOptions kNcfSmall{.users = 200, .items = 100, .factors = 8, .layers = {16, 16, 8}};

NcfOptions sparse(NcfOptions options) {
  options.sparse = true;
  return options;
}

// Few tokens: a large head would outweigh the narrow blocks.
TransformerOptions narrow(int64_t layers) {
  return {.layers = layers, .hidden = 128, .vocabulary = 1000, .sequence = 64};
}

std::vector<ModelInfo> list() {
  return {
      {"vgg16", "VGG16, 224x224", [] { return make_vgg16({}); }},
      {"vgg16-32", "VGG16, 32x32", [] { return make_vgg16({.side = 32, .classes = 10}); }},
      {"vgg16-medium", "VGG16, 32x32, 1/8 of the width",
       [] { return make_vgg16({.side = 32, .width = 8, .hidden = 512, .classes = 10}); }},
      {"vgg16-small", "VGG16, 32x32, 1/16 of the width", [] { return make_vgg16(kVggSmall); }},
      {"vgg16-32-small", "the same as vgg16-small", [] { return make_vgg16(kVggSmall); }},
      {"resnet20", "ResNet-20, 32x32", [] { return make_cifar_resnet({}); }},
      {"resnet20-small", "one block per stage, width 4, 16x16",
       [] { return make_cifar_resnet({.blocks = 1, .width = 4, .side = 16}); }},
      {"resnet50", "ResNet-50, 224x224", [] { return make_bottleneck_resnet({}); }},
      {"resnet50-small", "one block per stage, width 4, 32x32",
       [] {
         return make_bottleneck_resnet({.blocks = {1, 1, 1, 1}, .width = 4, .side = 32, .classes = 10});
       }},
      {"resnet101", "ResNet-101, 224x224",
       [] {
         return make_bottleneck_resnet({.blocks = {3, 4, 23, 3}});
       }},
      {"resnet101-small", "1, 1, 3 and 1 blocks per stage, width 4, 32x32",
       [] {
         return make_bottleneck_resnet({.blocks = {1, 1, 3, 1}, .width = 4, .side = 32, .classes = 10});
       }},
      {"densenet121", "DenseNet121, 224x224", [] { return make_densenet({}); }},
      {"densenet121-small", "1, 1, 2 and 1 layers per block, growth 4, 32x32",
       [] {
         return make_densenet({.blocks = {1, 1, 2, 1}, .growth = 4, .side = 32, .classes = 10});
       }},
      {"inception-v3", "Inception v3 without auxiliary head, 299x299", [] { return make_inception_v3({}); }},
      {"inception-v3-small", "Inception v3, 75x75, 1/16 of the width",
       [] { return make_inception_v3({.divisor = 16, .side = 75, .classes = 10}); }},
      {"bert-3l", "BERT, 3 layers of 768", [] { return make_bert({.layers = 3}); }},
      {"bert-6l", "BERT, 6 layers of 768", [] { return make_bert({.layers = 6}); }},
      {"bert-base", "BERT, 12 layers of 768", [] { return make_bert({}); }},
      {"bert-large", "BERT, 24 layers of 1024",
       [] { return make_bert({.layers = 24, .hidden = 1024, .heads = 16}); }},
      {"bert-small", "BERT, 2 layers of 64, 1000 tokens",
       [] {
         return make_bert(
             {.layers = 2, .hidden = 64, .heads = 2, .vocabulary = 1000, .positions = 16, .sequence = 16});
       }},
      {"lstm", "LSTM language model, 2 layers of 650, 10000 tokens", [] { return make_lstm({}); }},
      {"lstm-medium", "LSTM language model, 2 layers of 160, 1000 tokens",
       [] { return make_lstm({.hidden = 160, .vocabulary = 1000, .sequence = 16}); }},
      {"lstm-small", "LSTM language model, 2 layers of 32, 200 tokens",
       [] { return make_lstm({.hidden = 32, .vocabulary = 200, .sequence = 8}); }},
      {"transformer", "transformer language model, 12 blocks of 512, 10000 tokens",
       [] { return make_transformer({}); }},
      {"transformer-32", "transformer language model, 32 blocks of 128, 1000 tokens",
       [] { return make_transformer(narrow(32)); }},
      {"transformer-128", "transformer language model, 128 blocks of 128, 1000 tokens",
       [] { return make_transformer(narrow(128)); }},
      {"transformer-small", "transformer language model, 4 blocks of 32, 200 tokens",
       [] {
         return make_transformer({.layers = 4, .hidden = 32, .heads = 2, .vocabulary = 200, .sequence = 16});
       }},
      {"unet", "U-Net(5, 64), 192x192", [] { return make_unet({}); }},
      {"unet-small", "U-Net(2, 4), 3 levels, 16x16",
       [] { return make_unet({.convolutions = 2, .channels = 4, .levels = 3, .side = 16}); }},
      {"amoebanet-d", "AmoebaNet-D(18, 256), 224x224", [] { return make_amoebanet_d({}); }},
      {"amoebanet-d-small", "AmoebaNet-D(3, 8), 32x32",
       [] { return make_amoebanet_d({.layers = 3, .filters = 8, .side = 32, .classes = 10}); }},
      {"cnn7", "7-layer network of EASGD and Leader SGD, 28x28", [] { return make_cnn7({}); }},
      {"cnn7-small", "cnn7, 1/8 of the width", [] { return make_cnn7({.width = 8, .hidden = 32}); }},
      {"ncf", "NeuMF, MovieLens-20M sizes, dense gradients", [] { return make_ncf({}); }},
      {"ncf-small", "NeuMF, 200 users and 100 items, dense gradients", [] { return make_ncf(kNcfSmall); }},
      {"ncf-sparse", "NeuMF, MovieLens-20M sizes, sparse gradients", [] { return make_ncf(sparse({})); }},
      {"ncf-sparse-small", "NeuMF, 200 users and 100 items, sparse gradients",
       [] { return make_ncf(sparse(kNcfSmall)); }},
  };
}

std::vector<ModelFamily> list_families() {
  using Sizes = const std::vector<int64_t>&;
  return {
      {"unet", {"B", "C"}, 2, [](Sizes s) { return make_unet({.convolutions = s[0], .channels = s[1]}); }},
      {"amoebanet-d",
       {"L", "F"},
       2,
       [](Sizes s) { return make_amoebanet_d({.layers = s[0], .filters = s[1]}); }},
      {"transformer",
       {"LAYERS", "HIDDEN", "VOCABULARY", "SEQUENCE"},
       2,
       [](Sizes s) {
         TransformerOptions options{.layers = s[0], .hidden = s[1]};
         if (s.size() > 2) options.vocabulary = s[2];
         if (s.size() > 3) options.sequence = s[3];
         return make_transformer(options);
       }},
  };
}

// "5,64" of "unet:5,64".
std::vector<int64_t> parse_sizes(const ModelFamily& family, const std::string& name) {
  std::vector<int64_t> sizes;
  const char* at = name.data() + family.name.size() + 1;
  const char* const end = name.data() + name.size();
  for (bool more = true; more;) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    more = next != end;
    if (error != std::errc() || size < 1 || (more && *next != ',')) {
      bad_input("model '{}': '{}' is not a whole number from 1; wanted: {}", name, std::string(at, end),
                family.usage());
    }
    sizes.push_back(size);
    at = next + 1;
  }
  if (sizes.size() < family.needed || sizes.size() > family.sizes.size()) {
    bad_input("model '{}' has {} sizes; wanted: {}", name, sizes.size(), family.usage());
  }
  return sizes;
}

std::function<std::shared_ptr<Model>()> find_maker(const std::string& name) {
  for (const ModelInfo& info : zoo()) {
    if (info.name == name) return info.make;
  }
  if (is_script(name)) return [name] { return load_script(name); };
  std::vector<std::string> allowed = names();
  for (const ModelFamily& family : families()) {
    if (name.starts_with(family.name + ":")) {
      return [&family, sizes = parse_sizes(family, name)] { return family.make(sizes); };
    }
    allowed.push_back(family.usage());
  }
  const std::string meant = did_you_mean(name, names());
  if (!meant.empty()) bad_input("unknown model '{}'{}", name, meant);
  bad_input("unknown model '{}'; allowed: {}, or a TorchScript file NAME.pt", name, fmt::join(allowed, " "));
}

}  // namespace

std::string ModelFamily::usage() const {
  std::string result = name;
  for (size_t i = 0; i < sizes.size(); ++i) {
    result += fmt::format(fmt::runtime(i < needed ? "{}{}" : "[{}{}]"), i == 0 ? ':' : ',', sizes[i]);
  }
  return result;
}

const std::vector<ModelFamily>& families() {
  static const std::vector<ModelFamily> list = list_families();
  return list;
}

const std::vector<ModelInfo>& zoo() {
  static const std::vector<ModelInfo> models = list();
  return models;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const ModelInfo& info : zoo()) result.push_back(info.name);
  return result;
}

std::shared_ptr<Model> make_model(const std::string& name, uint64_t seed) {
  const auto make = find_maker(name);
  // Parameters are drawn from torch's one default generator: ranks that are threads take turns.
  static std::mutex turn;
  const std::lock_guard lock(turn);
  torch::manual_seed(seed);
  return make();
}

}  // namespace entrain::models
