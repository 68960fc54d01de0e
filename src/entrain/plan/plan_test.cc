#include "entrain/plan/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/plan/link_bound.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/compression.h"

namespace entrain::plan {
namespace {

using testing::HasSubstr;

// VGG16 for 32x32 in four variables of the same 134.4 MB: 33.6 M float32.
graph::Graph dense_graph() {
  graph::Graph g;
  g.model = "dense";
  const int64_t sizes[] = {1'600'000, 12'800'000, 2'400'000, 16'800'000};
  for (int i = 0; i < 4; ++i) {
    graph::Variable v;
    v.name = fmt::format("layer{}.weight", i);
    v.shape = {sizes[i] / 100, 100};
    v.ready_order = 3 - i;
    g.variables.push_back(v);
  }
  return g;
}

Plan plan_for(const std::string& builder, const graph::Graph& g, const cluster::Cluster& d) {
  return make_plan(strategy::build(builder, g, d), g, d);
}

// GOALS.md's figures for this model: 1.61 s on even links, 1.08 s with servers on the fast host.
TEST(LinkBound, OfTheKnownJobs) {
  const auto g = dense_graph();
  const auto even = cluster::parse("lab:4x1gbit");
  EXPECT_NEAR(link_bound(plan_for("allreduce", g, even), g, even).seconds, 1.61, 0.01);
  EXPECT_NEAR(best_link_bound(g, even), 1.61, 0.01);
  const auto uneven = cluster::parse("lab:1x10gbit+3x1gbit");
  EXPECT_NEAR(link_bound(plan_for("allreduce", g, uneven), g, uneven).seconds, 1.61, 0.01);
  EXPECT_NEAR(link_bound(plan_for("ps", g, uneven), g, uneven).seconds, 1.08, 0.01);
  EXPECT_NEAR(best_link_bound(g, uneven), 1.08, 0.01);
}

TEST(LinkBound, NoBuilderBeatsTheBest) {
  const auto g = dense_graph();
  for (const char* text : {"lab:2x1gbit", "lab:3x1gbit", "lab:1x10gbit+3x1gbit", "lab:2x5gbit+2x1gbit",
                           "lab:4x1gbit+1x10gbit/server", "lab:2x1gbit/ranks=2"}) {
    const auto d = cluster::parse(text);
    const double best = best_link_bound(g, d);
    for (const auto& name : strategy::names()) {
      EXPECT_GE(link_bound(plan_for(std::string(name), g, d), g, d).seconds, best * 0.999)
          << text << " " << name;
    }
  }
}

// A strategy is held against the best for the bytes that its compressor leaves.
TEST(LinkBound, NoBuilderBeatsTheBestForItsBytes) {
  auto g = dense_graph();
  g.variables.emplace_back();
  g.variables.back().name = "embedding";
  g.variables.back().shape = {10'000, 100};
  g.variables.back().sparse = true;
  g.variables.back().rows_per_step = 300;
  g.variables.back().ready_order = 4;
  for (const char* text : {"lab:2x1gbit", "lab:4x1gbit", "lab:1x10gbit+3x1gbit",
                           "lab:4x1gbit+1x10gbit/server", "lab:2x1gbit/ranks=2"}) {
    const auto d = cluster::parse(text);
    const double whole = best_link_bound(g, d);
    for (const auto& name : strategy::names()) {
      const auto built = strategy::build(std::string(name), g, d);
      EXPECT_DOUBLE_EQ(best_link_bound(make_plan(built, g, d), g, d), whole) << text << " " << name;
      for (const char* compression : {"fp16", "bf16", "powersgd", "topk"}) {
        const auto s = strategy::compressed(built, g, strategy::parse_compression(compression));
        const Plan plan = make_plan(s, g, d);
        const double best = best_link_bound(plan, g, d);
        EXPECT_LE(best, whole) << text << " " << name << "+" << compression;
        EXPECT_GE(link_bound(plan, g, d).seconds, best * 0.999) << text << " " << name << "+" << compression;
      }
    }
    const auto half =
        strategy::compressed(strategy::build("allreduce", g, d), g, strategy::parse_compression("fp16"));
    EXPECT_NEAR(best_link_bound(make_plan(half, g, d), g, d), whole / 2, 1e-3 * whole);
  }
}

TEST(LinkBound, SaysWhichLinkBinds) {
  const auto g = dense_graph();
  const auto d = cluster::parse("lab:4x1gbit");
  const LinkBound bound = link_bound(plan_for("ps", g, d), g, d);
  EXPECT_EQ(bound.host, 0);
  EXPECT_NEAR(bound.seconds, 3 * 1.075, 0.01);
}

TEST(WireBytes, AreWhatOneWorkerContributes) {
  auto g = dense_graph();
  g.variables.emplace_back();
  g.variables.back().name = "embedding";
  g.variables.back().shape = {10'000, 100};
  g.variables.back().sparse = true;
  g.variables.back().rows_per_step = 300;
  g.variables.back().ready_order = 4;
  const auto d = cluster::parse("lab:4x1gbit");
  double whole = 0;
  for (const auto& v : g.variables) whole += static_cast<double>(v.step_bytes());
  const auto total = [&](const Plan& plan) {
    double sum = 0;
    for (const Message& message : plan.messages) sum += wire_bytes(message, g);
    return sum;
  };
  for (const auto& name : strategy::names()) {  // however a variable is cut and merged
    EXPECT_NEAR(total(plan_for(std::string(name), g, d)), whole, 1e-6 * whole) << name;
  }
  const auto built = strategy::build("allreduce", g, d);
  const double rows = 300.0 * (100 * 4 + 8), dense = whole - rows;
  const auto compressed = [&](const char* text) {
    return total(make_plan(strategy::compressed(built, g, strategy::parse_compression(text)), g, d));
  };
  EXPECT_DOUBLE_EQ(compressed("fp16"), dense / 2 + rows);  // rows are never cast
  double largest = 0;  // top-k: of each message at least one element, 4 bytes and an index
  const Plan top = make_plan(strategy::compressed(built, g, strategy::parse_compression("topk")), g, d);
  for (const Message& message : top.messages) {
    if (message.exchange != Exchange::kTopK) continue;
    EXPECT_DOUBLE_EQ(wire_bytes(message, g), 12.0 * static_cast<double>(message.top_k()));
    largest = std::max(largest, wire_bytes(message, g));
  }
  EXPECT_GT(largest, 12);
}

TEST(Plan, EveryElementOfEveryVariableTravelsOnce) {
  const auto g = dense_graph();
  for (const char* text : {"local:3", "lab:3x1gbit", "lab:2x1gbit+1x10gbit/server", "lab:2x1gbit/ranks=2"}) {
    const auto d = cluster::parse(text);
    for (const auto& name : strategy::names()) {
      std::vector<int64_t> covered(g.variables.size());
      const Plan plan = plan_for(std::string(name), g, d);
      for (const Message& m : plan.messages) {
        for (const Slice& slice : m.slices) covered[slice.variable] += slice.elements;
      }
      for (size_t v = 0; v < covered.size(); ++v) {
        EXPECT_EQ(covered[v], g.variables[v].elements()) << text << " " << name;
        EXPECT_FALSE(plan.messages_of[v].empty());
      }
    }
  }
}

TEST(Plan, WhatForwardNeedsFirstGoesFirst) {
  const auto g = dense_graph();
  const auto d = cluster::parse("lab:2x1gbit");
  const Plan plan = plan_for("ps", g, d);
  for (const Message& m : plan.messages) EXPECT_EQ(m.priority, m.slices.front().variable);
}

TEST(Plan, PartsOfAServersGroupTravelTogether) {
  const auto g = dense_graph();
  const auto d = cluster::parse("lab:3x1gbit");
  auto s = strategy::build("ps", g, d);
  const auto server = [&](int variable) -> strategy::ParameterServer& {
    return std::get<strategy::ParameterServer>(s.variables[variable].parts[0].synchronizer);
  };
  for (int v = 0; v < 4; ++v) server(v).group = v == 2 ? std::optional<int>() : 7;
  server(3).destination = d.hosts[1].address;  // elsewhere: it leaves the group
  const Plan plan = make_plan(s, g, d);
  ASSERT_EQ(plan.messages.size(), 3u);
  const Message& together = plan.messages[plan.messages_of[0][0]];
  EXPECT_EQ(plan.messages_of[0], plan.messages_of[1]);
  EXPECT_NE(plan.messages_of[0], plan.messages_of[3]);
  ASSERT_EQ(together.slices.size(), 2u);
  EXPECT_EQ(together.slices[0].variable, 1);  // ready first
  EXPECT_EQ(together.priority, 0);            // of the one that is needed first
  EXPECT_THAT(together.what, HasSubstr("layer1.weight and 1 more"));
}

TEST(Plan, MessagesNameTheirVariables) {
  const auto g = dense_graph();
  const auto d = cluster::parse("lab:2x1gbit");
  EXPECT_THAT(plan_for("ps", g, d).messages[0].what, HasSubstr("layer0.weight"));
}

}  // namespace
}  // namespace entrain::plan
