#include <gmock/gmock.h>
#include <torch/torch.h>

#include <thread>

#include "entrain/base/error.h"
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
                                         Size{"bert-base", 109.514}, Size{"lstm", 19.780},
                                         Size{"ncf", 31.833}, Size{"ncf-sparse", 31.833}),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(Models, UnknownNameListsTheAllowedOnes) {
  try {
    make_model("vgg17", 0);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("unknown model 'vgg17'; allowed: vgg16 vgg16-32 "));
  }
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
  if (GetParam().starts_with("resnet")) GTEST_SKIP() << "batch normalization";
  const auto model = make_model(GetParam(), 1);
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
