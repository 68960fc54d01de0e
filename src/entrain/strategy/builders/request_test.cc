#include "entrain/strategy/builders/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "entrain/base/error.h"
#include "entrain/cluster/cluster.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "support/temp_dir.h"

namespace entrain::strategy {
namespace {

using test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

graph::Graph two_layers() {
  graph::Graph g;
  for (const char* name : {"first.weight", "second.weight"}) {
    graph::Variable v;
    v.name = name;
    v.shape = {64, 32};
    v.ready_order = 1 - static_cast<int>(g.variables.size());
    g.variables.push_back(v);
  }
  g.edges.push_back({0, 1});
  return g;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Compressor compressor_of(const Strategy& strategy) {
  return std::get<AllReduce>(strategy.variables.front().parts.front().synchronizer).compressor;
}

TEST(Request, ABuildersNameIsBuiltWhenTheModelIsKnown) {
  const cluster::Cluster c = cluster::parse("local:2");
  const Request request = "ps";
  EXPECT_TRUE(request.is_builder());
  EXPECT_EQ(request.text(), "ps");
  EXPECT_EQ(request.compressor(), "");
  EXPECT_FALSE(request.stored());
  EXPECT_NO_THROW(request.check());
  EXPECT_EQ(request.made_for(two_layers(), c), build("ps", two_layers(), c));
}

TEST(Request, ACompressorBehindTheNameIsPutOnEveryDensePart) {
  const Request request = "allreduce+powersgd:2";
  EXPECT_TRUE(request.is_builder());
  EXPECT_EQ(request.compressor(), "powersgd:2");
  const Strategy s = request.made_for(two_layers(), cluster::parse("local:2"));
  EXPECT_EQ(s.id, "allreduce+powersgd:2");
  for (const VariableConfig& v : s.variables) {
    for (const Part& part : v.parts) {
      EXPECT_EQ(std::get<AllReduce>(part.synchronizer).compressor, Compressor::kPowerSgd) << v.name;
      EXPECT_EQ(std::get<AllReduce>(part.synchronizer).rank, 2) << v.name;
    }
  }
}

TEST(Request, ServersRefuseACompressorThatOnlyAllReducesHave) {
  const std::string error =
      error_of([] { Request("ps+topk").made_for(two_layers(), cluster::parse("local:2")); });
  EXPECT_THAT(error, AllOf(HasSubstr("ps+topk"), HasSubstr("allowed: fp16, fp16-ef, bf16")));
  EXPECT_NO_THROW(Request("ps+fp16").made_for(two_layers(), cluster::parse("local:2")));
}

TEST(Request, AFileKeepsItsOwnCompressorUnlessAnotherIsNamed) {
  const TempDir folder;
  const std::string path = (folder.path() / "s.json").string();
  const cluster::Cluster c = cluster::parse("local:2");
  save(Request("allreduce+bf16").made_for(two_layers(), c), path);
  EXPECT_EQ(compressor_of(Request(path).made_for(two_layers(), c)), Compressor::kBf16);
  EXPECT_EQ(compressor_of(Request(path + "+fp16").made_for(two_layers(), c)), Compressor::kHorovod);
  EXPECT_EQ(compressor_of(Request(path + "+none").made_for(two_layers(), c)), Compressor::kNone);
}

TEST(Request, AFileIsReadOnceWhenItIsAskedFor) {
  const TempDir folder;
  const std::string path = (folder.path() / "s.pb").string();
  const cluster::Cluster c = cluster::parse("local:2");
  const Strategy written = build("byteps", two_layers(), c);
  save_tuned(written, {"cnn7", 32, "local:2", "1x1gbit"}, path);
  const Request request = path;
  std::filesystem::remove(path);
  EXPECT_FALSE(request.is_builder());
  EXPECT_EQ(request.file(), path);
  EXPECT_EQ(request.stored(), written);
  EXPECT_EQ(request.tuned_for()->model, "cnn7");
  EXPECT_EQ(request.made_for(two_layers(), c), written);
}

TEST(Request, APlusInAFilesNameIsNoCompressor) {
  const TempDir folder;
  const std::string path = (folder.path() / "with+without.json").string();
  save(build("ps", two_layers(), cluster::parse("local:2")), path);
  EXPECT_EQ(Request(path).file(), path);
  EXPECT_EQ(Request(path).compressor(), "");
}

TEST(Request, AFileThatIsElsewhereIsMissedOnlyByWhoNeedsIt) {
  const TempDir folder;
  const Request request = (folder.path() / "elsewhere.json").string();
  EXPECT_FALSE(request.is_builder());
  EXPECT_FALSE(request.stored());
  EXPECT_THAT(error_of([&] { request.check(); }), HasSubstr("elsewhere.json"));
  EXPECT_THAT(error_of([&] { request.made_for(two_layers(), cluster::parse("local:2")); }),
              HasSubstr("elsewhere.json"));
  EXPECT_THAT(error_of([&] { request.made_for_part(two_layers(), cluster::parse("local:2")); }),
              HasSubstr("elsewhere.json"));
}

TEST(Request, ATextThatIsNeitherIsRefusedWithWhatIsAllowed) {
  EXPECT_THAT(error_of([] { Request("alreduce"); }),
              AllOf(HasSubstr("\"alreduce\""), HasSubstr("did you mean"), HasSubstr("parallax"),
                    HasSubstr("strategy file")));
}

TEST(Request, OfAFileForTheWholeModelAPartTakesItsOwnVariables) {
  const TempDir folder;
  const std::string path = (folder.path() / "s.json").string();
  const cluster::Cluster c = cluster::parse("local:2");
  save(build("allreduce", two_layers(), c), path);
  graph::Graph second = two_layers();
  second.variables.erase(second.variables.begin());
  second.variables.front().ready_order = 0;
  second.edges.clear();
  EXPECT_THAT(error_of([&] { Request(path).made_for(second, c); }), HasSubstr("first.weight"));
  const Strategy part = Request(path + "+fp16").made_for_part(second, c);
  ASSERT_EQ(part.variables.size(), 1u);
  EXPECT_EQ(part.variables.front().name, "second.weight");
  EXPECT_EQ(compressor_of(part), Compressor::kHorovod);
  EXPECT_EQ(Request("ps").made_for_part(second, c), build("ps", second, c));
}

}  // namespace
}  // namespace entrain::strategy
