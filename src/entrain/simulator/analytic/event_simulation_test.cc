#include "entrain/simulator/analytic/event_simulation.h"

#include <gtest/gtest.h>

#include <thread>

#include "entrain/simulator/analytic/bound.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/simulator/analytic/flows.h"
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
  // A slow host pushes 40 MB and pulls 40 MB at once; the last piece (512 KB) is pulled after its push.
  EXPECT_NEAR(e.seconds, 3e-3 + 40e6 / 125e6 + 524288 / 125e6, 1e-3);
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

// Two queues share a link half and half; in one queue the more important goes first.
TEST(Flows, ShareAndPriority) {
  const auto d = cluster::parse("lab:2x1gbit");
  Resources resources(d, ideal());
  Demand demand;
  demand.per_byte.assign(resources.capacity.size(), 0);
  demand.fixed.assign(resources.capacity.size(), 0);
  demand.per_byte[resources.sending(0)] = 1;
  demand.stream = 1;
  const double second = 125e6;  // bytes
  std::vector<Flow> flows{
      {&demand, 0, 5, second, 0, 0}, {&demand, 0, 1, second, 0.25, 0}, {&demand, 1, 9, second, 0, 0}};
  run_flows(flows, 2, resources);
  // 0 and 2 share; at 0.25 flow 1 takes over queue 0 and shares with 2, which ends at 2; then it is alone.
  EXPECT_NEAR(flows[1].ended, 2.125, 1e-6);
  EXPECT_NEAR(flows[2].ended, 2.0, 1e-6);
  EXPECT_NEAR(flows[0].ended, 3.0, 1e-6);
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
