#include "entrain/simulator/analytic/event_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "entrain/collective/executor.h"
#include "entrain/dataset/dataset.h"
#include "entrain/simulator/analytic/bound.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/simulator/analytic/network.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/sampler/sampler.h"

namespace entrain::simulator {
namespace {

// Layers of 4 MB, the last of 40 MB; forward 1 ms and backward 2 ms each.
graph::Graph layers(int count) {
  graph::Graph g;
  g.model = "layers";
  for (int i = 0; i < count; ++i) {
    graph::Variable v;
    v.name = "layer" + std::to_string(i);
    v.shape = {i + 1 == count ? 10000 : 1000, 1000};
    v.ready_order = count - 1 - i;
    v.forward_s = 1e-3;
    v.backward_s = 2e-3;
    g.variables.push_back(std::move(v));
  }
  return g;
}

// Links as they are written on the box.
Calibration ideal() {
  Calibration c;
  c.link_efficiency = 1;
  c.burst_s = 0;
  c.latency_s = c.message_s = 0;
  c.engine_bytes_per_s = c.reduce_bytes_per_s = c.update_bytes_per_s = 1e15;
  return c;
}

TEST(EventSimulation, OneRingOnEvenLinks) {
  const auto g = layers(1);
  const auto d = cluster::parse("lab:4x1gbit");
  const auto e = EventSimulation(g, d, ideal()).estimate(strategy::build("allreduce", g, d));
  // backward, then 2(n-1)/n of 40 MB over 125 MB/s, then forward
  EXPECT_NEAR(e.seconds, 2e-3 + 1.5 * 40e6 / 125e6 + 1e-3, 1e-6);
  EXPECT_NEAR(e.link_bound, 0.48, 1e-6);
  EXPECT_NEAR(e.compute, 3e-3, 1e-6);
}

TEST(EventSimulation, ServerOnTheFastHostIsBoundByTheSlowOnes) {
  const auto g = layers(1);
  const auto d = cluster::parse("lab:1x10gbit+3x1gbit");
  const auto e = EventSimulation(g, d, ideal()).estimate(strategy::build("ps", g, d));
  // A slow host pushes 40 MB and pulls 40 MB at once; the last piece (a 24th) is pulled after its push, and
  // leaves the fast host after those of the two others.
  const double piece = 40e6 / 24;
  EXPECT_NEAR(e.seconds, 3e-3 + 40e6 / 125e6 + piece / 125e6 + 2 * piece / 1250e6, 1e-5);
  EXPECT_NE(e.busiest_host, 0);
}

TEST(EventSimulation, BackwardHidesWhatIsReadyEarly) {
  auto g = layers(2);
  g.variables[0].backward_s = 10;  // the 40 MB of layer 1 travel meanwhile
  const auto d = cluster::parse("lab:2x1gbit");
  const auto e = EventSimulation(g, d, ideal()).estimate(strategy::build("allreduce", g, d));
  EXPECT_NEAR(e.seconds, 10 + 2e-3 + 4e6 / 125e6 + 2e-3, 1e-3);
}

// Every variable summed as `synchronizer` says, whole or cut along an axis.
strategy::Strategy all(const graph::Graph& g, const strategy::Synchronizer& synchronizer,
                       std::optional<strategy::Partition> partition = {}) {
  strategy::Strategy s;
  for (const auto& v : g.variables) {
    const size_t parts = partition ? static_cast<size_t>(partition->shards) : 1;
    s.variables.push_back({v.name, partition, std::vector<strategy::Part>(parts, {synchronizer, {}})});
  }
  return s;
}

strategy::AllReduce ring(strategy::Compressor compressor = strategy::Compressor::kNone) {
  return {.topology = strategy::Topology::kRing, .compressor = compressor, .ring_order = {}};
}

// One variable of 40 MB between two hosts: 3 ms of computing, 40 MB over 125 MB/s.
class OneVariable : public ::testing::Test {
 protected:
  double seconds(const Calibration& k, const strategy::Strategy& s,
                 const std::string& where = "lab:2x1gbit") const {
    return EventSimulation(g, cluster::parse(where), k).estimate(s).seconds;
  }
  graph::Graph g = layers(1);
  const double plain = 3e-3 + 40e6 / 125e6;
};

TEST_F(OneVariable, LatencyIsPaidInEveryRound) {
  Calibration k = ideal();
  EXPECT_NEAR(seconds(k, all(g, ring())), plain, 1e-6);
  k.latency_s = 0.1;
  g.variables[0].shape = {2};
  EXPECT_NEAR(seconds(k, all(g, ring())), 3e-3 + 2 * 0.1, 1e-6);
  EXPECT_NEAR(seconds(k, all(g, ring()), "lab:4x1gbit"), 3e-3 + 6 * 0.1, 1e-6);
}

TEST_F(OneVariable, UpdatesFollowTheSum) {
  Calibration k = ideal();
  k.update_bytes_per_s = 80e6;
  EXPECT_NEAR(seconds(k, all(g, ring())), plain + 0.5, 1e-6);
  g.variables[0].sparse = true;
  g.variables[0].rows_per_step = 100;  // of 10,000
  const double whole = seconds(k, all(g, strategy::AllGather{}));
  k.update_bytes_per_s = 1e15;
  EXPECT_NEAR(whole - seconds(k, all(g, strategy::AllGather{})), 0.5 / 100, 1e-6);
}

TEST_F(OneVariable, RowsOfTheOthersAreReceivedAndSummed) {
  g.variables[0].sparse = true;
  g.variables[0].rows_per_step = 1000;
  const double rows = 1000 * 4008;
  Calibration k = ideal();
  const double sent = seconds(k, all(g, strategy::AllGather{}), "lab:3x1gbit");
  EXPECT_NEAR(sent, 3e-3 + 2 * rows / 125e6, 3e-3);
  k.reduce_bytes_per_s = 2 * rows;
  EXPECT_NEAR(seconds(k, all(g, strategy::AllGather{}), "lab:3x1gbit"), sent + 1, 0.1);
}

TEST_F(OneVariable, ATableWithoutRowsCostsNothing) {
  g.variables[0].sparse = true;
  g.variables[0].shape = {0, 1000};
  g.variables[0].rows_per_step = 0;
  EXPECT_NEAR(seconds(ideal(), all(g, strategy::AllGather{})), 3e-3, 1e-6);
}

TEST_F(OneVariable, TheSlowestWorkerSetsThePace) {
  EXPECT_NEAR(seconds(ideal(), all(g, ring()), "lab:1x1gbit+1x1gbit/speed=0.5"), plain + 3e-3, 1e-6);
  Calibration k = ideal();
  k.compute_scale = 4;
  EXPECT_NEAR(seconds(k, all(g, ring())), plain + 3 * 3e-3, 1e-6);
  const auto d = cluster::parse("lab:2x1gbit");
  EXPECT_NEAR(EventSimulation(g, d, k).estimate(all(g, ring())).compute, 12e-3, 1e-6);
}

TEST_F(OneVariable, CastsHalveTheWireAndTakeTheirTime) {
  Calibration k = ideal();
  k.cast_bytes_per_s = 1e15;
  const double sent = seconds(k, all(g, ring(strategy::Compressor::kBf16)));
  EXPECT_NEAR(sent, 3e-3 + 20e6 / 125e6, 0.015);
  k.cast_bytes_per_s = 80e6;  // there and back
  EXPECT_NEAR(seconds(k, all(g, ring(strategy::Compressor::kBf16))), sent + 1, 1e-6);
  EXPECT_NEAR(seconds(k, all(g, ring())), plain, 1e-6);
}

TEST_F(OneVariable, LargestElementsAreSoughtAndPutBack) {
  Calibration k = ideal();
  k.cast_bytes_per_s = 1e15;
  const double sent = seconds(k, all(g, ring(strategy::Compressor::kTopK)));
  EXPECT_NEAR(sent, 3e-3 + 100'000 * 12.0 / 125e6, 1e-4);  // a hundredth of 10 M elements, with their indices
  k.cast_bytes_per_s = 160e6;
  EXPECT_NEAR(seconds(k, all(g, ring(strategy::Compressor::kTopK))), sent + 1, 1e-4);
}

TEST_F(OneVariable, FactorsAreMultipliedOut) {
  Calibration k = ideal();
  k.matmul_flops = 1e15;
  auto power = ring(strategy::Compressor::kPowerSgd);
  power.rank = 4;
  const double sent = seconds(k, all(g, power));
  EXPECT_NEAR(sent, 3e-3 + 4 * 11'000 * 4 / 125e6, 1e-4);
  k.matmul_flops = 320e6;  // 8 x 10 M x 4
  EXPECT_NEAR(seconds(k, all(g, power)), sent + 1, 1e-4);
}

// A slice along the first axis lies in one piece; others are copied out and back.
TEST_F(OneVariable, TheSecondFactorWaitsForTheFirst) {
  Calibration k = ideal();
  k.latency_s = 0.1;
  k.matmul_flops = 1e15;
  g.variables[0].shape = {64, 64};
  auto power = ring(strategy::Compressor::kPowerSgd);
  power.rank = 1;
  EXPECT_NEAR(seconds(k, all(g, power)), 3e-3 + 2 * 2 * 0.1, 1e-4);
}

// Rows of all come back from the server; the last host's link is the slowest.
TEST_F(OneVariable, TheBusiestLinkMayReceive) {
  const auto d = cluster::parse("lab:3x10gbit+1x1gbit");
  g.variables[0].sparse = true;
  g.variables[0].rows_per_step = 1000;
  const auto e =
      EventSimulation(g, d, ideal()).estimate(all(g, strategy::ParameterServer{d.hosts[0].address}));
  EXPECT_NEAR(e.link_bound, 4 * 1000 * 4008 / 125e6, 1e-6);
  EXPECT_EQ(e.busiest_host, 3);
  EXPECT_EQ(e.busiest_kind, Estimate::Kind::kReceiving);
}

TEST_F(OneVariable, OfLinksThatAreAsBusyTheFirstIsNamed) {
  const auto e = EventSimulation(g, cluster::parse("lab:4x1gbit"), ideal()).estimate(all(g, ring()));
  EXPECT_EQ(e.busiest_host, 0);
  EXPECT_EQ(e.busiest_kind, Estimate::Kind::kSending);
  EXPECT_EQ(e.messages, 1);
  EXPECT_EQ(e.transfers, 2 * 3 * 4);
  EXPECT_NEAR(e.exposed, e.seconds - 3e-3, 1e-6);
  EXPECT_NEAR(e.last_arrival, e.seconds - 1e-3, 1e-6);
}

TEST_F(OneVariable, SlicesAlongOtherAxesArePacked) {
  Calibration k = ideal();
  k.pack_bytes_per_s = 80e6;
  const auto cut = [&](int axis) { return all(g, ring(), strategy::Partition{axis, 2}); };
  EXPECT_NEAR(seconds(k, cut(0)), plain, 1e-3);
  EXPECT_NEAR(seconds(k, cut(1)), plain + 1, 1e-3);
  g.variables[0].shape = {1, 10'000'000};  // in front of it is nothing to skip
  EXPECT_NEAR(seconds(k, cut(1)), plain, 1e-3);
}

TEST_F(OneVariable, BoundsCountWhatNoLinkCanHide) {
  g = layers(3);  // 48 MB
  g.variables[2].backward_s = 0.5;
  g.variables[2].forward_s = 0.25;
  const Bound bound = lower_bound(g, cluster::parse("lab:1x1gbit+1x1gbit/speed=0.5"));
  EXPECT_NEAR(bound.compute, 2 * (2 * 3e-3 + 0.75), 1e-9);
  EXPECT_NEAR(bound.links, 48e6 / 125e6 + 2 * (0.5 + 0.25), 1e-9);
  EXPECT_EQ(bound.seconds, std::max(bound.compute, bound.links));
  const Bound alone = lower_bound(g, cluster::parse("lab:1x1gbit"));
  EXPECT_EQ(alone.links, 0);
  EXPECT_EQ(alone.seconds, alone.compute);
}

TEST(EventSimulation, NeverBelowTheBound) {
  const auto g = layers(8);
  for (const char* name :
       {"lab:4x1gbit", "lab:1x10gbit+3x1gbit", "lab:3x1gbit+1x10gbit/server", "lab:2x1gbit/ranks=2"}) {
    const auto d = cluster::parse(name);
    const EventSimulation simulation(g, d, ideal());
    const double bound = lower_bound(g, d).seconds;
    const strategy::Sampler sampler(g, d);
    strategy::Rng rng(1);
    for (int i = 0; i < 300; ++i) {
      EXPECT_GE(simulation.estimate(sampler.sample(rng)).seconds, bound * (1 - 1e-9)) << name;
    }
  }
}

// Rounding once left 1e-12 of a message over whose end never came; and one rank has nothing to send at all.
TEST(EventSimulation, AlwaysEnds) {
  const auto g = layers(12);
  for (const char* name : {"local:1", "local:2", "lab:1x10gbit+3x1gbit", "lab:8x100mbit"}) {
    const auto d = cluster::parse(name);
    const EventSimulation simulation(g, d, {});
    const strategy::Sampler sampler(g, d);
    strategy::Rng rng(2);
    for (int i = 0; i < 300; ++i) EXPECT_GT(simulation.estimate(sampler.sample(rng)).seconds, 0) << name;
  }
}

TEST(EventSimulation, SameFromManyThreads) {
  const auto g = layers(8);
  const auto d = cluster::parse("lab:1x10gbit+3x1gbit");
  const strategy::Sampler sampler(g, d);
  strategy::Rng rng(3);
  std::vector<strategy::Strategy> strategies;
  for (int i = 0; i < 100; ++i) strategies.push_back(sampler.sample(rng));
  const auto expected = EventSimulation(g, d, {}).score(strategies);
  const EventSimulation shared(g, d, {});
  std::vector<std::vector<double>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = shared.score(strategies); });
  }
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(EventSimulation, IterationTellsTheCriticalPath) {
  const auto g = layers(3);
  const auto d = cluster::parse("lab:4x1gbit");
  const EventSimulation simulation(g, d, {});
  const SimulatedIteration t = simulation.simulate(strategy::build("allreduce", g, d));
  ASSERT_FALSE(t.critical_path.empty());
  EXPECT_EQ(t.critical_path.front().begin, 0);
  EXPECT_NEAR(t.critical_path.back().end, t.estimate.seconds, 1e-9);
}

TEST(EventSimulation, IterationTellsEachVariablesBackward) {
  const auto g = layers(3);
  const auto d = cluster::parse("lab:4x1gbit");
  const auto t = EventSimulation(g, d, {}).simulate(strategy::build("allreduce", g, d));
  double seconds = 0;
  std::set<std::string> names;
  for (const Interval& i : t.intervals) {
    if (i.track != "backward") continue;
    names.insert(i.name);
    seconds += i.end - i.begin;
  }
  EXPECT_EQ(names, (std::set<std::string>{"layer0", "layer1", "layer2"}));
  EXPECT_NEAR(seconds, 3 * 2e-3, 1e-9);
}

TEST(EventSimulation, AloneAWorkerWaitsForNothingEvenWithoutAProfile) {
  auto g = layers(2);
  for (auto& v : g.variables) v.forward_s = v.backward_s = 0;
  const auto d = cluster::parse("lab:1x1gbit");
  const auto t = EventSimulation(g, d, {}).simulate(strategy::build("allreduce", g, d));
  for (const Interval& i : t.intervals) EXPECT_EQ(i.name.find("waits"), std::string::npos) << i.name;
  ASSERT_EQ(t.critical_path.size(), 2u);
  EXPECT_NEAR(t.critical_path.back().end, t.estimate.seconds, 1e-9);
}

// One transfer, from one rank to another.
Route one_way(int from, int to) {
  Route route;
  route.depth = 1;
  route.gates = {{from, 0, 0, 1}};
  route.hops = {{from, to, 1, false, 0, 0}};
  return route;
}

constexpr double kSecond = 125e6;  // bytes of a link of 1 Gbit/s
constexpr double kFine = 64e3;

std::vector<Shipment> run(const char* cluster, std::vector<Shipment> shipments) {
  std::vector<double> busy;
  Network(cluster::parse(cluster), ideal()).run(shipments, {0, 1}, kFine, busy);
  return shipments;
}

// Three rungs of the ladder state it: who runs, who records, who predicts.
TEST(Network, MessagesAreCutAsTheRuntimeCutsThem) {
  EXPECT_EQ(Calibration{}.least_segment, collective::kLeastSegment);
  EXPECT_EQ(dataset::Settings{}.least_segment_bytes, static_cast<int64_t>(collective::kLeastSegment));
}

TEST(Network, StreamsShareALink) {
  const Route a = one_way(0, 2), b = one_way(1, 2);
  const auto out = run("lab:3x1gbit", {{&a, 0, kSecond, 0, 0}, {&b, 9, kSecond / 2, 0, 0}});
  EXPECT_NEAR(out[1].ended, 1, 0.01);
  EXPECT_NEAR(out[0].ended, 1.5, 0.01);
}

TEST(Network, TheSlowerLinkSetsThePace) {
  const Route route = one_way(0, 1);
  EXPECT_NEAR(run("lab:1x10gbit+1x1gbit", {{&route, 0, kSecond, 0, 0}})[0].ended, 1, 0.01);
  EXPECT_NEAR(run("lab:1x1gbit+1x10gbit", {{&route, 0, kSecond, 0, 0}})[0].ended, 1, 0.01);
}

TEST(Network, TheMoreImportantOvertakesInAStream) {
  const Route route = one_way(0, 1);
  const auto out = run("lab:2x1gbit", {{&route, 5, kSecond, 0, 0}, {&route, 1, kSecond, 0.25, 0}});
  EXPECT_NEAR(out[1].ended, 1.25, 0.01);
  EXPECT_NEAR(out[0].ended, 2, 0.01);
  EXPECT_NEAR(out[1].begun, 0.25, 0.01);
}

struct Ran {
  std::vector<Shipment> shipments;
  std::vector<double> busy;  // two hosts: sending, receiving, engines
};
Ran run_with(const Calibration& k, std::vector<Shipment> shipments, const char* cluster = "lab:2x1gbit") {
  Ran ran{std::move(shipments), {}};
  Network(cluster::parse(cluster), k).run(ran.shipments, {0, 1}, kFine, ran.busy);
  return ran;
}

// A tenth of a second's bytes pass at once, and again once the link has been idle for as long.
TEST(Network, AnIdleLinkLetsABurstPass) {
  Calibration k = ideal();
  k.burst_s = 0.1;
  const Route route = one_way(0, 1);
  const auto out = run_with(k, {{&route, 0, kSecond, 0, 0},
                                {&route, 0, kSecond / 10, 1.1, 0},
                                {&route, 0, kSecond / 10, 1.2, 0}})
                       .shipments;
  EXPECT_NEAR(out[0].ended, 0.9, 0.02);
  EXPECT_NEAR(out[1].ended, 1.1, 0.02);
  EXPECT_NEAR(out[2].ended, 1.2, 0.02);
  const auto soon =
      run_with(k, {{&route, 0, kSecond, 0, 0}, {&route, 0, kSecond / 10, 0.95, 0}}).shipments;  // half of it
  EXPECT_NEAR(soon[1].ended, 1, 0.02);
}

TEST(Network, EnginesWorkForMessagesBytesAndSums) {
  Route route = one_way(0, 1);
  const std::vector<Shipment> second{{&route, 0, kSecond, 0, 0}};
  const Ran plain = run_with(ideal(), second);
  ASSERT_EQ(plain.busy.size(), 6U);
  EXPECT_NEAR(plain.busy[0], 1, 1e-3);  // host 0 sends, host 1 receives
  EXPECT_NEAR(plain.busy[1], 0, 1e-3);
  EXPECT_NEAR(plain.busy[2], 0, 1e-3);
  EXPECT_NEAR(plain.busy[3], 1, 1e-3);
  EXPECT_NEAR(plain.busy[5], 0, 1e-3);
  Calibration k = ideal();
  k.engine_bytes_per_s = kSecond;
  EXPECT_NEAR(run_with(k, second).busy[4], 1, 1e-3);
  EXPECT_NEAR(run_with(k, second).busy[5], 1, 1e-3);
  k = ideal();
  k.reduce_bytes_per_s = kSecond / 2;
  EXPECT_NEAR(run_with(k, second).busy[5], 0, 1e-3);  // it is only copied
  route.hops[0].reduce = true;
  EXPECT_NEAR(run_with(k, second).busy[5], 2, 1e-3);
  EXPECT_NEAR(run_with(k, second).busy[4], 0, 1e-3);
  k = ideal();
  k.message_s = 0.25;
  const Ran small = run_with(k, {{&route, 0, 8, 0, 0}});
  EXPECT_NEAR(small.shipments[0].ended, 0.25, 1e-3);  // it is on its way while the sender's engine works
  EXPECT_NEAR(small.busy[4], 0.25, 1e-3);
  EXPECT_NEAR(small.busy[5], 0.25, 1e-3);
}

TEST(Network, WhatIsPreparedSetsOutLater) {
  const Route route = one_way(0, 1);
  const Ran ran = run_with(ideal(), {{&route, 0, kSecond, 0.5, 0.25}});
  EXPECT_NEAR(ran.shipments[0].begun, 0.75, 1e-3);
  EXPECT_NEAR(ran.shipments[0].ended, 1.75, 1e-2);
  EXPECT_NEAR(ran.busy[4], 0.25, 1e-3);  // every worker prepares its own
  EXPECT_NEAR(ran.busy[5], 0.25, 1e-3);
}

TEST(Network, RanksOfOneHostTakeNoLink) {
  const Route route = one_way(0, 1);
  const Ran ran = run_with(ideal(), {{&route, 0, kSecond, 0, 0}}, "lab:1x1gbit/ranks=2");
  EXPECT_NEAR(ran.shipments[0].ended, 0, 1e-3);
  EXPECT_NEAR(ran.busy[0] + ran.busy[1], 0, 1e-3);
}

TEST(Network, AnAnswerWaitsForAllThatItNeeds) {
  const auto d = cluster::parse("lab:3x1gbit");
  const auto g = layers(1);
  const auto plan = plan::make_plan(strategy::build("ps", g, d), g, d);
  const Routes routes(g);
  const Route& route = *routes.find(plan.messages[0]).route;
  EXPECT_EQ(route.depth, 2);
  ASSERT_EQ(route.hops.size(), 4u);  // two push, two pull
  int waiting = 0;
  for (const Gate& gate : route.gates) {
    if (gate.needs == 0) continue;
    ++waiting;
    EXPECT_EQ(gate.needs, 2);
    EXPECT_EQ(gate.hops_count, 2);
  }
  EXPECT_EQ(waiting, 1);
}

TEST(Calibrate, FindsWhatRunsShow) {
  const auto g = layers(10);
  const auto d = cluster::parse("lab:4x1gbit");
  Calibration truth;
  truth.link_efficiency = 0.85;
  truth.compute_scale = 1.4;
  const EventSimulation real(g, d, truth);
  std::vector<dataset::Trial> trials;
  for (const auto& name : strategy::names()) {
    dataset::Trial trial;
    trial.strategy = strategy::build(name, g, d);
    trial.origin = "builder";
    trial.seconds = {real.estimate(trial.strategy).seconds};
    trials.push_back(std::move(trial));
  }
  const EventSimulation fitted(g, d, calibrate(g, d, calibration_runs(trials)));
  const EventSimulation before(g, d, {});
  for (const auto& trial : trials) {
    EXPECT_NEAR(fitted.estimate(trial.strategy).seconds / trial.step_s(), 1, 0.05) << trial.strategy.id;
    EXPECT_GT(std::abs(before.estimate(trial.strategy).seconds / trial.step_s() - 1), 0.05)
        << trial.strategy.id;
  }
}

// Runs that took what `truth` says, calibrated.
Calibration calibrated(const graph::Graph& g, const Calibration& truth, const Calibration& start) {
  const auto d = cluster::parse("lab:4x1gbit");
  const EventSimulation real(g, d, truth);
  std::vector<dataset::Trial> trials;
  for (const auto& name : strategy::names()) {
    dataset::Trial trial;
    trial.strategy = strategy::build(name, g, d);
    trial.origin = "builder";
    trial.seconds = {real.estimate(trial.strategy).seconds};
    trials.push_back(std::move(trial));
  }
  return calibrate(g, d, calibration_runs(trials), start);
}

TEST(Calibrate, GoesAsFarAsTheRunsSay) {
  auto g = layers(2);
  for (auto& v : g.variables) v.forward_s = v.backward_s = 1;
  Calibration truth;
  truth.compute_scale = 3;
  EXPECT_NEAR(calibrated(g, truth, {}).compute_scale, 3, 0.3);
}

TEST(Calibrate, FindsNoHostThatIsSlowerThanAnyIs) {
  auto g = layers(10);
  for (auto& v : g.variables) v.shape = {2};
  Calibration start = ideal(), truth = ideal();
  start.burst_s = 1e-3;
  start.latency_s = 1e-4;
  start.engine_bytes_per_s = start.update_bytes_per_s = 1e10;
  start.message_s = 0.01;  // the most that is looked at
  truth = start;
  truth.message_s = 0.1;
  EXPECT_LE(calibrated(g, truth, start).message_s, 0.01);
}

}  // namespace
}  // namespace entrain::simulator
