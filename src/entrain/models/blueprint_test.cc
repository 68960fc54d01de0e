#include "entrain/models/blueprint.h"

#include <gtest/gtest.h>

#include "entrain/models/registry.h"

namespace entrain::models {
namespace {

struct Published {
  std::string name;
  double millions;
  double digit;  // of the last published figure, in millions
};

class PublishedTable : public testing::TestWithParam<Published> {};

TEST_P(PublishedTable, IsTheModels) {
  double elements = 0;
  for (const auto& parameter : make_blueprint(GetParam().name)->parameters()) {
    EXPECT_TRUE(parameter.is_meta());
    elements += static_cast<double>(parameter.numel());
  }
  EXPECT_NEAR(elements / 1e6, GetParam().millions, GetParam().digit / 2);
}

// torchgpipe's tables of what fits on 1, 1, 2, 4 and 8 devices.
INSTANTIATE_TEST_SUITE_P(AmoebanetD, PublishedTable,
                         testing::Values(Published{"amoebanet-d:18,208", 81.5, 0.1},
                                         Published{"amoebanet-d:18,416", 319.0, 0.1},
                                         Published{"amoebanet-d:18,544", 542.7, 0.1},
                                         Published{"amoebanet-d:36,544", 1060, 10},
                                         Published{"amoebanet-d:72,512", 1840, 10}));
INSTANTIATE_TEST_SUITE_P(Unet, PublishedTable,
                         testing::Values(Published{"unet:6,72", 362.2, 0.1},
                                         Published{"unet:11,128", 2210, 10},
                                         Published{"unet:24,128", 4990, 10},
                                         Published{"unet:24,160", 7800, 10},
                                         Published{"unet:48,160", 15820, 10}));

TEST(Blueprint, CountsThePublishedParameters) {
  const auto count = [](const std::string& name) {
    int64_t elements = 0;
    for (const auto& parameter : make_blueprint(name)->parameters()) elements += parameter.numel();
    return elements;
  };
  EXPECT_EQ(count("densenet121"), 7'978'856);
  EXPECT_EQ(count("inception-v3"), 23'834'568);
}

TEST(Blueprint, ImageModelsEndInOneScoreAClass) {
  for (const std::string name : {"densenet121", "inception-v3"}) {
    const auto blueprint = make_blueprint(name);
    auto generator = at::detail::createCPUGenerator(2);
    const auto input = blueprint->synthetic(2, generator).input.to(torch::kMeta);
    EXPECT_EQ(layers::forward(blueprint->sequence(), input).sizes().vec(), (std::vector<int64_t>{2, 1000}));
  }
}

TEST(Blueprint, HasTheShapesOfTheModelAndOfWhatItsLayersMake) {
  for (const std::string& name : names()) {
    if (!name.ends_with("-small")) continue;
    const auto model = make_model(name, 1), blueprint = make_blueprint(name);
    const auto parameters = model->named_parameters(), drawn = blueprint->named_parameters();
    ASSERT_EQ(drawn.keys(), parameters.keys()) << name;
    for (const auto& item : parameters) EXPECT_EQ(drawn[item.key()].sizes(), item.value().sizes());

    auto generator = at::detail::createCPUGenerator(2);
    torch::Tensor x = model->synthetic(3, generator).input, y = x.to(torch::kMeta);
    const layers::Sequence real = model->sequence(), planned = blueprint->sequence();
    layers::Skips real_skips, planned_skips;
    for (size_t i = 0; i < real.layers.size(); ++i) {
      x = real.layers[i].forward(x, real_skips);
      y = planned.layers[i].forward(y, planned_skips);
      EXPECT_TRUE(y.is_meta());
      EXPECT_EQ(y.sizes(), x.sizes()) << name << " " << real.layers[i].name;
    }
  }
}

TEST(Blueprint, LeavesLaterModelsReal) {
  make_blueprint("cnn7-small");
  EXPECT_FALSE(make_model("cnn7-small", 1)->parameters()[0].is_meta());
}

}  // namespace
}  // namespace entrain::models
