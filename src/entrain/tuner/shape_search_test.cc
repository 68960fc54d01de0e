#include "entrain/tuner/shape_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "entrain/base/error.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/tuner/canonical_shape.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/shape_rivals.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using strategy::parse_shape;
using strategy::Shape;
using strategy::to_text;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Eight layers of 10 ms forward and 20 ms backward per example, 4 MB each, little that flows between them.
graph::Graph model(int64_t parameters = 1'000'000) {
  graph::Graph g;
  g.model = "tower";
  g.batch_size = 4;
  for (int l = 0; l < 8; ++l) {
    graph::Variable v;
    v.name = fmt::format("w{}", l);
    v.shape = {parameters};
    v.ready_order = 7 - l;
    v.forward_s = 0.04;
    v.backward_s = 0.08;
    g.variables.push_back(v);
    g.layers.push_back({.name = "layer",
                        .variables = {l},
                        .times = {{1, 0.01, 0.02}, {4, 0.04, 0.08}},
                        .output_bytes = 1000,
                        .kept_bytes = 1'000'000});
  }
  return g;
}

dataset::Domain domain(const std::string& cluster) {
  dataset::Domain d;
  d.name = "tower@" + cluster;
  d.graph = model();
  d.cluster = cluster::parse(cluster);
  d.settings.batch_size = 4;
  d.settings.compute = "replay";
  return d;
}

PricerOptions sixteen() {
  PricerOptions options;
  options.examples = 16;
  return options;
}

TEST(ShapePricer, PricesAShapeByItsPassesAndTransfers) {
  const auto d = domain("lab:4x1gbit");
  const ShapePricer pricer(d.graph, d.cluster, {}, sixteen());
  const auto alone = pricer.price(parse_shape("@2 m=1 remat=never", 8));
  ASSERT_TRUE(alone);
  EXPECT_NEAR(alone->seconds, 16 * 8 * 0.03, 0.02);
  EXPECT_EQ(alone->strategy.id, "@2 m=1 remat=never");
  const auto four = pricer.price(parse_shape("0-1@0 2-3@1 4-5@2 6-7@3 m=16 remat=never", 8));
  ASSERT_TRUE(four);
  EXPECT_NEAR(four->seconds, (16 + 3) * 2 * 0.03, 0.1);
}

TEST(ShapePricer, SumsOfMoreRanksThanAreExactAreFlows) {
  const auto d = domain("lab:8x1gbit");
  PricerOptions options = sixteen();
  const auto transfers = [&] {
    const ShapePricer pricer(d.graph, d.cluster, {}, options);
    return pricer.simulation().estimate(pricer.synchronized(parse_shape("@0-7", 8))).transfers;
  };
  const double exact = transfers();
  options.exact_ranks = 4;
  EXPECT_LT(transfers(), exact);
}

TEST(ShapePricer, TakesTheBuilderThatSuitsTheReplicas) {
  const auto d = domain("lab:1x10gbit+3x100mbit");
  const ShapePricer pricer(d.graph, d.cluster, {}, sixteen());
  const auto found = pricer.price(parse_shape("@0-3", 8));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->strategy.id, "@0-3 ps");  // the server's link is the fast one
}

TEST(ShapePricer, HasNoPriceForWhatDoesNotFit) {
  auto d = domain("lab:4x1gbit");
  EXPECT_FALSE(ShapePricer(d.graph, d.cluster, {}, sixteen()).price(parse_shape("@0 m=17", 8)));
  EXPECT_FALSE(ShapePricer(d.graph, d.cluster, {}, sixteen()).price(parse_shape("@4", 8)));
  d.cluster.hosts[1].memory_gib = 0.01;
  const ShapePricer pricer(d.graph, d.cluster, {}, sixteen());
  EXPECT_FALSE(pricer.price(parse_shape("@1", 8)));
  EXPECT_TRUE(pricer.price(parse_shape("@2", 8)));
}

// Batch norm: another number of micro-batches would be another update.
TEST(ShapePricer, KeepsTheMicroBatchesOfAModelThatMixesExamples) {
  const auto d = domain("lab:4x1gbit");
  PricerOptions options = sixteen();
  options.micro_batches = 4;
  const ShapePricer pricer(d.graph, d.cluster, {}, options);
  EXPECT_FALSE(pricer.price(parse_shape("@0 m=8", 8)));
  EXPECT_TRUE(pricer.price(parse_shape("@0 m=4", 8)));
  EXPECT_TRUE(pricer.price(parse_shape("@0-3", 8)));
  EXPECT_TRUE(pricer.price(parse_shape("@0*.25,1*.75 m=4", 8)));
  EXPECT_FALSE(pricer.price(parse_shape("@0*.3,1*.7 m=4", 8))) << "as many, but of other sizes";
}

