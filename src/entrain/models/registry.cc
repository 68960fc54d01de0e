#include "entrain/models/registry.h"

#include <fmt/ranges.h>
#include <mutex>

#include "entrain/base/error.h"
#include "entrain/models/bert.h"
#include "entrain/models/cnn7.h"
#include "entrain/models/lstm.h"
#include "entrain/models/ncf.h"
#include "entrain/models/resnet.h"
#include "entrain/models/vgg.h"

namespace entrain::models {
namespace {

const VggOptions kVggSmall{.side = 32, .width = 4, .hidden = 64, .classes = 10};
const NcfOptions kNcfSmall{.users = 200, .items = 100, .factors = 8, .layers = {16, 16, 8}};

NcfOptions sparse(NcfOptions options) {
  options.sparse = true;
  return options;
}

std::vector<ModelInfo> list() {
  return {
      {"vgg16", "VGG16, 224x224", [] { return make_vgg16({}); }},
      {"vgg16-32", "VGG16, 32x32", [] { return make_vgg16({.side = 32, .classes = 10}); }},
      {"vgg16-small", "VGG16, 32x32, 1/16 of the width", [] { return make_vgg16(kVggSmall); }},
      {"vgg16-32-small", "the same as vgg16-small", [] { return make_vgg16(kVggSmall); }},
      {"resnet20", "ResNet-20, 32x32", [] { return make_cifar_resnet({}); }},
      {"resnet20-small", "one block a stage, width 4, 16x16",
       [] { return make_cifar_resnet({.blocks = 1, .width = 4, .side = 16}); }},
      {"resnet50", "ResNet-50, 224x224", [] { return make_bottleneck_resnet({}); }},
      {"resnet50-small", "one block a stage, width 4, 32x32",
       [] {
         return make_bottleneck_resnet({.blocks = {1, 1, 1, 1}, .width = 4, .side = 32, .classes = 10});
       }},
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
      {"lstm-small", "LSTM language model, 2 layers of 32, 200 tokens",
       [] { return make_lstm({.hidden = 32, .vocabulary = 200, .sequence = 8}); }},
      {"cnn7", "7-layer network of EASGD and Leader SGD, 28x28", [] { return make_cnn7({}); }},
      {"cnn7-small", "cnn7, 1/8 of the width", [] { return make_cnn7({.width = 8, .hidden = 32}); }},
      {"ncf", "NeuMF, MovieLens-20M sizes, dense gradients", [] { return make_ncf({}); }},
      {"ncf-small", "NeuMF, 200 users and 100 items, dense gradients", [] { return make_ncf(kNcfSmall); }},
      {"ncf-sparse", "NeuMF, MovieLens-20M sizes, sparse gradients", [] { return make_ncf(sparse({})); }},
      {"ncf-sparse-small", "NeuMF, 200 users and 100 items, sparse gradients",
       [] { return make_ncf(sparse(kNcfSmall)); }},
  };
}

}  // namespace

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
  for (const ModelInfo& info : zoo()) {
    if (info.name != name) continue;
    // Parameters are drawn from torch's one default generator: ranks that are threads take turns.
    static std::mutex turn;
    const std::lock_guard lock(turn);
    torch::manual_seed(seed);
    return info.make();
  }
  bad_input("unknown model '{}'; allowed: {}", name, fmt::join(names(), " "));
}

}  // namespace entrain::models
