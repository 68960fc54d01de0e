#include "entrain/strategy/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/strategy/compression.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Validate : public ::testing::Test {
 protected:
  Validate() {
    graph_.model = "tiny";
    graph_.variables = {{"embed", {100, 8}, "float32", true, 3, 0, 0, 0, 10},
                        {"w", {8, 4}, "float32", false, 2, 0, 0, 0, 0},
                        {"h", {4, 4}, "float16", false, 1, 0, 0, 0, 0},
                        {"scale", {}, "float32", false, 0, 0, 0, 0, 0}};
    good_.variables = {
        {"embed", std::nullopt, {{AllGather{0}, {}}}},
        {"w", std::nullopt, {{AllReduce{Topology::kRing, Compressor::kNone, 1, {0, 1}}, {}}}},
        {"h", Partition{1, 2}, {{ParameterServer{"198.18.0.3"}, {}}, {ParameterServer{"198.18.0.1"}, {}}}},
        {"scale", std::nullopt, {{ParameterServer{"198.18.0.2:CPU:0"}, {}}}}};
  }

  // The error after `change` to the good strategy.
  template <typename Change>
  std::string error_after(Change change) {
    Strategy s = good_;
    change(s.variables);
    try {
      validate(s, graph_, cluster_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no InputError";
  }

  static constexpr int kEmbed = 0, kW = 1, kH = 2, kScale = 3;
  using Variables = std::vector<VariableConfig>;
  graph::Graph graph_;
  cluster::Cluster cluster_ = cluster::parse("lab:2x1gbit+1x10gbit/server");
  Strategy good_;
};

TEST_F(Validate, AcceptsAStrategyThatFits) { EXPECT_NO_THROW(validate(good_, graph_, cluster_)); }

TEST_F(Validate, RefusesAnotherModelsStrategy) {
  EXPECT_THAT(error_after([](Variables& v) { v[kW].name = "conv1.weight"; }),
              AllOf(HasSubstr("another model"), HasSubstr("conv1.weight"), HasSubstr("no such variable")));
  EXPECT_THAT(error_after([](Variables& v) { v.pop_back(); }),
              AllOf(HasSubstr("another model"), HasSubstr("scale")));
  EXPECT_THAT(error_after([](Variables& v) { v.push_back(v[0]); }), HasSubstr("twice"));
}

TEST_F(Validate, RefusesPartitionsThatDoNotExist) {
  const auto cut = [](int variable, int axis, int shards) {
    return [=](Variables& v) {
      v[variable].partition = Partition{axis, shards};
      v[variable].parts.assign(shards, v[variable].parts[0]);
    };
  };
  EXPECT_THAT(error_after(cut(kW, 0, 9)), AllOf(HasSubstr("w"), HasSubstr("9 shards"), HasSubstr("2 to 8")));
  EXPECT_THAT(error_after(cut(kW, 0, 1)), HasSubstr("2 to 8"));
  EXPECT_THAT(error_after(cut(kW, 2, 2)), AllOf(HasSubstr("axis 2"), HasSubstr("0 to 1")));
  EXPECT_THAT(error_after(cut(kEmbed, 1, 2)), AllOf(HasSubstr("embed"), HasSubstr("rows")));
  EXPECT_THAT(error_after(cut(kScale, 0, 2)), HasSubstr("scalar"));
  EXPECT_THAT(error_after([](Variables& v) { v[kH].parts.pop_back(); }), HasSubstr("allowed: 2"));
  EXPECT_THAT(error_after([](Variables& v) { v[kW].parts.clear(); }), HasSubstr("allowed: 1"));
}

TEST_F(Validate, PartitionsAreTakenUpToTheirLimits) {
  const auto cut = [](int variable, int axis, int shards) {
    return [=](Variables& v) {
      v[variable].partition = Partition{axis, shards};
      v[variable].parts.assign(shards, v[variable].parts[0]);
    };
  };
  EXPECT_EQ(error_after(cut(kW, 0, 2)), "no InputError");
  EXPECT_EQ(error_after(cut(kW, 0, 8)), "no InputError");
  EXPECT_EQ(error_after(cut(kW, 1, 4)), "no InputError");
  EXPECT_EQ(error_after(cut(kEmbed, 0, 100)), "no InputError");
  EXPECT_EQ(error_after(cut(kW, -1, 2)), "variable w: partitioner cuts axis -1, allowed: 0 to 1");
  EXPECT_EQ(error_after(cut(kW, 1, 5)), "variable w: partitioner makes 5 shards of axis 1, allowed: 2 to 4");
  graph_.variables[kW].shape = {8, 1};
  EXPECT_EQ(error_after(cut(kW, 1, 2)),
            "variable w: partitioner cuts axis 1 of size 1, allowed: an axis of 2 or more");
  graph_.variables[kW].shape = {8, 2};
  EXPECT_EQ(error_after(cut(kW, 1, 2)), "no InputError");
}

TEST_F(Validate, CompressorsAreForDenseFloat32) {
  const auto compress = [](int variable, Compressor compressor) {
    return [=](Variables& v) {
      for (Part& part : v[variable].parts) set_compression(part.synchronizer, {compressor, 4, 0.5});
    };
  };
  EXPECT_EQ(error_after(compress(kW, Compressor::kTopK)), "no InputError");
  EXPECT_EQ(error_after(compress(kScale, Compressor::kBf16)), "no InputError");
  EXPECT_EQ(error_after(compress(kH, Compressor::kBf16)),
            "variable h: compressor is bf16 and its dtype float16, allowed: None, or dtype float32");
  EXPECT_EQ(error_after([](Variables& v) {
              v[kEmbed].parts = {
                  {ParameterServer{.destination = "198.18.0.1", .compressor = Compressor::kBf16}, {}}};
            }),
            "variable embed: compressor is bf16 and its gradient is sparse, allowed: none");
  const auto reduce = [](int rank, double share) {
    return [=](Variables& v) {
      auto& s = std::get<AllReduce>(v[kW].parts[0].synchronizer);
      s.rank = rank;
      s.share = share;
    };
  };
  EXPECT_EQ(error_after(reduce(1, 1)), "no InputError");
  EXPECT_EQ(error_after(reduce(0, 1)), "variable w: rank is 0, allowed: 1 or more");
  EXPECT_EQ(error_after(reduce(1, 0)), "variable w: share is 0, allowed: above 0, at most 1");
  EXPECT_EQ(error_after(reduce(1, 1.5)), "variable w: share is 1.5, allowed: above 0, at most 1");
}

TEST_F(Validate, ServersGroupsAreNumbersOrNone) {
  const auto group = [](int number) {
    return [=](Variables& v) { std::get<ParameterServer>(v[kScale].parts[0].synchronizer).group = number; };
  };
  EXPECT_EQ(error_after(group(0)), "no InputError");
  EXPECT_EQ(error_after(group(-1)), "variable scale: group is -1, allowed: 0 or more, or none");
  EXPECT_EQ(
      error_after([](Variables& v) { std::get<AllGather>(v[kEmbed].parts[0].synchronizer).group = -1; }),
      "variable embed: group is -1, allowed: 0 or more");
}

TEST_F(Validate, NeverDensifiesASparseGradient) {
  EXPECT_THAT(error_after([](Variables& v) {
                v[kEmbed].parts = {{AllReduce{}, {}}};
              }),
              AllOf(HasSubstr("embed"), HasSubstr("densify"), HasSubstr("SparseAllGather")));
  EXPECT_THAT(error_after([](Variables& v) { v[kW].parts = {{AllGather{}, {}}}; }), HasSubstr("dense"));
}

TEST_F(Validate, RefusesUnknownServers) {
  EXPECT_THAT(error_after([](Variables& v) {
                v[kScale].parts = {{ParameterServer{"10.0.0.1"}, {}}};
              }),
              AllOf(HasSubstr("scale"), HasSubstr("10.0.0.1"), HasSubstr("198.18.0.3")));
}

TEST_F(Validate, RefusesWhatServersCannotDo) {
  EXPECT_THAT(error_after([](Variables& v) {
                v[kScale].parts = {{ParameterServer{"198.18.0.1", false, false}, {}}};
              }),
              AllOf(HasSubstr("sync"), HasSubstr("every step: true"), HasSubstr("`optimizer` async-ps")));
  EXPECT_THAT(error_after([](Variables& v) {
                v[kScale].parts = {{ParameterServer{"198.18.0.1", false, true, 3}, {}}};
              }),
              AllOf(HasSubstr("staleness is 3"), HasSubstr("every step: 0")));
  EXPECT_THAT(
      error_after([](Variables& v) {
        v[kScale].parts = {{ParameterServer{"198.18.0.1", false, true, 0, Compressor::kPowerSgd}, {}}};
      }),
      AllOf(HasSubstr("powersgd"), HasSubstr("allowed: none, fp16, fp16-ef, bf16")));
}

TEST_F(Validate, AGroupIsOneMessage) {
  const auto scale = [](const Synchronizer& s) { return [=](Variables& v) { v[kScale].parts = {{s, {}}}; }; };
  EXPECT_EQ(error_after(scale(AllReduce{Topology::kRing, Compressor::kNone, 1, {0, 1}})), "no InputError");
  EXPECT_THAT(error_after(scale(AllReduce{Topology::kTree, Compressor::kNone, 1, {0, 1}})),
              HasSubstr("one message"));
  EXPECT_THAT(error_after(scale(AllReduce{Topology::kRing, Compressor::kNone, 1, {1, 0}})),
              HasSubstr("ring_order"));
  EXPECT_THAT(error_after(scale(AllReduce{Topology::kRing, Compressor::kNone, 0, {0, 1}})),
              HasSubstr("variable embed"));
  EXPECT_THAT(error_after(scale(AllReduce{Topology::kRing, Compressor::kNone, -1, {}})),
              HasSubstr("group is -1"));
  EXPECT_THAT(error_after([](Variables& v) { v[kH].partition.reset(), v[kH].parts = v[kW].parts; }),
              AllOf(HasSubstr("h"), HasSubstr("dtype float32")));
}

TEST_F(Validate, RingOrderIsAPermutationOfTheHostsThatTrain) {
  for (const std::vector<int>& order : {std::vector<int>{0}, {0, 0}, {0, 1, 2}, {0, 2}}) {
    EXPECT_THAT(error_after([&](Variables& v) {
                  v[kW].parts = {{AllReduce{Topology::kRing, Compressor::kNone, 1, order}, {}}};
                }),
                AllOf(HasSubstr("ring_order"), HasSubstr("[0, 1]")));
  }
}

}  // namespace
}  // namespace entrain::strategy