TEST(ShapePricer, OrdersByTime) {
  const auto d = domain("lab:4x1gbit");
  const ShapePricer pricer(d.graph, d.cluster, {}, sixteen());
  const auto priced =
      pricer.price({parse_shape("@0", 8), parse_shape("@9", 8), parse_shape("0-3@0 4-7@1 m=8", 8)});
  ASSERT_EQ(priced.size(), 2u);
  EXPECT_LT(priced[0].seconds, priced[1].seconds);
  EXPECT_EQ(priced[1].strategy.shape->cells.size(), 1u);
}

std::vector<std::string> texts(const std::vector<Shape>& shapes) {
  std::vector<std::string> all;
  for (const Shape& shape : shapes) all.push_back(to_text(shape));
  return all;
}

TEST(ShapeRivals, OneHostOfEachKindHoldsAllLayersOnAllOfItsRanks) {
  const auto cluster = cluster::parse("lab:2x1gbit+1x1gbit/ranks=2+1x1gbit/speed=0.5+1x1gbit/server");
  EXPECT_THAT(
      texts(shapes_of_one_host(model(), cluster, 4)),
      ElementsAre("@0 m=1 remat=never", "@0 m=2 remat=never", "@0 m=4 remat=never", "@2-3 m=2 remat=never",
                  "@2-3 m=4 remat=never", "@4 m=1 remat=never", "@4 m=2 remat=never", "@4 m=4 remat=never"));
}

TEST(ShapeRivals, PlainPipelinesAreOnTheFastestRanksAndOnAll) {
  const auto shapes = texts(plain_pipelines(model(), cluster::parse("lab:1x1gbit/speed=0.5+3x1gbit"), 16));
  EXPECT_THAT(shapes, Contains("0-3@1 4-7@2 m=8 remat=never"));
  EXPECT_THAT(shapes, Contains("0-3@1,3 4-7@2,0 m=16 remat=never"));
  EXPECT_THAT(shapes, Contains("0-1@1 2-3@2 4-5@3 6-7@0 m=16 schedule=gpipe remat=never"));
  EXPECT_THAT(shapes, Contains("0-1@1 2-3@2 4-5@1 6-7@2 m=4 schedule=interleaved remat=never"));
  for (const auto& text : shapes) EXPECT_THAT(text, Not(HasSubstr("m=32")));  // there are 16 examples
}

TEST(CanonicalShape, IsOneForAllThatAreTheSameJob) {
  const auto like = cluster::parse("lab:4x1gbit");
  for (const char* text : {"0-3@0 4-7@1 m=4", "0-3@2 4-7@3 m=4", "0-1@3 2-3@3 4-7@0 m=4"}) {
    EXPECT_EQ(to_text(canonical(parse_shape(text, 8), like)), "0-3@0 4-7@1 m=4");
  }
  const auto unlike = cluster::parse("lab:2x1gbit+2x10gbit/ranks=2");
  EXPECT_EQ(to_text(canonical(parse_shape("0-3@4,5 4-7@1 m=4", 8), unlike)), "0-3@2-3 4-7@0 m=4");
  EXPECT_EQ(to_text(canonical(parse_shape("0-3@0*.25,1*.75 4-7@0,1", 8), unlike)),
            "0-3@0*0.25,1*0.75 4-7@0-1");
}

TEST(CanonicalShape, HostsWithMeasuredLinksKeepTheirNames) {
  auto cluster = cluster::parse("lab:4x1gbit");
  cluster.links = {{0, 1, 0.5, 1e-4}};
  EXPECT_EQ(to_text(canonical(parse_shape("0-3@2 4-7@3 m=4", 8), cluster)), "0-3@2 4-7@3 m=4");
}

TEST(ShapeSearch, RivalsAreTheFastestHostAndTheFastestPlainPipelines) {
  const auto d = domain("lab:1x1gbit/speed=0.5+3x1gbit");
  const auto rivals = shapes_for(d, 2, false)->rivals();
  ASSERT_EQ(rivals.size(), 3u);
  EXPECT_EQ(rivals[0].origin, kAloneOrigin);
  EXPECT_EQ(rivals[0].strategy.id, "one host (" + d.cluster.hosts[1].address + ")");
  EXPECT_EQ(rivals[0].strategy.shape->ranks(), std::vector<int>{1});
  EXPECT_EQ(rivals[1].origin, kPipelineOrigin);
  EXPECT_THAT(rivals[1].strategy.id, HasSubstr("pipeline on"));
}

