#include <gmock/gmock.h>
#include <torch/torch.h>

#include <thread>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/registry.h"

namespace entrain::models {
namespace {

double millions(const std::string& name) {
  int64_t elements = 0;
  for (const auto& parameter : make_model(name, 1)->parameters()) elements += parameter.numel();
  return static_cast<double>(elements) / 1e6;
}

std::vector<std::string> small_names() {
  std::vector<std::string> result;
  for (const std::string& name : names()) {
    if (name.ends_with("-small")) result.push_back(name);
  }
  return result;
}

torch::Generator generator(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

bool has_batch_norm(torch::nn::Module& model) {
  const auto modules = model.modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    return dynamic_cast<layers::BatchNorm2dImpl*>(module.get()) != nullptr;
  });
}

struct Size {
  std::string name;
  double millions;
};

class PublishedSize : public testing::TestWithParam<Size> {};

TEST_P(PublishedSize, IsTheModels) { EXPECT_NEAR(millions(GetParam().name), GetParam().millions, 0.005); }

std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, PublishedSize,
                         testing::Values(Size{"vgg16", 138.358}, Size{"vgg16-32", 33.638},
                                         Size{"resnet20", 0.270}, Size{"resnet50", 25.557},
                                         Size{"resnet101", 44.549}, Size{"bert-base", 109.514},
                                         Size{"lstm", 19.780}, Size{"ncf", 31.833},
                                         Size{"ncf-sparse", 31.833}),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(Models, AnUnknownNameIsAnsweredWithTheOneThatWasMeantOrAllOfThem) {
  const auto said = [](const char* name) -> std::string {
    try {
      make_model(name, 0);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(said("vgg17"), "unknown model 'vgg17'; did you mean vgg16?");
  EXPECT_EQ(said("resnet-50"), "unknown model 'resnet-50'; did you mean resnet50?");
  EXPECT_THAT(said("nosuch"), testing::StartsWith("unknown model 'nosuch'; allowed: vgg16 vgg16-32 "));
}

TEST(Models, SizesOfAFamilyAreInTheName) {
  EXPECT_EQ(make_model("unet:2,4", 0)->parameters().size(), (5 * 2 + 1) * 2u * 3 + 1);
  EXPECT_EQ(make_model("transformer:2,16,50,8", 0)->named_parameters()["embedding.positions.weight"].size(0),
            8);
  const auto refusal = [](const std::string& name) {
    try {
      make_model(name, 0);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("unet:5"), "model 'unet:5' has 1 sizes; wanted: unet:B,C");
  EXPECT_EQ(refusal("unet:5,x4"), "model 'unet:5,x4': 'x4' is not a whole number from 1; wanted: unet:B,C");
  EXPECT_THAT(refusal("unet:5,0"), testing::HasSubstr("'0' is not a whole number from 1"));
  EXPECT_THAT(refusal("unet:5,64,"), testing::HasSubstr("'' is not a whole number from 1"));
  EXPECT_EQ(refusal("unet:2,5"), "unet: C (channels) 5; allowed: even numbers");
  EXPECT_EQ(refusal("amoebanet-d:4,8"), "amoebanet-d: L (normal cells) 4; allowed: multiples of 3");
  EXPECT_THAT(refusal("transformer:1,2,3,4,5"),
              testing::HasSubstr("wanted: transformer:LAYERS,HIDDEN[,VOCABULARY][,SEQUENCE]"));
  EXPECT_THAT(refusal("transformer:1,100"), "none");
  EXPECT_THAT(refusal("unet:"), testing::HasSubstr("wanted: unet:B,C"));
}

TEST(Models, SeedDecidesTheParametersAlsoWhenRanksAreThreads) {
  std::vector<std::shared_ptr<Model>> ranks(4);
  std::vector<std::thread> threads;
  for (auto& model : ranks) threads.emplace_back([&model] { model = make_model("bert-small", 7); });
  for (auto& thread : threads) thread.join();
  const auto expected = ranks[0]->parameters();
  for (const auto& model : ranks) {
    const auto parameters = model->parameters();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(parameters[i], expected[i]));
  }
  const auto other = make_model("bert-small", 8);
  EXPECT_FALSE(torch::equal(other->named_parameters()["tokens.weight"],
                            ranks[0]->named_parameters()["tokens.weight"]));
}

class SmallModel : public testing::TestWithParam<std::string> {};

TEST_P(SmallModel, LearnsARepeatedBatch) {
  const auto model = make_model(GetParam(), 1);
  auto random = generator(2);
  const Batch batch = model->synthetic(8, random);
  const double rate = GetParam().starts_with("ncf") || GetParam().starts_with("lstm") ? 1.0 : 0.02;
  torch::optim::SGD optimizer(model->parameters(), rate);
  const double first = model->loss(batch).item<double>();
  EXPECT_TRUE(std::isfinite(first));
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    model->loss(batch).backward();
    optimizer.step();
  }
  EXPECT_LT(model->loss(batch).item<double>(), first);
}

TEST_P(SmallModel, SyntheticDataFollowsTheGenerator) {
  const auto model = make_model(GetParam(), 1);
  auto a = generator(2), b = generator(2), c = generator(3);
  const Batch batch = model->synthetic(4, a);
  EXPECT_EQ(batch.size(), 4);
  EXPECT_TRUE(torch::equal(batch.input, model->synthetic(4, b).input));
  EXPECT_FALSE(torch::equal(batch.input, model->synthetic(4, c).input));
}

// What the equivalence of data parallelism rests on.
TEST_P(SmallModel, MeanOverEqualPartsIsTheWholeBatch) {
  const auto model = make_model(GetParam(), 1);
  if (has_batch_norm(*model)) GTEST_SKIP() << "batch normalization";
  auto random = generator(2);
  const Batch batch = model->synthetic(6, random);
  const auto gradients = [&](const Batch& part) {
    model->zero_grad();
    model->loss(part).backward();
    std::vector<torch::Tensor> result;
    for (const auto& parameter : model->parameters()) result.push_back(parameter.grad().to_dense().clone());
    return result;
  };
  const auto whole = gradients(batch);
  std::vector<std::vector<torch::Tensor>> parts;
  for (int rank = 0; rank < 3; ++rank) parts.push_back(gradients(batch.narrow(2 * rank, 2)));
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto mean = (parts[0][i] + parts[1][i] + parts[2][i]) / 3;
    const double error = (mean - whole[i]).norm().item<double>();
    EXPECT_LE(error, 1e-5 * whole[i].norm().item<double>() + 1e-9) << model->named_parameters().keys()[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, SmallModel, testing::ValuesIn(small_names()),
                         [](const auto& param) { return test_name(param.param); });

}  // namespace
}  // namespace entrain::models
