// What it costs to price a shape, in CPU time: build/bench/shape_scoring [SECONDS per line [MOST RANKS]]
//
// BERT-large by its sizes (26 layers, 391 variables), on 4 to 1,024 hosts of one rank. For each number of
// ranks: data parallelism, rows of pipelines of 4, and cells of uneven replicas and shares, each of several
// cuts, so that no shape is the one before it. Then one shape with sums condensed and exact, up to 64 ranks.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <ctime>

#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/validate.h"

namespace {

using namespace entrain;

constexpr int kLayers = 26;
constexpr int kExamplesPerRank = 8;

void add(graph::Graph& g, graph::Layer& layer, const std::string& name, std::vector<int64_t> shape) {
  graph::Variable v;
  v.name = name;
  v.shape = std::move(shape);
  layer.variables.push_back(static_cast<int>(g.variables.size()));
  g.variables.push_back(std::move(v));
}

// 128 tokens; 10 ms forward per example and block.
graph::Graph bert_large() {
  graph::Graph g;
  g.model = "bert-large";
  g.batch_size = kExamplesPerRank;
  g.input_bytes = 128 * 8;
  for (int l = 0; l < kLayers; ++l) {
    graph::Layer layer{fmt::format("layer{}", l), {}, {{1, 10e-3, 20e-3}}, 128 * 1024 * 4, 34 * 128 * 1024};
    const auto norm = [&](const std::string& at) {
      add(g, layer, at + ".norm.weight", {1024});
      add(g, layer, at + ".norm.bias", {1024});
    };
    if (l == 0) {
      for (const auto& [name, rows] : {std::pair{"word", 30522}, {"position", 512}, {"segment", 2}}) {
        add(g, layer, fmt::format("embedding.{}.weight", name), {rows, 1024});
      }
      norm("embedding");
    } else if (l + 1 == kLayers) {
      add(g, layer, "pooler.weight", {1024, 1024});
      add(g, layer, "pooler.bias", {1024});
    } else {
      for (const char* part : {"query", "key", "value", "output"}) {
        add(g, layer, fmt::format("{}.attention.{}.weight", l, part), {1024, 1024});
        add(g, layer, fmt::format("{}.attention.{}.bias", l, part), {1024});
      }
      norm(fmt::format("{}.attention", l));
      add(g, layer, fmt::format("{}.up.weight", l), {4096, 1024});
      add(g, layer, fmt::format("{}.up.bias", l), {4096});
      add(g, layer, fmt::format("{}.down.weight", l), {1024, 4096});
      add(g, layer, fmt::format("{}.down.bias", l), {1024});
      norm(fmt::format("{}", l));
    }
    g.layers.push_back(std::move(layer));
  }
  const int n = static_cast<int>(g.variables.size());
  for (int i = 0; i < n; ++i) g.variables[static_cast<size_t>(i)].ready_order = n - 1 - i;
  return g;
}

std::vector<int> ranks(int begin, int end, int by = 1) {
  std::vector<int> result;
  for (int r = begin; r < end; r += by) result.push_back(r);
  return result;
}

strategy::Shape nothing_recomputed(int micro_batches) {
  strategy::Shape shape = strategy::parse_shape("@0 remat=never", 1);
  shape.cells.clear();
  shape.micro_batches = micro_batches;
  return shape;
}

strategy::Shape pipelines(int world, int first_cut) {
  strategy::Shape shape = nothing_recomputed(world);
  for (int c = 0; c < 4; ++c) {
    const int begin = c == 0 ? 0 : first_cut + 6 * (c - 1), end = c == 3 ? kLayers : first_cut + 6 * c;
    shape.cells.push_back({begin, end, ranks(c, world, 4)});
  }
  return shape;
}

// The last layers on a quarter of the ranks, which take less of the others.
strategy::Shape uneven(int world, int cut) {
  strategy::Shape shape = nothing_recomputed(2 * world);
  shape.cells = {{0, cut, ranks(0, world)}, {cut, kLayers, ranks(0, world / 4)}};
  for (int r = 0; r < world; ++r) {
    shape.cells[0].shares.push_back((r < world / 4 ? 0.5 : 3.5 / 3) / world);
  }
  return shape;
}

std::vector<strategy::Shape> shapes_of(const std::string& kind, int world) {
  std::vector<strategy::Shape> shapes;
  for (int i = 0; i < 4; ++i) {
    if (kind == "data parallel") {
      shapes.push_back(strategy::data_parallel(kLayers, ranks(0, world)));
      shapes.back().micro_batches = (1 + i % 2) * world;
    } else if (kind == "pipelines of 4") {
      shapes.push_back(pipelines(world, 5 + i));
    } else {
      shapes.push_back(uneven(world, 18 + i));
    }
  }
  return shapes;
}

// Of this process: others may use the machine.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(const graph::Graph& g, int world, const std::string& kind, double seconds) {
  const auto d = cluster::parse(fmt::format("lab:{}x10gbit", world));
  const simulator::EventSimulation simulation(g, d, {}, world * kExamplesPerRank);
  std::vector<strategy::Strategy> strategies;
  for (const auto& shape : shapes_of(kind, world)) {
    strategies.push_back(strategy::build("allreduce", g, d));
    strategies.back().shape = shape;
    strategy::validate(shape, kLayers, d, world * kExamplesPerRank);
  }
  const double first = cpu_seconds();
  double predicted = simulation.estimate(strategies[0]).seconds;
  const double cold = cpu_seconds() - first;
  for (const auto& s : strategies) predicted = simulation.estimate(s).seconds;
  int scored = 0;
  const double start = cpu_seconds();
  while (scored == 0 || cpu_seconds() - start < seconds) {
    predicted = simulation.estimate(strategies[static_cast<size_t>(scored++) % strategies.size()]).seconds;
  }
  const double other_shape = (cpu_seconds() - start) / scored;
  const double again = cpu_seconds();
  for (scored = 0; scored == 0 || cpu_seconds() - again < seconds; ++scored) {
    predicted = simulation.estimate(strategies[0]).seconds;
  }
  fmt::print("{:>5}  {:<16} {:>10.3f} {:>12.3f} {:>12.3f} {:>10.1f}   {:.4g}\n", world, kind, 1e3 * cold,
             1e3 * other_shape, 1e3 * (cpu_seconds() - again) / scored, peak_mib(), predicted);
}

