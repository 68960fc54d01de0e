#include "entrain/strategy/compression.h"

#include <gmock/gmock.h>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
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
  EXPECT_THAT(refusal("topk:x"), HasSubstr("'x' is no number"));
  EXPECT_THAT(refusal("bf16:2"), HasSubstr("has no setting"));
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
