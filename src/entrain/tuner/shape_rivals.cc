#include "entrain/tuner/shape_rivals.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "entrain/pipeline/plan/partition.h"
#include "entrain/pipeline/plan/schedule.h"

namespace entrain::tuner {
namespace {

using pipeline::Remat;
using strategy::Shape;

constexpr int kChunks = 2;  // cells per device of an interleaved pipeline

std::vector<int> ranks_of_host(const cluster::Cluster& cluster, int host) {
  std::vector<int> ranks;
  for (const int rank : cluster.worker_ranks()) {
    if (cluster.host_of(rank) == host) ranks.push_back(rank);
  }
  return ranks;
}

// The fastest first.
std::vector<int> by_speed(const cluster::Cluster& cluster) {
  std::vector<int> ranks = cluster.worker_ranks();
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return cluster.hosts[static_cast<size_t>(cluster.host_of(a))].speed >
           cluster.hosts[static_cast<size_t>(cluster.host_of(b))].speed;
  });
  return ranks;
}

// Layers per cell, by what a micro-batch of so many examples takes.
std::vector<int> balance_of(const graph::Graph& graph, int cells, int64_t micro_batch) {
  std::vector<double> costs;
  for (const graph::Layer& layer : graph.layers) {
    const graph::LayerTime time = layer.time_of(micro_batch);
    costs.push_back(time.forward_s + time.backward_s);
  }
  return pipeline::min_max(costs, cells).balance;
}

}  // namespace

std::vector<Shape> shapes_of_one_host(const graph::Graph& graph, const cluster::Cluster& cluster,
                                      int64_t examples) {
  std::vector<Shape> shapes;
  std::set<std::tuple<double, double, int>> kinds;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const cluster::Host& host = cluster.hosts[h];
    if (host.server_only() || !kinds.insert({host.speed, host.memory_gib, host.workers}).second) continue;
    const auto ranks = ranks_of_host(cluster, static_cast<int>(h));
    for (const int each : {1, 2, 4, 8}) {
      Shape shape = strategy::data_parallel(static_cast<int>(graph.layers.size()), ranks);
      shape.micro_batches = each * host.workers;
      if (shape.micro_batches <= examples) shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

std::vector<Shape> plain_pipelines(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   int64_t examples) {
  std::vector<Shape> shapes;
  const std::vector<int> ranks = by_speed(cluster);
  for (const int devices : {2, 4}) {
    if (static_cast<int>(ranks.size()) < devices) continue;
    std::set<size_t> widths = {static_cast<size_t>(devices), ranks.size() - ranks.size() % devices};
    for (const size_t width : widths) {
      const std::vector<int> used(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(width));
      const int64_t replicas = static_cast<int64_t>(width) / devices;
      for (const int micro_batches : {4, 8, 16}) {
        if (micro_batches * replicas > examples) continue;
        const int64_t size = examples / (micro_batches * replicas);
        for (const auto& schedule : pipeline::schedule_names()) {
          const int cells = schedule == "interleaved" ? kChunks * devices : devices;
          if (cells > static_cast<int>(graph.layers.size())) continue;
          const strategy::Pipeline wanted{.devices = devices,
                                          .micro_batches = micro_batches,
                                          .schedule = schedule,
                                          .remat = Remat::kNever};
          shapes.push_back(strategy::shape_of(wanted, balance_of(graph, cells, size), used));
        }
      }
    }
  }
  return shapes;
}

}  // namespace entrain::tuner
