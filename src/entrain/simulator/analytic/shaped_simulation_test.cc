// Updates of jobs of any shape, by hand.
#include "entrain/simulator/analytic/shaped_simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/plan/link_bound.h"
#include "entrain/plan/passes.h"
#include "entrain/simulator/analytic/testing.h"

namespace entrain::simulator {
namespace {

using testing::ideal_links;
using testing::kSecond;
using testing::resize;
using testing::shaped;
using testing::slow_layers;

class ShapedSimulationTest : public ::testing::Test {
 protected:
  double seconds(const std::string& shape, int64_t examples, const std::string& builder = "allreduce") const {
    return EventSimulation(g, d, k, examples).estimate(shaped(g, d, shape, examples, builder)).seconds;
  }
  SimulatedIteration simulated(const std::string& shape, int64_t examples,
                               const std::string& builder = "allreduce") const {
    return EventSimulation(g, d, k, examples).simulate(shaped(g, d, shape, examples, builder));
  }
  graph::Graph g = slow_layers(2);
  cluster::Cluster d = cluster::parse("lab:3x1gbit");
  Calibration k = ideal_links();
};

// "B0/1" of rank 1, when the simulation says it ran; of a backward in parts, from the first to the last.
std::pair<double, double> when(const SimulatedIteration& t, const std::string& track,
                               const std::string& name) {
  std::pair<double, double> found{-1, -1};
  for (const Interval& i : t.intervals) {
    if (i.track != track || i.name.find(name) == std::string::npos) continue;
    if (found.first < 0) found.first = i.begin;
    found.second = i.end;
  }
  return found;
}

TEST_F(ShapedSimulationTest, OneRankAloneTakesTheSumOfItsPasses) {
  EXPECT_NEAR(seconds("@1 m=2 remat=never", 4), 4 * 2 * (1 + 2), 1e-9);
  EXPECT_NEAR(seconds("@1 m=2 remat=always", 4), 4 * 2 * (1 + 1 + 2), 1e-9);
  EXPECT_NEAR(seconds("@1 m=2 remat=except-last", 4), 4 * 2 * (1 + 2) + 2 * 2 * 1, 1e-9);
  k.compute_scale = 3;
  EXPECT_NEAR(seconds("@1 m=2 remat=never", 4), 3 * 4 * 2 * (1 + 2), 1e-9);
}

TEST_F(ShapedSimulationTest, AHostComputesAtItsOwnSpeed) {
  d = cluster::parse("lab:1x1gbit+1x1gbit/speed=0.5");
  EXPECT_NEAR(seconds("@0 remat=never", 1), 6, 1e-9);
  EXPECT_NEAR(seconds("@1 remat=never", 1), 12, 1e-9);
  EXPECT_NEAR(seconds("@0*.75,1*.25 remat=never", 4), 18, 1e-3);
}

TEST_F(ShapedSimulationTest, PassesTakeWhatTheirExamplesTake) {
  for (auto& layer : g.layers) layer.times = {{1, 1, 2}, {3, 2, 4}};
  EXPECT_NEAR(seconds("@1 m=1 remat=never", 2), 2 * (1.5 + 3), 1e-9);
  EXPECT_NEAR(seconds("@1 m=2 remat=never", 4), 2 * 2 * (1.5 + 3), 1e-9);
}

// rank 0   F0 F1 . . . . B0 B0 . B1 B1     from cell to cell a quarter of a second
// rank 1    . F0 B0 B0 F1 B1 B1
TEST_F(ShapedSimulationTest, APipelineOfTwoWaitsForItsLink) {
  const auto t = simulated("0@0 1@1 m=2 remat=never", 2);
  EXPECT_NEAR(when(t, "rank 1", "F0").first, 1.25, 1e-6);
  EXPECT_NEAR(when(t, "rank 0", "B0").first, 4.5, 1e-6);
  EXPECT_NEAR(when(t, "rank 0", "B1").first, 7.5, 1e-6);
  EXPECT_NEAR(t.estimate.seconds, 9.5, 1e-6);
  EXPECT_NEAR(t.estimate.compute, 6, 1e-9);
  EXPECT_NEAR(t.estimate.link_bound, 0.5, 1e-6);
  EXPECT_NEAR(seconds("0@0 1@1 m=2 remat=never", 2), 9.5, 1e-6);  // blocks joined
  EXPECT_NEAR(seconds("0@0 1@1 m=2 remat=never schedule=gpipe", 2), 1.25 + 2 + 4 + 0.25 + 2, 1e-6);
}

TEST_F(ShapedSimulationTest, RecomputingFillsTheWaitForTheGradient) {
  const auto t = simulated("0@0 1@1 m=2 remat=always", 2);
  EXPECT_NEAR(when(t, "rank 0", "R0").first, 2, 1e-6);
  EXPECT_NEAR(when(t, "rank 0", "B0").first, 5.5, 1e-6);
  EXPECT_NEAR(when(t, "rank 0", "R1").first, 7.5, 1e-6);
  EXPECT_NEAR(when(t, "rank 0", "B1").first, 9.5, 1e-6);
  EXPECT_NEAR(t.estimate.seconds, 11.5, 1e-6);
  EXPECT_NEAR(seconds("0@0 1@1 m=2 remat=except-last", 2), 10.5, 1e-6);
}

TEST_F(ShapedSimulationTest, ASkipGoesStraightFromItsProducerToItsConsumer) {
  g = slow_layers(3);
  g.skips = {{0, 2, static_cast<int64_t>(3 * kSecond)}};
  const auto t = simulated("0@0 1@1 2@2 m=1 remat=never", 1);
  // Flow and skip leave rank 0 at 1 s and share its link: the flow is there after twice its quarter of a
  // second.
  EXPECT_NEAR(when(t, "rank 1", "F0").first, 1.5, 0.01);
  // So rank 2's link, with 3.25 s to receive, was half idle for half a second.
  EXPECT_NEAR(when(t, "rank 2", "F0").first, 1 + 3.25 + 0.25, 0.01);
  // The gradients go the same ways back.
  EXPECT_NEAR(when(t, "rank 1", "B0").first, 7.5 + 0.5, 0.01);
  EXPECT_NEAR(when(t, "rank 0", "B0").first, 7.5 + 3.25 + 0.25, 0.01);
  EXPECT_NEAR(t.estimate.seconds, 13, 0.01);
}

TEST_F(ShapedSimulationTest, ASkipWithinACellCostsNothing) {
  const double without = seconds("0@0 1@1 remat=never", 1);
  g = slow_layers(3);
  for (auto& layer : g.layers) layer.times = {{1, 1, 2}};
  g.layers[2].times = {{1, 0, 0}};
  g.skips = {{1, 2, static_cast<int64_t>(3 * kSecond)}};
  EXPECT_NEAR(seconds("0@0 1-2@1 remat=never", 1), without, 1e-6);
}

// Two cells on one rank: nothing travels between them.
TEST_F(ShapedSimulationTest, CellsOfOneRankHandOverWithoutALink) {
  EXPECT_NEAR(seconds("0@1 1@1 m=2 remat=never", 2), 12, 1e-9);
}

// Both replicas' activations reach rank 2 over one link at once.
TEST_F(ShapedSimulationTest, TwoTransfersShareTheLinkOfTheirReceiver) {
  const auto t = simulated("0@0,1 1@2 m=2 remat=never", 2);
  EXPECT_NEAR(when(t, "rank 2", "F0").first, 1.5, 0.02);
  EXPECT_NEAR(t.estimate.link_bound, 0.5, 1e-6);
  // F0 B0 F1 B1 there, then the gradient's way back, then backward.
  EXPECT_NEAR(t.estimate.seconds, 1.5 + 6 + 0.25 + 2, 0.02);
}

TEST_F(ShapedSimulationTest, AReplicaSendsItsGradientsBeforeTheOthersHaveTheirs) {
  resize(g.variables[0], 2);
  d = cluster::parse("lab:2x1gbit");
  const auto t = simulated("@0*.75,1*.25 m=2 remat=never", 4, "ps");
  const auto [begin, end] = when(t, "route 0", "push and pull of v0");
  EXPECT_NEAR(begin, 6, 1e-3);     // rank 1 is done with its example
  EXPECT_NEAR(end, 18 + 2, 2e-2);  // rank 0, the server, has had all of it by then, and answers
  EXPECT_NEAR(t.estimate.seconds, end, 1e-6);
}

TEST_F(ShapedSimulationTest, GradientsLeaveLayerByLayerInTheLastBackward) {
  resize(g.variables[1], 1.5);
  const auto t = simulated("@0,1 m=4 remat=never", 4);
  double begun = 0;
  for (const Interval& i : t.intervals) {
    if (i.name == "all-reduce of v1") begun = i.begin;
  }
  // F B F B of 2 layers; the last B has just gone through layer 1.
  EXPECT_NEAR(begun, 12 - 2, 1e-6);
  EXPECT_NEAR(t.estimate.seconds, 12, 1e-3);  // and 1.5 s fit into the backward of layer 0
}

TEST_F(ShapedSimulationTest, ATiedVariableIsSummedAmongTheHoldersOfAllItsLayers) {
  g = slow_layers(3);
  const double before = seconds("0@0 1-2@1 remat=never", 1);
  g.layers[2].variables = {0, 2};
  resize(g.variables[0], 3);
  const auto t = simulated("0@0 1-2@1 remat=never", 1);
  EXPECT_NEAR(before, 1 + 0.25 + 6 + 0.25 + 2, 1e-6);
  // Rank 1 has its part when backward is through layer 2, rank 0 only at the end.
  EXPECT_NEAR(t.estimate.seconds, before + 3, 0.1);
}

TEST_F(ShapedSimulationTest, TheUpdateOfWhatARankHoldsBeginsItsNextStep) {
  resize(g.variables[0], 1);
  k.update_bytes_per_s = kSecond / 5;
  EXPECT_NEAR(seconds("0@0 1@1 remat=never", 1), 5 + 1.25 + 3 + 0.25 + 2, 1e-5);
  resize(g.variables[0], 0);
  resize(g.variables[1], 1);  // rank 1 updates while rank 0 runs its forward
  EXPECT_NEAR(seconds("0@0 1@1 remat=never", 1), 5 + 3 + 0.25 + 2, 1e-5);
}

TEST_F(ShapedSimulationTest, TheLossIsSummedAmongAllWorkersByAStar) {
  k.latency_s = 0.125;
  k.message_s = 0.0625;
  EXPECT_NEAR(seconds("@0 remat=never", 1), 6 + 2 * 0.125 + 2 * 2 * 0.0625, 1e-9);
  d = cluster::parse("lab:1x1gbit");
  EXPECT_NEAR(seconds("@0 remat=never", 1), 6, 1e-9);
}

TEST_F(ShapedSimulationTest, ParcelsTakeTheirLatencyAndTheirEnginesTime) {
  const double plain = seconds("0@0 1@1 remat=never", 1);
  k.latency_s = 0.125;
  EXPECT_NEAR(seconds("0@0 1@1 remat=never", 1), plain + 2 * 0.125 + 2 * 0.125, 1e-6);  // and the loss
  k.latency_s = 0;
  k.engine_bytes_per_s = kSecond / 8;  // slower than the link
  EXPECT_NEAR(seconds("0@0 1@1 remat=never", 1), plain + 2 * (2 - 0.25), 0.1);
}

TEST_F(ShapedSimulationTest, EmulatedHostsShareTheCores) {
  EXPECT_NEAR(seconds("@0,1,2 remat=never", 3), 6, 1e-6);
  k.cores = 2;
  EXPECT_NEAR(seconds("@0,1,2 remat=never", 3), 9, 1e-6);
  EXPECT_NEAR(seconds("@0,1 remat=never", 2), 6, 1e-6);
  k.cores = 1;
  EXPECT_NEAR(seconds("@0*.75,1*.25 remat=never", 4), 24, 1e-6);
  const auto t = simulated("@0*.75,1*.25 m=2 remat=never", 4);
  EXPECT_NEAR(when(t, "rank 1", "B1").second, 12, 1e-6);  // at half the speed
  EXPECT_NEAR(when(t, "rank 0", "B0").second, 24, 1e-6);
  EXPECT_NEAR(t.estimate.compute, 24, 1e-9);
  d.kind = cluster::Kind::kHosts;
  EXPECT_NEAR(seconds("@0,1,2 remat=never", 3), 6, 1e-6);
}

TEST_F(ShapedSimulationTest, TheCriticalPathLeadsFromTheUpdateOverBothRanksToTheLoss) {
  k.latency_s = 0.0625;
  const auto t = simulated("0@0 1@1 m=2 remat=never", 2);
  std::vector<std::string> tracks;
  double now = 0;
  for (const Interval& i : t.critical_path) {
    EXPECT_NEAR(i.begin, now, 1e-6) << i.track << " " << i.name;
    now = i.end;
    tracks.push_back(i.track);
  }
  EXPECT_EQ(tracks,
            (std::vector<std::string>{"rank 0", "rank 0 to 1", "rank 1", "rank 1 to 0", "rank 0", "loss"}));
  EXPECT_EQ(t.critical_path[2].name, "F0/1 to B1/1");
  EXPECT_NEAR(now, t.estimate.seconds, 1e-9);
}

TEST_F(ShapedSimulationTest, TheCriticalPathEndsWithTheMessageThatIsWaitedFor) {
  resize(g.variables[0], 3);
  const auto t = simulated("@0*.75,1*.25 m=2 remat=never", 4);
  ASSERT_EQ(t.critical_path.size(), 2u);
  EXPECT_EQ(t.critical_path[0].track, "rank 0");
  EXPECT_EQ(t.critical_path[0].begin, 0);
  EXPECT_EQ(t.critical_path[1].name, "all-reduce of v0");
  EXPECT_NEAR(t.critical_path[1].begin, 18, 1e-6);
  EXPECT_NEAR(t.critical_path[1].end, t.estimate.seconds, 1e-9);
}

TEST_F(ShapedSimulationTest, ExamplesPerUpdateAreTheProfiledBatchOfEachWorkerByDefault) {
  const auto s = shaped(g, d, "@0 remat=never", 3);
  EXPECT_NEAR(EventSimulation(g, d, k).estimate(s).seconds, 3 * 6, 1e-9);
}

TEST_F(ShapedSimulationTest, WithoutAProfileOfItsLayersAModelIsRefused) {
  g.layers[1].times.clear();
  const EventSimulation simulation(g, d, k, 1);
  EXPECT_GT(simulation.estimate(strategy::build("allreduce", g, d)).seconds, -1);
  EXPECT_THROW(simulation.estimate(shaped(g, d, "@0", 1)), InputError);
}

// --- Any shape ---

graph::Graph random_graph(std::mt19937_64& rng) {
  const auto below = [&](size_t n) { return static_cast<int64_t>(rng() % n); };
  graph::Graph g;
  g.batch_size = 4;
  const int layers = 2 + static_cast<int>(below(6));
  for (int l = 0; l < layers; ++l) {
    graph::Variable v;
    v.name = fmt::format("v{}", l);
    v.shape = {1 + below(300), 1000};
    v.ready_order = layers - 1 - l;
    g.variables.push_back(v);
    const double forward = 1e-3 * static_cast<double>(1 + below(20));
    g.layers.push_back({fmt::format("layer{}", l), {l}, {{1, forward, 2 * forward}}, below(200'000), 1000});
  }
  if (layers > 2) g.skips.push_back({0, layers - 1, 1 + below(100'000)});
  g.layers.back().variables.insert(g.layers.back().variables.begin(), 0);  // tied
  return g;
}

strategy::Shape random_shape(int layers, int workers, std::mt19937_64& rng) {
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<size_t>(n)); };
  strategy::Shape shape;
  int most = 1;
  for (int begin = 0; begin < layers;) {
    const int end = begin + 1 + below(layers - begin);
    std::vector<int> ranks(static_cast<size_t>(workers));
    for (int r = 0; r < workers; ++r) ranks[static_cast<size_t>(r)] = r;
    std::shuffle(ranks.begin(), ranks.end(), rng);
    ranks.resize(static_cast<size_t>(1 + below(workers)));
    strategy::Cell cell{begin, end, ranks};
    if (below(2) == 0) {
      double sum = 0;
      for (size_t r = 0; r < ranks.size(); ++r)
        cell.shares.push_back(1 + below(3)), sum += cell.shares.back();
      for (double& share : cell.shares) share /= sum;
    }
    most = std::max(most, cell.replicas());
    shape.cells.push_back(std::move(cell));
    begin = end;
  }
  shape.micro_batches = most + below(6);
  shape.schedule = below(2) == 0 ? "gpipe" : "1f1b";
  shape.remat = static_cast<pipeline::Remat>(below(3));
  return shape;
}

TEST(ShapedSimulationOfAnyShape, IsNeverBelowItsBusiestRankAndLinkAndRunsPassesInTheirOrder) {
  std::mt19937_64 rng(7);
  for (int i = 0; i < 150; ++i) {
    const auto g = random_graph(rng);
    const auto d =
        cluster::parse(i % 2 == 0 ? "lab:1x10gbit+3x1gbit" : "lab:2x1gbit/ranks=2+1x1gbit/speed=0.5");
    const int64_t examples = 24;
    auto s = strategy::build(i % 3 == 0 ? "ps" : "allreduce", g, d);
    s.shape = random_shape(static_cast<int>(g.layers.size()), d.workers(), rng);
    strategy::validate(*s.shape, static_cast<int>(g.layers.size()), d, examples);
    strategy::validate(s, g, d);
    Calibration k = ideal_links();
    if (i % 5 == 0) k.cores = 2;
    const EventSimulation simulation(g, d, k, examples);
    const auto t = simulation.simulate(s);
    const std::string what = strategy::to_text(*s.shape);
    const auto assignment = plan::assign(*s.shape, examples);
    const auto passes = plan::make_passes(*s.shape, assignment);
    for (size_t rank = 0; rank < passes.size(); ++rank) {
      double busy = 0, before = 0;
      std::vector<std::string> ran, wanted;
      for (const Interval& interval : t.intervals) {
        if (interval.track != fmt::format("rank {}", rank)) continue;
        EXPECT_GE(interval.begin, before - 1e-12) << what;
        before = interval.end;
        if (k.cores == 0) busy += interval.end - interval.begin;
        if (interval.name != "update" && (ran.empty() || ran.back() != interval.name))
          ran.push_back(interval.name);
      }
      for (const auto& pass : passes[rank]) {
        const auto of = fmt::format("{}/{}", pass.work.micro_batch, pass.work.cell);
        const bool forward = pass.work.kind == pipeline::Kind::kForward;
        if (pass.recompute && !forward) wanted.push_back("R" + of);
        wanted.push_back((forward ? "F" : "B") + of);
      }
      EXPECT_EQ(ran, wanted) << what;
      EXPECT_GE(t.estimate.seconds, busy - 1e-9) << what;
    }
    auto [sent, received] = plan::link_bytes(plan::make_plan(s, g, d), g, d);
    for (size_t c = 0; c + 1 < s.shape->cells.size(); ++c) {
      for (int m = 0; m < assignment.count(); ++m) {
        const auto at = static_cast<size_t>(m);
        const int a = d.host_of(assignment.rank_of[c][at]), b = d.host_of(assignment.rank_of[c + 1][at]);
        if (a == b) continue;
        const auto layer = static_cast<size_t>(s.shape->cells[c].end) - 1;
        const double bytes =
            static_cast<double>(g.layers[layer].output_bytes * assignment.micro_batches[at].count);
        for (const int host : {a, b}) {
          sent[static_cast<size_t>(host)] += bytes;
          received[static_cast<size_t>(host)] += bytes;
        }
      }
    }
    for (size_t h = 0; h < d.hosts.size(); ++h) {
      const double rate = d.hosts[h].bandwidth_gbit * kSecond;
      EXPECT_GE(t.estimate.seconds, std::max(sent[h], received[h]) / rate * (1 - 1e-5)) << what;
      EXPECT_GE(t.estimate.link_bound, std::max(sent[h], received[h]) / rate * (1 - 1e-5)) << what;
    }
    EXPECT_NEAR(simulation.estimate(s).seconds, t.estimate.seconds, 1e-9) << what;
  }
}

// A ring of 16 in the lab's calibration: 480 transfers against 32.
TEST(ShapedSimulationOfManyRanks, FlowsComeNearTheExactSums) {
  auto g = slow_layers(3);
  for (auto& v : g.variables) resize(v, 0.5);
  for (auto& layer : g.layers) layer.times = {{1, 0.1, 0.2}};
  for (const char* cluster : {"lab:16x1gbit", "lab:12x1gbit/ranks=2", "lab:4x10gbit+12x1gbit"}) {
    const auto d = cluster::parse(cluster);
    const int workers = d.workers();
    for (const strategy::Topology topology :
         {strategy::Topology::kRing, strategy::Topology::kHalvingDoubling, strategy::Topology::kReduceScatter,
          strategy::Topology::kHierarchical, strategy::Topology::kAuto}) {
      auto s = shaped(g, d, fmt::format("@0-{}", workers - 1), workers);
      strategy::AllReduce choice;
      choice.topology = topology;
      for (auto& v : s.variables) v.parts = {{choice, {}}};
      const auto exact = EventSimulation(g, d, {}, workers, workers).estimate(s);
      const auto flows = EventSimulation(g, d, {}, workers, 4).estimate(s);
      const std::string what = fmt::format("{} {}", cluster, static_cast<int>(topology));
      // What travels in many pieces at once is smoothed out.
      const bool even =
          topology != strategy::Topology::kReduceScatter && topology != strategy::Topology::kHalvingDoubling;
      EXPECT_NEAR(flows.seconds / exact.seconds, 1, even ? 0.03 : 0.12) << what;
      EXPECT_NEAR(flows.link_bound / exact.link_bound, 1, even ? 1e-6 : 0.06) << what;
      EXPECT_LT(flows.transfers, exact.transfers) << what;
    }
  }
}

TEST(ShapedSimulationOfManyRanks, AFlowOfASmallSumWaitsForEveryRoundsWakeUps) {
  auto g = slow_layers(1);
  const auto d = cluster::parse("lab:8x1gbit");
  Calibration k = ideal_links();
  k.latency_s = 0.125;
  k.message_s = 0.0625;
  strategy::AllReduce ring;
  ring.topology = strategy::Topology::kRing;
  auto s = shaped(g, d, "@0-7", 8);
  s.variables[0].parts = {{ring, {}}};
  const double exact = EventSimulation(g, d, k, 8, 8).estimate(s).seconds;
  const double flows = EventSimulation(g, d, k, 8, 4).estimate(s).seconds;
  EXPECT_GT(exact, 3 + 14 * 0.125);
  EXPECT_NEAR(flows, exact, 0.05 * (exact - 3));
}

TEST(ShapedSimulationOfManyRanks, RowsOfAThousandRanksTakeWhatARowOfTwoTakes) {
  auto g = slow_layers(4);
  const auto d = cluster::parse("lab:256x10gbit/ranks=4");
  strategy::Shape shape = strategy::parse_shape("0-1@0 2-3@1 m=1024 remat=never", 4);
  for (size_t c = 0; c < 2; ++c) {
    shape.cells[c].ranks.clear();
    for (int r = 0; r < 512; ++r) shape.cells[c].ranks.push_back(2 * r + static_cast<int>(c));
  }
  auto s = strategy::build("allreduce", g, d);
  s.shape = shape;
  Calibration k = ideal_links();
  // Rows of two ranks of one host, two micro-batches of one example each: F F . B . B, the row's other half
  // likewise.
  EXPECT_NEAR(EventSimulation(g, d, k, 1024).estimate(s).seconds, 2 + 6 + 6 + 4, 1e-3);
}

TEST(ShapedSimulationOfAnyShape, IsTheSameFromManyThreadsAndAfterOtherShapes) {
  std::mt19937_64 rng(3);
  const auto g = random_graph(rng);
  const auto d = cluster::parse("lab:1x10gbit+3x1gbit");
  std::vector<strategy::Strategy> strategies;
  std::vector<double> expected;
  for (int i = 0; i < 60; ++i) {
    strategies.push_back(strategy::build(i % 3 == 0 ? "ps" : "allreduce", g, d));
    if (i % 4 != 0) strategies.back().shape = random_shape(static_cast<int>(g.layers.size()), 4, rng);
    expected.push_back(EventSimulation(g, d, {}, 24).estimate(strategies.back()).seconds);
  }
  const EventSimulation shared(g, d, {}, 24), other(g, d, {}, 48);
  std::vector<std::vector<double>> results(3);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        for (const auto& s : strategies) {
          result.push_back(shared.estimate(s).seconds);
          (void)other.estimate(s);
        }
      });
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace entrain::simulator
