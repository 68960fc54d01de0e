// Models of the user's own, made here as Python would have saved them.
#include "entrain/models/script.h"

#include <gmock/gmock.h>
#include <torch/script.h>

#include "entrain/base/error.h"
#include "entrain/graph/capture.h"
#include "entrain/models/registry.h"
#include "support/temp_dir.h"

namespace entrain::models {
namespace {

constexpr const char* kForward = R"(
  def forward(self, x, y):
    self.count = self.count + 1
    return (torch.matmul(torch.relu(torch.matmul(x, self.first)), self.second) - y).pow(2).mean()
)";
constexpr const char* kExample = R"(
  def example(self, n: int):
    return torch.randn([n, 3]), torch.randn([n, 2])
)";

class Script : public testing::Test {
 protected:
  // Saves a module with these methods and returns the file's name.
  std::string save(const std::vector<std::string>& methods) {
    torch::jit::Module module("Own");
    torch::manual_seed(1);
    module.register_parameter("first", torch::randn({3, 4}).requires_grad_(), false);
    module.register_parameter("second", torch::randn({4, 2}).requires_grad_(), false);
    module.register_buffer("count", torch::zeros({}, torch::kInt64));
    module.register_attribute("training", c10::BoolType::get(), true);
    for (const auto& method : methods) module.define(method + "\n");
    const auto path = dir_.path() / "own.pt";
    module.save(path.string());
    return path.string();
  }

  std::string refusal(const std::vector<std::string>& methods) {
    try {
      const auto model = make_model(save(methods), 0);
      auto generator = at::detail::createCPUGenerator(2);
      model->loss(model->synthetic(5, generator));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  test::TempDir dir_;
};

TEST_F(Script, TrainsItsOwnTensorsAndSavesThem) {
  const auto model = make_model(save({kForward, kExample}), 0);
  EXPECT_EQ(model->named_parameters().keys(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(model->inputs(), (std::vector<std::string>{"x", "y"}));
  auto generator = at::detail::createCPUGenerator(2);
  const Batch batch = model->synthetic(8, generator);
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  const double before = model->loss(batch).item<double>();
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    model->loss(batch).backward();
    optimizer.step();
  }
  const double after = model->loss(batch).item<double>();
  EXPECT_LT(after, 0.9 * before);
  EXPECT_EQ(model->named_buffers()["count"].item<int64_t>(), 62)
      << "also when the script replaces its tensor";
  const auto path = dir_.path() / "trained.pt";
  save_script(*model, path);
  EXPECT_FLOAT_EQ(make_model(path.string(), 0)->loss(batch).item<float>(), after);
  EXPECT_THROW(save_script(*make_model("cnn7-small", 0), path), InputError);
}

// Gradients must come one by one, not from one operation that torch fused: they are sent as they come.
TEST_F(Script, ItsOperationsAreSeenInOrder) {
  const auto model = make_model(save({kForward, kExample}), 0);
  auto generator = at::detail::createCPUGenerator(2);
  const Batch batch = model->synthetic(8, generator);
  for (int run = 0; run < 4; ++run) {  // torch optimizes after a few
    const auto graph = graph::capture(*model, model->loss(batch));
    ASSERT_EQ(graph.variables.size(), 2u);
    EXPECT_EQ(graph.variables[0].name, "first");
    EXPECT_THAT(graph.edges, testing::ElementsAre(graph::Edge{0, 1})) << "run " << run;
  }
}

TEST_F(Script, ExamplesFollowTheGeneratorAndLeaveTorchsAlone) {
  const auto model = make_model(save({kForward, kExample}), 0);
  auto a = at::detail::createCPUGenerator(2), b = at::detail::createCPUGenerator(2);
  torch::manual_seed(5);
  const auto expected = torch::rand({1});
  torch::manual_seed(5);
  const Batch batch = model->synthetic(4, a);
  EXPECT_TRUE(torch::equal(torch::rand({1}), expected));
  EXPECT_TRUE(torch::equal(batch.input, model->synthetic(4, b).input));
  EXPECT_FALSE(torch::equal(batch.input, model->synthetic(4, a).input));
}

TEST_F(Script, WhatIsWrongIsSaid) {
  using testing::HasSubstr;
  EXPECT_EQ(refusal({kForward, kExample}), "accepted");
  EXPECT_THAT(refusal({kExample}), HasSubstr("no forward"));
  EXPECT_THAT(refusal({kForward}), HasSubstr("no method `example`"));
  EXPECT_THAT(refusal({"def forward(self, x, n: int): return self.first.sum()"}),
              HasSubstr("takes n of type int"));
  EXPECT_THAT(refusal({"def forward(self): return self.first.sum()"}), HasSubstr("takes no tensor"));
  EXPECT_THAT(refusal({"def forward(self, x): return x, x"}), HasSubstr("forward returns Tuple"));
  EXPECT_THAT(refusal({"def forward(self, x, y): return x", kExample}),
              HasSubstr("forward returns [5, 3] Float for x [5, 3] Float, y [5, 2] Float; wanted: the loss"));
  EXPECT_THAT(refusal({"def forward(self, x, y): return x.mean()", kExample}),
              HasSubstr("depends on no parameter"));
  EXPECT_THAT(refusal({"def forward(self, x): return self.first.sum()", kExample}),
              HasSubstr("example returns 2 tensors; forward takes 1: x"));
  EXPECT_THAT(refusal({"def forward(self, x, y): return torch.matmul(y, self.first).sum()", kExample}),
              HasSubstr("forward failed on x [5, 3] Float, y [5, 2] Float: RuntimeError: "));
  EXPECT_THAT(refusal({kForward, "def example(self, n: int): return torch.ones([n, 3]), torch.ones([1, 2])"}),
              HasSubstr("example(5) returns y [1, 2] Float; wanted: 5 rows"));
  EXPECT_THROW(make_model((dir_.path() / "nothere.pt").string(), 0), InputError);
}

}  // namespace
}  // namespace entrain::models