struct Priced {
  double seconds, cpu_s;
};

// Once for the routes, once for the clock.
Priced price(const simulator::EventSimulation& simulation, const strategy::Strategy& strategy) {
  simulation.estimate(strategy);
  const double start = cpu_seconds();
  const double seconds = simulation.estimate(strategy).seconds;
  return {seconds, cpu_seconds() - start};
}

void compare(const graph::Graph& g, int world, const std::string& kind, const char* link) {
  const auto d = cluster::parse(fmt::format("lab:{}x{}", world, link));
  const int64_t examples = world * kExamplesPerRank;
  auto s = strategy::build("allreduce", g, d);
  s.shape = shapes_of(kind, world)[0];
  const Priced exact = price(simulator::EventSimulation(g, d, {}, examples, world), s);
  const Priced flows = price(simulator::EventSimulation(g, d, {}, examples, 2), s);
  fmt::print("{:>5}  {:<16} {:<8} {:>10.4f} {:>10.4f} {:>+8.2f}% {:>11.3f} {:>11.3f}\n", world, kind, link,
             exact.seconds, flows.seconds, 100 * (flows.seconds / exact.seconds - 1), 1e3 * exact.cpu_s,
             1e3 * flows.cpu_s);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  const int most = argc > 2 ? std::atoi(argv[2]) : 1024;
  const auto g = bert_large();
  fmt::print("{:>5}  {:<16} {:>10} {:>12} {:>12} {:>10}   {}\n", "ranks", "shape", "first, ms", "other shape",
             "same shape", "peak MiB", "predicted s");
  for (const int world : {4, 16, 64, 256, 1024}) {
    if (world > most) continue;
    for (const char* kind : {"data parallel", "pipelines of 4", "uneven"}) measure(g, world, kind, seconds);
  }
  fmt::print("\n{:>5}  {:<16} {:<8} {:>10} {:>10} {:>9} {:>11} {:>11}\n", "ranks", "shape", "links",
             "exact s", "flows s", "error", "exact, ms", "flows, ms");
  for (const int world : {4, 8, 16, 32, 64}) {
    if (world > most) continue;
    for (const char* kind : {"data parallel", "pipelines of 4", "uneven"}) {
      for (const char* link : {"1gbit", "10gbit"}) compare(g, world, kind, link);
    }
  }
  return 0;
}
