#include "entrain/plan/link_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace entrain::plan {
namespace {

using testing::ElementsAre;

graph::Graph of_one(std::vector<int64_t> shape, int64_t rows_per_step = 0) {
  graph::Graph g;
  g.variables.resize(1);
  g.variables[0].name = "weight";
  g.variables[0].shape = std::move(shape);
  g.variables[0].sparse = rows_per_step > 0;
  g.variables[0].rows_per_step = rows_per_step;
  return g;
}

Plan with(const graph::Graph& g, const cluster::Cluster& d, const strategy::Synchronizer& synchronizer) {
  strategy::Strategy s;
  for (const auto& v : g.variables) s.variables.push_back({v.name, {}, {{synchronizer, {}}}});
  return make_plan(s, g, d);
}

strategy::AllReduce ring() { return {.topology = strategy::Topology::kRing, .ring_order = {}}; }

strategy::ParameterServer served_by(const cluster::Cluster& d, int host) {
  return {.destination = d.hosts[host].address};
}

// 7 numbers in a ring of 3: chunks of 3, 2 and 2. Rank 0 sends chunks 0, 2, 1, 0, its neighbours 1, 0, 2, 1
// and 2, 1, 0, 2.
TEST(LinkBytes, OfARingAreItsChunks) {
  const auto g = of_one({7});
  const auto d = cluster::parse("lab:3x1gbit");
  const Plan plan = with(g, d, ring());
  EXPECT_THAT(bytes_sent(plan, g), ElementsAre(40, 36, 36));
  const LinkBytes bytes = link_bytes(plan, g, d);
  EXPECT_THAT(bytes.sent, ElementsAre(40, 36, 36));
  EXPECT_THAT(bytes.received, ElementsAre(36, 40, 36));

  auto cast = ring();
  cast.compressor = strategy::Compressor::kBf16;  // chunks are of whole numbers
  EXPECT_THAT(bytes_sent(with(g, d, cast), g), ElementsAre(20, 18, 18));
}

// 5 rows of 10 numbers, with their indices.
TEST(LinkBytes, OfRowsAreEveryRanksRows) {
  const auto g = of_one({100, 10}, 5);
  const double rows = 5 * (10 * 4 + 8);
  const auto d = cluster::parse("lab:3x1gbit+1x1gbit/server");
  const LinkBytes apart = link_bytes(with(g, d, served_by(d, 3)), g, d);
  EXPECT_THAT(apart.sent, ElementsAre(rows, rows, rows, 9 * rows));
  EXPECT_THAT(apart.received, ElementsAre(3 * rows, 3 * rows, 3 * rows, 3 * rows));
  const LinkBytes among = link_bytes(with(g, d, served_by(d, 1)), g, d);
  EXPECT_THAT(among.sent, ElementsAre(rows, 6 * rows, rows, 0));
  EXPECT_THAT(among.received, ElementsAre(3 * rows, 2 * rows, 3 * rows, 0));
  const LinkBytes gathered = link_bytes(with(g, d, strategy::AllGather{}), g, d);
  EXPECT_THAT(gathered.sent, ElementsAre(2 * rows, 2 * rows, 2 * rows, 0));
  EXPECT_THAT(gathered.received, ElementsAre(2 * rows, 2 * rows, 2 * rows, 0));
}

TEST(LinkBytes, BetweenRanksOfOneHostAreFree) {
  const auto g = of_one({100, 10}, 5);
  const double rows = 5 * (10 * 4 + 8);
  const auto d = cluster::parse("lab:2x1gbit/ranks=2");
  const Plan plan = with(g, d, strategy::AllGather{});
  EXPECT_THAT(link_bytes(plan, g, d).sent, ElementsAre(4 * rows, 4 * rows));
  EXPECT_THAT(bytes_sent(plan, g), ElementsAre(3 * rows, 3 * rows, 3 * rows, 3 * rows));
}

TEST(LinkBound, NamesTheLinkAndTheDirectionThatBind) {
  const auto g = of_one({100, 10}, 5);
  const double rows_s = 5 * (10 * 4 + 8) * 8 / 1e9;  // over 1 Gbit/s
  auto d = cluster::parse("lab:3x1gbit+1x1gbit/server");
  const LinkBound server = link_bound(with(g, d, served_by(d, 3)), g, d);
  EXPECT_EQ(server.host, 3);
  EXPECT_TRUE(server.sending);
  EXPECT_DOUBLE_EQ(server.seconds, 9 * rows_s);
  d.hosts[3].bandwidth_gbit = 10;
  d.hosts[1].bandwidth_gbit = 0.5;
  const LinkBound worker = link_bound(with(g, d, served_by(d, 3)), g, d);
  EXPECT_EQ(worker.host, 1);
  EXPECT_FALSE(worker.sending);
  EXPECT_DOUBLE_EQ(worker.seconds, 6 * rows_s);
}

TEST(LinkBound, OfEqualLinksIsTheFirstOnes) {
  const auto g = of_one({1000});
  const auto d = cluster::parse("lab:4x1gbit");
  const LinkBound bound = link_bound(with(g, d, ring()), g, d);
  EXPECT_EQ(bound.host, 0);
  EXPECT_TRUE(bound.sending);
}

double best(const std::string& cluster, const graph::Graph& g) {
  return best_link_bound(g, cluster::parse(cluster));
}

// M is what one host sends in a second.
TEST(BestLinkBound, IsTheHeadersFormula) {
  const auto g = of_one({31'250'000});
  EXPECT_DOUBLE_EQ(best("lab:2x1gbit", g), 1);
  EXPECT_DOUBLE_EQ(best("lab:3x1gbit", g), 4.0 / 3);
  EXPECT_DOUBLE_EQ(best("lab:4x1gbit", g), 6.0 / 4);
  EXPECT_DOUBLE_EQ(best("lab:3x2gbit", g), 2.0 / 3);
  EXPECT_DOUBLE_EQ(best("lab:4x1gbit+1x1gbit/server", g), 6.0 / 5);  // servers carry too
  EXPECT_DOUBLE_EQ(best("lab:4x1gbit+1x4gbit/server", g), 1);        // but each worker sends its own
  EXPECT_DOUBLE_EQ(best("lab:1x10gbit+3x1gbit", g), 1);
  EXPECT_DOUBLE_EQ(best("lab:3x1gbit/ranks=2", g), 4.0 / 3);  // ranks of a host sum before they send
  EXPECT_EQ(best("lab:1x1gbit/ranks=4", g), 0);
  EXPECT_EQ(best("lab:1x1gbit+1x1gbit/server", g), 0);
}

TEST(BestLinkBound, OfRowsIsWhatEachHostMustReceive) {
  const auto g = of_one({100, 10}, 5);
  const double rows_s = 5 * (10 * 4 + 8) * 8 / 1e9;
  EXPECT_DOUBLE_EQ(best("lab:2x1gbit", g), rows_s);
  EXPECT_DOUBLE_EQ(best("lab:4x1gbit+1x0.1gbit/server", g), 3 * rows_s);
  EXPECT_DOUBLE_EQ(best("lab:1x10gbit+2x0.5gbit+1x10gbit", g), 6 * rows_s);
  EXPECT_DOUBLE_EQ(best("lab:2x1gbit/ranks=3", g), 3 * rows_s);
  auto both = g;
  both.variables.push_back(of_one({1000}).variables[0]);
  EXPECT_DOUBLE_EQ(best("lab:2x1gbit", both), 1000 * 4 * 8 / 1e9);  // at the same time, at best
}

// A ring reaches the best of even links to the byte, whatever the ring's direction.
TEST(BestLinkBound, IsReachedByARing) {
  const auto g = of_one({1200});
  for (const char* text : {"lab:2x1gbit", "lab:3x1gbit", "lab:4x1gbit"}) {
    const auto d = cluster::parse(text);
    const Plan plan = with(g, d, ring());
    EXPECT_DOUBLE_EQ(link_bound(plan, g, d).seconds, best_link_bound(g, d)) << text;
    EXPECT_DOUBLE_EQ(best_link_bound(plan, g, d), best_link_bound(g, d)) << text;
  }
}

// 2% of 1000 numbers, each with its index, from each host to the others.
TEST(BestLinkBound, OfAPlanCountsTheLargestElementsAsRows) {
  const auto g = of_one({1000});
  const auto d = cluster::parse("lab:3x1gbit");
  const Plan plan = with(
      g, d, strategy::AllReduce{.compressor = strategy::Compressor::kTopK, .ring_order = {}, .share = 0.02});
  EXPECT_DOUBLE_EQ(best_link_bound(plan, g, d), 2 * 20 * 12 * 8 / 1e9);
  EXPECT_DOUBLE_EQ(link_bound(plan, g, d).seconds, 2 * 20 * 12 * 8 / 1e9);
}

}  // namespace
}  // namespace entrain::plan
