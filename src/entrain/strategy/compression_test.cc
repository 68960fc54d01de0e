#include "entrain/strategy/compression.h"

#include <gmock/gmock.h>

#include <tuple>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::strategy {
namespace {

using ::testing::HasSubstr;

graph::Graph small_graph() {
  graph::Graph g;
  g.model = "m";
  graph::Variable dense, sparse, wide;
  dense.name = "dense";
  dense.shape = {64, 32};
  sparse.name = "rows";
  sparse.shape = {100, 8};
  sparse.sparse = true;
  sparse.rows_per_step = 4;
  wide.name = "double";
  wide.shape = {8};
  wide.dtype = "float64";
  g.variables = {dense, sparse, wide};
  return g;
}

std::string refusal(const std::string& text) {
  try {
    parse_compression(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Compression, NamesAndSettings) {
  EXPECT_EQ(parse_compression("fp16").compressor, Compressor::kHorovod);
  EXPECT_EQ(parse_compression("powersgd:8").rank, 8);
  EXPECT_EQ(parse_compression("topk:0.001").share, 0.001);
  EXPECT_THAT(refusal("fp8"), HasSubstr("allowed: none, fp16"));
  EXPECT_THAT(refusal("powersgd:0"), HasSubstr("rank 0"));
  EXPECT_THAT(refusal("topk:2"), HasSubstr("share 2"));
  EXPECT_THAT(refusal("topk:x"), HasSubstr("'x' is not a number"));
  EXPECT_THAT(refusal("bf16:2"), HasSubstr("has no setting"));
}

TEST(Compression, SettingsAreTakenUpToTheirLimits) {
  EXPECT_EQ(parse_compression("powersgd:1").rank, 1);
  EXPECT_EQ(parse_compression("topk:1").share, 1);
  EXPECT_EQ(parse_compression("powersgd"), (Compression{Compressor::kPowerSgd, 4, 0.01}));
  EXPECT_THAT(refusal("topk:0"), HasSubstr("share 0"));
  EXPECT_THAT(refusal("topk:-1"), HasSubstr("share -1"));
  EXPECT_THAT(refusal("topk:nan"), HasSubstr("share nan"));
  EXPECT_THAT(refusal("topk:0.1x"), HasSubstr("'0.1x' is not a number"));
  EXPECT_THAT(refusal("powersgd:"), HasSubstr("'' is not a number"));
  EXPECT_THAT(refusal(""), HasSubstr("compressor is ''; allowed: none, fp16"));
  EXPECT_THAT(refusal("none:1"), HasSubstr("has no setting"));
  EXPECT_TRUE(is_compressor("topk"));
  EXPECT_TRUE(is_compressor("topk:x"));
  EXPECT_FALSE(is_compressor("top"));
  EXPECT_FALSE(is_compressor(""));
}

TEST(Compression, CastsAndErrorFeedbackAreKnownByName) {
  for (const auto& [name, cast, feedback] : {std::tuple("none", false, false),
                                             {"fp16", true, false},
                                             {"fp16-ef", true, true},
                                             {"bf16", true, false},
                                             {"powersgd", false, true},
                                             {"topk", false, true}}) {
    const Compressor compressor = parse_compression(name).compressor;
    EXPECT_EQ(name_of(compressor), name);
    EXPECT_EQ(is_cast(compressor), cast) << name;
    EXPECT_EQ(has_error_feedback(compressor), feedback) << name;
  }
}

TEST(Compression, ServersTakeCastsOnly) {
  const auto server_after = [](const char* text) {
    Synchronizer s = ParameterServer{.destination = "a", .compressor = Compressor::kHorovod};
    set_compression(s, parse_compression(text));
    return std::get<ParameterServer>(s).compressor;
  };
  EXPECT_EQ(server_after("none"), Compressor::kNone);
  EXPECT_EQ(server_after("bf16"), Compressor::kBf16);
  EXPECT_EQ(server_after("powersgd"), Compressor::kHorovod);
  EXPECT_EQ(server_after("topk"), Compressor::kHorovod);
  Synchronizer reduce = AllReduce{};
  set_compression(reduce, parse_compression("topk:0.5"));
  EXPECT_EQ(compression_of(std::get<AllReduce>(reduce)), (Compression{Compressor::kTopK, 4, 0.5}));
  Synchronizer gather = AllGather{};
  set_compression(gather, parse_compression("fp16"));
  EXPECT_EQ(gather, Synchronizer(AllGather{}));
}

// Every builder with every compressor: valid, stored and read back, sparse and float64 variables untouched.
TEST(Compression, EveryBuilderTakesEveryCompressor) {
  const graph::Graph g = small_graph();
  const cluster::Cluster c = cluster::parse("lab:1x10gbit+3x1gbit");
  for (const std::string& builder : names()) {
    if (builder == "ddp") continue;  // one message of one type
    for (const char* name : {"none", "fp16", "fp16-ef", "bf16", "powersgd:2", "topk:0.1"}) {
      const Strategy s = compressed(build(builder, g, c), g, parse_compression(name));
      validate(s, g, c);
      EXPECT_EQ(from_json(to_json(s)), s) << builder << " " << name;
      EXPECT_EQ(s.variables[1], build(builder, g, c).variables[1]) << builder << " " << name;
    }
  }
}

TEST(Compression, WhatNothingTakesIsRefused) {
  const graph::Graph g = small_graph();
  const cluster::Cluster c = cluster::parse("lab:1x10gbit+3x1gbit");
  EXPECT_NO_THROW(load_or_build("ps+fp16", g, c));
  EXPECT_NO_THROW(load_or_build("parallax+topk:0.1", g, c));
  for (const char* name : {"ps+powersgd", "byteps+topk:0.1"}) {
    EXPECT_THROW(load_or_build(name, g, c), InputError) << name;
  }
}

TEST(Compression, LowRankNeverSendsMore) {
  EXPECT_EQ(low_rank_elements(64, 32, 4), 4 * 96);
  EXPECT_EQ(low_rank_elements(64, 32, 40), 64 * 32);
  EXPECT_EQ(low_rank_elements(64, 1, 4), 64);
  EXPECT_EQ(low_rank_elements(2, 2, 1), 4);
}

}  // namespace
}  // namespace entrain::strategy