Trial trial_of(const strategy::Strategy& strategy, double seconds, const std::string& origin) {
  Trial trial;
  trial.strategy = strategy;
  trial.seconds = {seconds, seconds, seconds};
  trial.origin = origin;
  return trial;
}

TEST(ShapeSearch, ProposesShapesThatAreFasterThanOneHostWhereLinksAllow) {
  const auto d = domain("lab:4x1gbit");
  const auto shapes = shapes_for(d, 2, false);
  const auto proposals = shapes->ask({trial_of(shapes->rivals()[0].strategy, 16 * 8 * 0.03, kAloneOrigin)});
  ASSERT_FALSE(proposals.empty());
  EXPECT_LE(proposals.size(), 4u);
  std::set<std::string> different;
  const ShapePricer pricer(d.graph, d.cluster, {}, sixteen());
  for (const Proposal& proposal : proposals) {
    EXPECT_EQ(proposal.origin, "planned");
    EXPECT_LT(pricer.price(*proposal.strategy.shape)->seconds, 16 * 8 * 0.03 / 2) << proposal.strategy.id;
    different.insert(proposal.strategy.id);
  }
  EXPECT_EQ(different.size(), proposals.size());
}

TEST(ShapeSearch, AsksTheSameAgainAndNothingTwice) {
  const auto d = domain("lab:4x1gbit");
  const auto shapes = shapes_for(d, 2, false);
  std::vector<Trial> trials = {trial_of(shapes->rivals()[0].strategy, 16 * 8 * 0.03, kAloneOrigin)};
  const auto first = shapes->ask(trials), again = shapes->ask(trials);
  ASSERT_EQ(first.size(), again.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].strategy, again[i].strategy);
  for (const Proposal& proposal : first) {
    const double seconds =
        ShapePricer(d.graph, d.cluster, {}, sixteen()).simulation().estimate(proposal.strategy).seconds;
    trials.push_back(trial_of(proposal.strategy, seconds, "planned"));
  }
  for (const Proposal& proposal : shapes->ask(trials)) {
    for (const Trial& trial : trials) EXPECT_FALSE(same(trial.strategy, proposal.strategy));
  }
}

// Links of 1 Mbit/s, and each example's activations are 1 MB: nothing is better than staying on one host.
TEST(ShapeSearch, ProposesNothingWhereOneHostIsBest) {
  auto d = domain("lab:4x1mbit");
  for (auto& layer : d.graph.layers) layer.output_bytes = 1'000'000;
  const auto shapes = shapes_for(d, 2, false);
  const double alone =
      ShapePricer(d.graph, d.cluster, {}, sixteen()).price(parse_shape("@0 remat=never", 8))->seconds;
  std::vector<Trial> trials;
  for (int rank = 0; rank < 4; ++rank) {
    for (const char* m : {"1", "2", "4", "8", "16"}) {
      auto strategy = shapes->rivals()[0].strategy;
      strategy.shape = parse_shape(fmt::format("@{} m={} remat=never", rank, m), 8);
      trials.push_back(trial_of(strategy, alone, kAloneOrigin));
    }
  }
  for (const Proposal& proposal : shapes->ask(trials)) {
    EXPECT_EQ(proposal.strategy.shape->ranks().size(), 1u) << proposal.strategy.id;
  }
}

TEST(ShapeSearch, IsNotThereForOneRankOrForAModelWithoutTimedLayers) {
  EXPECT_EQ(shapes_for(domain("lab:1x1gbit"), 2, false), nullptr);
  auto d = domain("lab:4x1gbit");
  d.graph.layers[3].times.clear();
  EXPECT_EQ(shapes_for(d, 2, false), nullptr);
  d.graph.layers.clear();
  EXPECT_EQ(shapes_for(d, 2, false), nullptr);
}

TEST(ShapeSearch, EmulatedHostsShareCoresWhenTheyCompute) {
  auto d = domain("lab:4x1gbit");
  EXPECT_EQ(shared_cores(d, 2), 0);  // replayed: they sleep
  d.settings.compute = "real";
  EXPECT_EQ(shared_cores(d, 2), 2);
  d.cluster.kind = cluster::Kind::kHosts;
  EXPECT_EQ(shared_cores(d, 2), 0);
}

}  // namespace
}  // namespace entrain::tuner
