#include "entrain/strategy/stored.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Strategy every_field() {
  Strategy s;
  s.id = "trial-7";
  s.replicas = {"10.0.0.1:CPU:0", "10.0.0.2:CPU:0"};
  s.variables = {
      {"a", std::nullopt, {{ParameterServer{"10.0.0.1", true, true, 0}, 3}}},
      {"b",
       Partition{1, 2},
       {{AllReduce{Topology::kTree, Compressor::kPowerSgd, 4, {1, 0}}, 0}, {AllReduce{}, {}}}},
      {"c", Partition{0, 2}, {{ParameterServer{"10.0.0.2", false, false, 2}, {}}, {AllGather{9}, {}}}},
      {"d", std::nullopt, {{AllGather{}, -1}}},
  };
  return s;
}

std::string error_of(const std::string& json) {
  try {
    from_json(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

TEST(Stored, RoundTripsBothForms) {
  EXPECT_EQ(from_json(to_json(every_field())), every_field());
  EXPECT_EQ(from_binary(to_binary(every_field())), every_field());
}

TEST(Stored, RoundTripsEveryTopology) {
  for (const Topology t : {Topology::kAuto, Topology::kRing, Topology::kHalvingDoubling, Topology::kTree,
                           Topology::kHierarchical, Topology::kReduceScatter}) {
    Strategy s;
    s.variables = {{"w", std::nullopt, {{AllReduce{t, Compressor::kNone, 1, {}}, {}}}}};
    EXPECT_EQ(from_binary(to_binary(s)), s);
    EXPECT_EQ(from_json(to_json(s)), s);
  }
}

// The bytes that AutoDist itself would write, encoded by hand from its published field numbers:
// a tag is (number << 3) | type, type 0 varint, 2 length-delimited.
TEST(Stored, RoundTripsShapes) {
  Strategy strategy = every_field();
  strategy.shape =
      Shape{{{0, 13, {0, 1, 2}, {.2, .4, .4}}, {13, 16, {2}}}, 10, "gpipe", pipeline::Remat::kNever};
  EXPECT_EQ(from_json(to_json(strategy)), strategy);
  EXPECT_EQ(from_binary(to_binary(strategy)), strategy);
  EXPECT_THAT(to_json(strategy), HasSubstr("\"shares\""));
}

TEST(Stored, AShapeSaysOnlyWhatDiffersFromTheDefaults) {
  const Strategy strategy = from_json(R"({"shape": {"cells": [{"end": 4, "ranks": [1]}]}})");
  ASSERT_TRUE(strategy.shape);
  EXPECT_EQ(*strategy.shape, (Shape{{{0, 4, {1}}}}));
}

TEST(Stored, AShapeThatCannotBeIsRefusedWithFieldValueAndWhatIsAllowed) {
  EXPECT_THAT(error_of(R"({"shape": {"cells": [{"end": 4, "ranks": [1, 1]}]}})"),
              AllOf(HasSubstr("cell 0 lists rank 1 twice"), HasSubstr("allowed: once per cell")));
}

TEST(Stored, ReadsAutoDistsBytes) {
  using namespace std::string_literals;
  const auto field = [](int number, const std::string& content) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
  };
  const auto varint = [](int number, char value) {
    return std::string(1, static_cast<char>(number << 3)) + value;
  };

  const std::string ps = field(1, "10.0.0.1:CPU:0") + varint(2, 1) + varint(3, 1) + varint(4, 2);
  const std::string async_ps = field(1, "10.0.0.2:CPU:0");  // proto3 leaves out false and 0
  const std::string ring = varint(1, 2) + varint(2, 1) + varint(3, 5);
  const std::string nccl = varint(1, 1);
  const std::string parts =
      field(5, field(1, "v/part_0") + field(2, async_ps)) + field(5, field(1, "v/part_1") + field(3, nccl));
  const std::string message =
      field(1, "20200101T000000M000000") + field(2, "/tmp/autodist/strategies/x") +
      field(3, field(1, "w:0") + field(2, ps)) + field(3, field(1, "u:0") + field(3, ring)) +
      field(3, field(1, "v") + field(4, "1,2,1") + parts) + field(4, field(1, "10.0.0.1:GPU:0"));

  Strategy expected;
  expected.id = "20200101T000000M000000";
  expected.replicas = {"10.0.0.1:GPU:0"};
  expected.variables = {
      {"w:0", std::nullopt, {{ParameterServer{"10.0.0.1", true, true, 2}, {}}}},
      {"u:0", std::nullopt, {{AllReduce{Topology::kRing, Compressor::kHorovod, 5, {}}, {}}}},
      {"v", Partition{1, 2}, {{ParameterServer{"10.0.0.2", false, false, 0}, {}}, {AllReduce{}, {}}}},
  };
  EXPECT_EQ(from_binary(message), expected);

  // And back: what both know is written under the same numbers.
  Strategy simple;
  simple.id = "i";
  simple.variables = {{"w", std::nullopt, {{AllReduce{Topology::kRing, Compressor::kNone, 5, {}}, {}}}}};
  EXPECT_EQ(to_binary(simple),
            field(1, "i") + field(3, field(1, "w") + field(3, varint(1, 2) + varint(3, 5))));
}

TEST(Stored, OneSynchronizerServesAllShards) {
  const Strategy s = from_json(R"({"node_config": [{"var_name": "w", "partitioner": "3",
      "AllReduceSynchronizer": {"spec": "RING"}}]})");
  EXPECT_EQ(s.variables[0].parts.size(), 3u);
  EXPECT_FALSE(from_json(R"({"node_config": [{"var_name": "w", "partitioner": "1,1",
      "SparseAllGather": {}}]})")
                   .variables[0]
                   .partition);
}

