#include "entrain/simulator/analytic/event_simulation.h"

#include <gtest/gtest.h>

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

TEST(EventSimulation, TimelineTellsTheCriticalPath) {
  const auto g = layers(3);
  const auto d = cluster::parse("lab:4x1gbit");
  const EventSimulation simulation(g, d, {});
  const Timeline t = simulation.timeline(strategy::build("allreduce", g, d));
  ASSERT_FALSE(t.critical_path.empty());
  EXPECT_EQ(t.critical_path.front().begin, 0);
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

TEST(Network, AnAnswerWaitsForAllThatItNeeds) {
  const auto d = cluster::parse("lab:3x1gbit");
  const auto g = layers(1);
  const auto plan = plan::make_plan(strategy::build("ps", g, d), g, d);
  const Routes routes(g);
  const Route& route = *routes.find(plan.messages[0], plan.workers).route;
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

}  // namespace
}  // namespace entrain::simulator
