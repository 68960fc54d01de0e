// `entrain pipeline`, run in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/verb_output.h"
#include "verbs.h"

namespace entrain::app {

namespace pipeline_verb {
void add_pipeline(CLI::App& app, Action& action);
}

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

testing::VerbOutput run(const std::string& arguments) {
  return testing::run_verb({pipeline_verb::add_pipeline}, "pipeline " + arguments);
}

std::string refusal(const std::string& arguments) {
  return testing::refusal_of([&] { run(arguments); });
}

TEST(PipelinePlan, SaysTheSmallestAndTheFastest) {
  const auto answer = run("plan --model transformer-small --devices 2 --memory 1GiB --batch-size 8");
  EXPECT_EQ(answer.code, 0);
  EXPECT_THAT(answer.text,
              AllOf(HasSubstr("costs measured with 1 example"), HasSubstr("smallest: 1 device, 1 micro"),
                    HasSubstr("fastest: "), HasSubstr("bubble"), HasSubstr("activations")));
}

TEST(PipelinePlan, HasTheNamesThatScriptsRelyOn) {
  const auto answer =
      run("plan --model unet-small --devices 3 --pipeline 2 --memory 1GiB,1GiB,2GiB --batch-size 8 "
          "--micro-batches 4 "
          "--schedule 1f1b --remat always --optimizer adam --link 1gbit --json");
  const Json j = Json::parse(answer.text);
  EXPECT_EQ(j.at("fits"), true);
  EXPECT_EQ(j.at("costs"), "measured");
  EXPECT_EQ(j.at("costs_batch"), 2);
  EXPECT_EQ(j.at("plans"), 1);
  const Json& plan = j.at("fastest");
  EXPECT_EQ(plan.at("devices"), 2);
  EXPECT_EQ(plan.at("micro_batches"), 4);
  EXPECT_EQ(plan.at("schedule"), "1f1b");
  EXPECT_EQ(plan.at("remat"), "always");
  EXPECT_GT(plan.at("step_s"), 0);
  EXPECT_GT(plan.at("transfer_share"), 0);
  int64_t parameters = 0;
  for (const Json& device : plan.at("memory")) parameters += device.at("parameter_bytes").get<int64_t>();
  EXPECT_EQ(parameters, j.at("parameters").get<int64_t>() * 4 * (2 + 2));
}

TEST(PipelinePlan, DoesNotFitIsAnAnswer) {
  const auto answer =
      run("plan --model vgg16 --devices 2 --memory 100MiB --batch-size 4 --estimate --flops 1e12");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text,
              AllOf(HasSubstr("does not fit: by "), HasSubstr("on device"), HasSubstr("estimated")));
}

TEST(PipelinePlan, PlansWhatIsTooLargeToRun) {
  const auto answer =
      run("plan --model unet:24,160 --devices 4 --memory 22GiB --batch-size 32 --flops 1e13 --schedule gpipe "
          "--remat always --micro-batches 32");
  EXPECT_EQ(answer.code, 0);
  EXPECT_THAT(answer.text, AllOf(HasSubstr("costs estimated with 1 example: "), HasSubstr("fastest: ")));
}

TEST(PipelinePlan, TheUsersOwnBalance) {
  const auto answer =
      run("plan --model cnn7-small --devices 2 --balance 1,4 --batch-size 4 --estimate --flops 1e9");
  EXPECT_THAT(answer.text, HasSubstr("balance 1,4"));
}

TEST(PipelinePlan, BadInput) {
  const std::string here = " --estimate --flops 1e9 --batch-size 4 --devices 2 ";
  EXPECT_THAT(refusal("plan --model nosuch" + here), HasSubstr("vgg16"));
  EXPECT_THAT(refusal("plan --model cnn7-small --micro-batches 5" + here), HasSubstr("1..4"));
  EXPECT_THAT(refusal("plan --model cnn7-small --memory 16Gi" + here), HasSubstr("16GiB"));
  EXPECT_THAT(refusal("plan --model cnn7-small --memory 1GiB,1GiB,1GiB" + here), HasSubstr("one per device"));
  EXPECT_THAT(refusal("plan --model cnn7-small --speeds 1,2,3" + here), HasSubstr("one per device"));
  EXPECT_THAT(refusal("plan --model cnn7-small --pipeline 3" + here), HasSubstr("1..2"));
  EXPECT_THAT(refusal("plan --model cnn7-small --link fast" + here), HasSubstr("1gbit"));
  EXPECT_THAT(refusal("plan --model cnn7-small --balance 1,2" + here), HasSubstr("balance"));
  EXPECT_THAT(refusal("plan --model cnn7-small --balance 1,3,1" + here), HasSubstr("3 cells"));
  EXPECT_THAT(
      refusal("plan --model cnn7-small --estimate --flops 1e9 --batch-size 4 --devices 99 --pipeline 99"),
      HasSubstr("more cells than layers"));
  EXPECT_THAT(refusal("plan --model cnn7-small --schedule interleaved --chunks 99" + here),
              HasSubstr("more cells than"));
}

TEST(PipelinePartition, CutsCosts) {
  EXPECT_THAT(run("partition --costs 4,1,1,1,3,2 --cells 3").text, HasSubstr("balance 1,3,2: "));
  for (const std::string by : {"min-max", "min-variance", "block"}) {
    const Json j = Json::parse(run("partition --costs 4,1,1,1,3,2 --cells 2 --json --by " + by).text);
    EXPECT_EQ(j.at("balance").size(), 2u);
  }
  EXPECT_THAT(run("partition --costs 1,1,1,1 --cells 2 --speeds 3,1").text, HasSubstr("balance 3,1: "));
  EXPECT_THAT(refusal("partition --costs 1,x --cells 2"), HasSubstr("'x'"));
  EXPECT_THAT(refusal("partition --costs 1,2 --cells 3"), HasSubstr("3"));
}

// The papers' sizes, in their order: each number of devices reaches at least as far as the one before.
TEST(PipelineReach, GrowsWithDevices) {
  const Json j = Json::parse(run("reach --family unet --memory 22GiB --devices 1,2,4,8 --json --sizes 6,72 "
                                 "11,128 24,128 24,160 48,160")
                                 .text);
  int64_t before = 0;
  for (const Json& row : j.at("rows")) {
    EXPECT_GE(row.at("parameters"), before);
    before = row.at("parameters");
  }
  EXPECT_EQ(j.at("rows").back().at("model"), "unet:48,160");
}

}  // namespace
}  // namespace entrain::app
