// Strategies and shapes from outside that are wrong, each refused by one line that says how.
#include <gtest/gtest.h>

#include <fstream>

#include "entrain/strategy/shape_file.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/stored.h"
#include "support/malformed.h"
#include "support/temp_dir.h"

namespace entrain::strategy {
namespace {

using test::expect_refused;

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string node(const std::string& fields) {
  return R"({"node_config": [{"var_name": "w", )" + fields + "}]}";
}
std::string pipeline(const std::string& fields) { return R"({"pipeline": {)" + fields + "}}"; }
std::string optimizer(const std::string& fields) {
  return R"({"optimizer": {"rule": "lsgd", )" + fields + "}}";
}
std::string shape(const std::string& fields) { return R"({"shape": {)" + fields + "}}"; }

// 100 variables of 60,000 shards each, in 10 KB.
std::string many_shards() {
  std::string nodes;
  for (int i = 0; i < 100; ++i) {
    nodes += R"({"var_name": "w)" + std::to_string(i) +
             R"(", "partitioner": "60000", "AllReduceSynchronizer": {"spec": "RING"}},)";
  }
  nodes.pop_back();
  return R"({"node_config": [)" + nodes + "]}";
}

TEST(Malformed, StrategiesInJson) {
  expect_refused(
      {{"", "not a strategy in JSON"},
       {"[]", "not a strategy in JSON"},
       {"{", "not a strategy in JSON"},
       {"null", "not a strategy in JSON"},
       {"\xff\xfe", "not a strategy in JSON"},
       {std::string("{\0}", 3), "not a strategy in JSON"},
       {R"({"id": 1})", "not a strategy in JSON"},
       {R"({"id": "x", "colour": 1})", "colour"},
       {R"({"node_config": 3})", "node_config"},
       {R"({"node_config": [{}]})", "var_name is empty"},
       {R"({"node_config": [{"var_name": "w"}]})", "no synchronizer"},
       {repeated("[", 100'000), "not a strategy in JSON"},
       {repeated(R"({"part_config":[)", 100'000), "not a strategy in JSON"},
       {R"({"node_config": [)" + repeated(R"({"part_config":[)", 100'000), "not a strategy in JSON"},
       {R"({"id": ")" + std::string(20 << 20, 'x') + "\"}", "a strategy of 2097"},
       {many_shards(), "65536 shards of all variables together"},
       {node(R"("partitioner": "65537", "SparseAllGather": {})"), "partitioner is \"65537\""},
       {node(R"("partitioner": "2147483648", "SparseAllGather": {})"), "partitioner is"},
       {node(R"("partitioner": "-2", "SparseAllGather": {})"), "partitioner is \"-2\""},
       {node(R"("partitioner": "2,2", "SparseAllGather": {})"), "exactly one above 1"},
       {node(R"("partitioner": "1,,2", "SparseAllGather": {})"), "partitioner is"},
       {node(R"("partitioner": "nan", "SparseAllGather": {})"), "partitioner is"},
       {node(R"("partitioner": "4", "part_config": [{"SparseAllGather": {}}])"), "allowed: 4"},
       {node(R"("AllReduceSynchronizer": {"spec": 9})"), "spec is 9"},
       {node(R"("AllReduceSynchronizer": {"spec": "STAR"})"), "STAR"},
       {node(R"("AllReduceSynchronizer": {"compressor": 99})"), "compressor is 99"},
       {node(R"("AllReduceSynchronizer": {"group": 2147483648})"), "group"},
       {node(R"("AllReduceSynchronizer": {"share": "much"})"), "share"},
       {node(R"("PSSynchronizer": {"compressor": 77})"), "compressor is 77"},
       {node(R"("PSSynchronizer": {}, "AllReduceSynchronizer": {})"), "not a strategy in JSON"}},
      from_json);
}

TEST(Malformed, PipelinesOfStrategies) {
  expect_refused({{pipeline(R"("devices": 2147483647)"), "devices is 2147483647, allowed: up to 4096"},
                  {pipeline(R"("devices": 0)"), "devices is 0"},
                  {pipeline(R"("devices": -1)"), "devices is -1"},
                  {pipeline(R"("micro_batches": 2147483647)"), "micro-batches is 2147483647, allowed: up to"},
                  {pipeline(R"("micro_batches": 0)"), "micro-batches is 0"},
                  {pipeline(R"("chunks": 2147483647, "schedule": "interleaved")"), "chunks is 2147483647"},
                  {pipeline(R"("chunks": 2)"), "allowed: 1 with the schedule"},
                  {pipeline(R"("schedule": "zigzag")"), "schedule is 'zigzag'"},
                  {pipeline(R"("cells": "fibres")"), "cells is 'fibres'"},
                  {pipeline(R"("remat": "often")"), "often"},
                  {pipeline(R"("devices": 2, "balance": [2147483647, 1])"), "balance is 2147483647"},
                  {pipeline(R"("devices": 2, "balance": [-1, 1])"), "balance is -1"},
                  {pipeline(R"("devices": 2, "balance": [1])"), "allowed: 2"}},
                 from_json);
}

TEST(Malformed, OptimizersOfStrategies) {
  expect_refused({{R"({"optimizer": {"rule": "magic"}})", "rule is 'magic'"},
                  {optimizer(R"("base": "lion")"), "base is 'lion'"},
                  {optimizer(R"("learning_rate": "NaN")"), "learning rate is nan"},
                  {optimizer(R"("learning_rate": "Infinity")"), "learning rate is inf"},
                  {optimizer(R"("learning_rate": -1)"), "learning rate is -1"},
                  {optimizer(R"("learning_rate": 0)"), "learning rate is 0"},
                  {optimizer(R"("weight_decay": "NaN")"), "weight decay is nan"},
                  {optimizer(R"("weight_decay": "Infinity")"), "weight decay is inf"},
                  {optimizer(R"("clip_norm": "Infinity")"), "clip norm is inf"},
                  {optimizer(R"("clip_norm": "NaN")"), "clip norm is nan"},
                  {optimizer(R"("warmup": "NaN")"), "warm-up is nan"},
                  {optimizer(R"("warmup": 1)"), "warm-up is 1"},
                  {optimizer(R"("pull": "NaN")"), "pull strength is nan"},
                  {optimizer(R"("proximal": "NaN")"), "proximal strength is nan"},
                  {optimizer(R"("block_momentum": "NaN")"), "block momentum is nan"},
                  {optimizer(R"("block_rate": "Infinity")"), "block rate is inf"},
                  {optimizer(R"("scope": "NaN")"), "scope is nan"},
                  {optimizer(R"("period": 0)"), "period is 0"},
                  {optimizer(R"("period": "9223372036854775808")"), "period"},
                  {optimizer(R"("local_period": 99)"), "local period is 99"},
                  {optimizer(R"("groups": "-3")"), "groups is '-3'"},
                  {optimizer(R"("groups": "99999999999")"), "groups is '99999999999'"},
                  {optimizer(R"("loss_window": -1)"), "loss window is -1"},
                  {optimizer(R"("staleness": 3)"), "staleness is 3"},
                  {R"({"optimizer": {"rule": "hogwild", "threads": 2147483647}})", "threads is 2147483647"},
                  {optimizer(R"("threads": 0)"), "threads is 0"}},
                 from_json);
}

TEST(Malformed, StrategiesInBinary) {
  const auto field = [](int number, const std::string& content) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
  };
  expect_refused({{"x", "not a strategy in protobuf's binary form"},
                  {"\x0a\xff", "not a strategy in protobuf's binary form"},
                  {"\x0a\xff\xff\xff\xff\x07", "not a strategy in protobuf's binary form"},
                  {std::string(1000, '\xff'), "not a strategy in protobuf's binary form"},
                  {repeated("\x2b", 100'000), "not a strategy in protobuf's binary form"},
                  {field(3, ""), "var_name is empty"},
                  {field(3, field(1, "w")), "no synchronizer"},
                  {field(3, field(1, "w") + field(4, "65537")), "partitioner is"},
                  {field(3, field(1, "w") + field(4, "2") + field(3, "") + repeated(field(5, ""), 9)),
                   "part_config has 9 parts"},
                  {repeated(field(3, ""), 9'000'000), "a strategy of 18000000 bytes"},
                  {std::string("\x1a\xff\xff\x7f", 4) + repeated(std::string("\x2a\0", 2), 1'048'575),
                   "not a strategy in protobuf's binary form"}},
                 from_binary);
}

TEST(Malformed, ShapesOfStrategies) {
  const std::string whole = R"("cells": [{"end": 16, "ranks": [0, 1]}])";
  expect_refused(
      {{shape(R"("cells": [])"), "no cells"},
       {shape(R"("cells": [{"end": 16}])"), "has no ranks"},
       {shape(R"("cells": [{"end": -1, "ranks": [0]}])"), "ends before layer -1"},
       {shape(R"("cells": [{"begin": 1, "end": 16, "ranks": [0]}])"), "begins at layer 1"},
       {shape(R"("cells": [{"end": 16, "ranks": [-1]}])"), "rank -1"},
       {shape(R"("cells": [{"end": 16, "ranks": [2147483647]}])"), "rank 2147483647, allowed: 0 to"},
       {shape(R"("cells": [{"end": 16, "ranks": [1, 1]}])"), "lists rank 1 twice"},
       {shape(R"("cells": [{"end": 16, "ranks": [0], "shares": ["NaN"]}])"), "is nan"},
       {shape(R"("cells": [{"end": 16, "ranks": [0, 1], "shares": [1]}])"), "has 1 shares"},
       {shape(R"("cells": [{"end": 16, "ranks": [0, 1], "shares": [1, 1]}])"), "sum to 2"},
       {shape(whole + R"(, "micro_batches": 2147483647)"), "micro_batches is 2147483647"},
       {shape(whole + R"(, "micro_batches": -1)"), "micro_batches is -1"},
       {shape(whole + R"(, "micro_batches": 1)"), "allowed: 2 or more"},
       {shape(whole + R"(, "schedule": "x")"), "schedule is 'x'"},
       {shape(whole + R"(, "remat": "x")"), "x"}},
      from_json);
}

TEST(Malformed, ShapesAsText) {
  expect_refused({{"", "no cells"},
                  {"@", "cannot be read"},
                  {"@@", "cannot be read"},
                  {"@0-", "cannot be read"},
                  {"@-1", "cannot be read"},
                  {"@3-1", "cannot be read"},
                  {"@0,", "cannot be read"},
                  {"@0 @1", "cell 1 begins at layer 0"},
                  {"@4096", "rank 4096, allowed: 0 to 4095"},
                  {"@0-1048576", "rank 1048576, allowed: 0 to 4095"},
                  {"@99999999999", "cannot be read"},
                  {"@0" + repeated(",0-4095", 100'000), "allowed: 0 to 4095, each once"},
                  {"0-99999999999@0", "cannot be read"},
                  {"1048577@0", "cannot be read"},
                  {"@0*nan", "is nan"},
                  {"@0*inf", "is inf"},
                  {"@0*", "cannot be read"},
                  {"@0*-1", "is -1"},
                  {"@0 m=", "cannot be read"},
                  {"@0 m=99999999999", "cannot be read"},
                  {"@0 m=2147483647", "micro_batches is 2147483647"},
                  {"@0 m=-1", "micro_batches is -1"},
                  {"@0 colour=red", "cannot be read"},
                  {"@0 remat=x", "x"},
                  {"@0 schedule=x", "schedule is 'x'"},
                  {"@0 " + std::string(1'000'000, 'x'), "cannot be read"}},
                 [](const std::string& text) { parse_shape(text, 16); });
}

TEST(Malformed, ShapesInFiles) {
  const test::TempDir folder;
  expect_refused({{"", "no shape there"},
                  {"#" + std::string(1'000'000, 'x'), "no cells"},
                  {repeated("{", 100'000), "not a strategy in JSON"},
                  {R"({"cells": 3})", "cells"},
                  {"\xff\xff\xff", "not a strategy in protobuf's binary form"},
                  {std::string("@0\0", 3), "not a strategy in protobuf's binary form"}},
                 [&](const std::string& content) {
                   const auto path = folder.path() / "shape";
                   std::ofstream(path, std::ios::binary) << content;
                   shape_from(path.string(), 16);
                 });
}

}  // namespace
}  // namespace entrain::strategy