TEST(Stored, JsonIsReadable) {
  const std::string json = to_json(every_field());
  EXPECT_THAT(json, AllOf(HasSubstr("\"spec\": \"TREE\""), HasSubstr("\"partitioner\": \"1,2\""),
                          HasSubstr("\"var_name\": \"b/part_1\""), HasSubstr("\"group\": 0")));
}

TEST(Stored, ErrorsNameVariableAndField) {
  const auto node = [](const std::string& fields) {
    return error_of("{\"node_config\": [{\"var_name\": \"w\", " + fields + "}]}");
  };
  EXPECT_THAT(node(R"("partitioner": "4")"), AllOf(HasSubstr("w"), HasSubstr("SparseAllGather")));
  for (const char* partitioner : {"2,2", "0,2", "a", "2,", ",2", "1,-3", "99999999999", "2 ", "1;2"}) {
    EXPECT_THAT(node(std::string("\"partitioner\": \"") + partitioner + "\""),
                AllOf(HasSubstr("variable w: partitioner"), HasSubstr("1,4,1")))
        << partitioner;
  }
  EXPECT_THAT(node(R"("partitioner": "4", "part_config": [{"SparseAllGather": {}}])"),
              HasSubstr("allowed: 4"));
  EXPECT_THAT(node(R"("AllReduceSynchronizer": {"spec": 9})"),
              AllOf(HasSubstr("spec is 9"), HasSubstr("RING")));
  EXPECT_THAT(node(R"("AllReduceSynchronizer": {"spec": "STAR"})"), HasSubstr("STAR"));
  EXPECT_THAT(node(R"("colour": 3)"), HasSubstr("colour"));
  EXPECT_THAT(error_of("{\n\"node_config\": ["), Not(HasSubstr("\n")));
  EXPECT_THROW(from_binary("\x0a\xff"), InputError);
}

TEST(Stored, FilesByTheirSuffix) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("entrain_stored_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"s.json", "s.pb"}) {
    save(every_field(), folder / name);
    EXPECT_EQ(load(folder / name), every_field());
  }
  write_file_atomically(folder / "bad.json", "[]");
  try {
    load(folder / "bad.json");
    ADD_FAILURE() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.json"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace entrain::strategy
