// Strategies scored per second, on one core: build/bench/scoring [SECONDS]
//
// The graphs are made by hand with the sizes of VGG16 (32 variables, 138 M parameters) and BERT-large
// (391 variables, 335 M), so that neither torch nor a profile is needed.
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "entrain/base/clock.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/published_terms.h"
#include "entrain/strategy/validate.h"

namespace {

using namespace entrain;

void add(graph::Graph& g, std::string name, std::vector<int64_t> shape) {
  graph::Variable v;
  v.name = std::move(name);
  v.shape = std::move(shape);
  v.forward_s = 1e-3;
  v.backward_s = 2e-3;
  g.variables.push_back(std::move(v));
}

void finish(graph::Graph& g) {
  const int n = static_cast<int>(g.variables.size());
  for (int i = 0; i < n; ++i) {
    g.variables[i].ready_order = n - 1 - i;
    if (i > 0) g.edges.push_back({i - 1, i});
  }
}

graph::Graph vgg16() {
  graph::Graph g;
  g.model = "vgg16";
  int64_t in = 3;
  for (const int64_t out : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    add(g, fmt::format("conv{}.weight", g.variables.size() / 2), {out, in, 3, 3});
    add(g, fmt::format("conv{}.bias", g.variables.size() / 2), {out});
    in = out;
  }
  in = 25088;
  for (const int64_t out : {4096, 4096, 1000}) {
    add(g, fmt::format("fc{}.weight", g.variables.size() / 2), {out, in});
    add(g, fmt::format("fc{}.bias", g.variables.size() / 2), {out});
    in = out;
  }
  finish(g);
  return g;
}

graph::Graph bert_large() {
  graph::Graph g;
  g.model = "bert-large";
  for (const auto& [name, rows] : {std::pair{"word", 30522}, {"position", 512}, {"segment", 2}}) {
    add(g, fmt::format("embedding.{}.weight", name), {rows, 1024});
  }
  const auto norm = [&](const std::string& at) {
    add(g, at + ".norm.weight", {1024});
    add(g, at + ".norm.bias", {1024});
  };
  norm("embedding");
  for (int layer = 0; layer < 24; ++layer) {
    const std::string at = fmt::format("layer.{}", layer);
    for (const char* part : {"query", "key", "value", "output"}) {
      add(g, fmt::format("{}.attention.{}.weight", at, part), {1024, 1024});
      add(g, fmt::format("{}.attention.{}.bias", at, part), {1024});
    }
    norm(at + ".attention");
    add(g, at + ".up.weight", {4096, 1024});
    add(g, at + ".up.bias", {4096});
    add(g, at + ".down.weight", {1024, 4096});
    add(g, at + ".down.bias", {1024});
    norm(at);
  }
  add(g, "pooler.weight", {1024, 1024});
  add(g, "pooler.bias", {1024});
  finish(g);
  return g;
}

// Half of the large variables cut into up to 8 shards, each part on a server or in one of 20 groups.
strategy::Strategy random_strategy(const graph::Graph& g, const cluster::Cluster& c, std::mt19937_64& rng) {
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<uint64_t>(n)); };
  strategy::Strategy s;
  for (const auto& v : g.variables) {
    strategy::VariableConfig config{v.name, std::nullopt, {}};
    int shards = 1;
    if (v.bytes() > 1 << 20 && below(2) == 0) {
      shards = 2 + below(7);
      config.partition = strategy::Partition{0, shards};
    }
    for (int p = 0; p < shards; ++p) {
      strategy::AllReduce reduce;
      reduce.group = below(20);
      strategy::Synchronizer synchronizer = reduce;
      if (below(2) == 0) {
        synchronizer = strategy::ParameterServer{c.hosts[below(static_cast<int>(c.hosts.size()))].address};
      }
      config.parts.push_back({std::move(synchronizer), std::nullopt});
    }
    s.variables.push_back(std::move(config));
  }
  return s;
}

void measure(const simulator::Simulator& simulator, const graph::Graph& g,
             const std::vector<strategy::Strategy>& strategies, double seconds) {
  size_t parts = 0;
  for (const auto& s : strategies) {
    for (const auto& v : s.variables) parts += v.parts.size();
  }
  size_t scored = 0;
  double check = 0;
  const auto start = Clock::now();
  while (scored == 0 || seconds_since(start) < seconds) {
    for (const double score : simulator.score(strategies)) check += score;
    scored += strategies.size();
  }
  const double rate = static_cast<double>(scored) / seconds_since(start);
  fmt::print("{:<16} {:<12} {:>9} {:>11.1f} {:>16.0f}  (mean {:.4g} s)\n", simulator.name(), g.model,
             g.variables.size(), static_cast<double>(parts) / static_cast<double>(strategies.size()), rate,
             check / static_cast<double>(scored));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const auto c = cluster::parse("lab:1x10gbit+3x1gbit");
  fmt::print("{:<16} {:<12} {:>9} {:>11} {:>16}\n", "simulator", "model", "variables", "parts",
             "strategies/s");
  for (const auto& g : {vgg16(), bert_large()}) {
    std::mt19937_64 rng(0);
    std::vector<strategy::Strategy> strategies;
    for (int i = 0; i < 500; ++i) {
      strategies.push_back(random_strategy(g, c, rng));
      strategy::validate(strategies.back(), g, c);
    }
    using Published = simulator::PublishedSimulator;
    measure(Published(g, c, Published::Total::kSum), g, strategies, seconds);
    measure(Published(g, c, Published::Total::kMax), g, strategies, seconds);
    measure(simulator::EventSimulation(g, c, {}), g, strategies, seconds);
  }
  return 0;
}
