#include "entrain/simulator/analytic/published_terms.h"

#include <algorithm>
#include <bit>

namespace entrain::simulator {
namespace {

constexpr double kPowerSgdRank = 10;  // the published model's

double bits_per_second(double gbit) { return gbit * 1e9; }

// Bits that leave a worker for one part of an all-reduce, after its compressor.
// Horovod's compressor travels as float32, PowerSGD as two float32 factors of rank r: (n + m) r.
double compressed_bits(const PartView& view, const std::vector<int64_t>& shape,
                       strategy::Compressor compressor) {
  if (compressor != strategy::Compressor::kPowerSgd || shape.size() < 2) return view.bytes * 8;
  double elements = 1;
  for (const int64_t d : shape) elements *= static_cast<double>(d);
  const auto n = static_cast<double>(shape[0]);
  return (n + elements * view.share / n) * kPowerSgdRank * 32;
}

void add(Terms& sum, const Terms& more) {
  sum.transmission += more.transmission;
  sum.overhead += more.overhead;
  sum.latency += more.latency;
}

}  // namespace

const std::array<std::string_view, kPublishedFeatures>& published_feature_names() {
  static constexpr std::array<std::string_view, kPublishedFeatures> kNames = {
      "server_max_transmission", "server_max_overhead", "server_max_latency",
      "server_sum_transmission", "server_sum_overhead", "server_sum_latency",
      "group_max_transmission",  "group_max_overhead",  "group_max_latency",
      "group_sum_transmission",  "group_sum_overhead",  "group_sum_latency"};
  return kNames;
}

PublishedTerms::PublishedTerms(const graph::Graph& graph, const cluster::Cluster& cluster)
    : walk_(graph, cluster), servers_(cluster.hosts.size()) {
  for (const graph::Variable& v : graph.variables) shapes_.push_back(v.shape);
  std::vector<int> worker_hosts;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const int ranks = cluster.hosts[h].workers;
    if (ranks == 0) continue;
    worker_hosts.push_back(static_cast<int>(h));
    workers_ += ranks;
    most_local_ = std::max<double>(most_local_, ranks);
  }
  worker_hosts_ = static_cast<double>(worker_hosts.size());
  const auto rate = [&](int a, int b) {
    return bits_per_second(std::min(cluster.gbit(a, b), cluster.gbit(b, a)));
  };
  double slowest = 0;
  for (const int k : worker_hosts) {
    const double ranks = cluster.hosts[k].workers;
    for (size_t s = 0; s < servers_.size(); ++s) {
      if (static_cast<int>(s) == k) continue;
      const double seconds = 1 / rate(static_cast<int>(s), k);
      servers_[s].hosts += seconds;
      servers_[s].ranks += seconds * ranks;
    }
    for (const int other : worker_hosts) {
      // Within one host only when there is no other: ranks of a host do not use its link.
      if (other != k || worker_hosts.size() == 1) slowest = std::max(slowest, 1 / rate(k, other));
    }
  }
  group_seconds_per_bit_ = slowest;
}

PublishedTerms::Scratch& PublishedTerms::scratch() {
  thread_local Scratch buffers;
  return buffers;
}

Terms PublishedTerms::server_terms(const PartView& view) const {
  const Server& server = servers_[view.host];
  const bool by_host = view.kind == PartKind::kServerProxy && !view.sparse;
  const double per_bit =
      (view.sparse ? server.ranks : server.hosts) + (by_host ? server.hosts : server.ranks);
  return {view.bytes * 8 * per_bit, worker_hosts_ + (by_host ? worker_hosts_ : workers_), 2 * most_local_};
}

double PublishedTerms::collective_seconds(const PartView& view) const {
  if (view.kind == PartKind::kAllGather) return view.bytes * 8 * (workers_ - 1) * group_seconds_per_bit_;
  const auto compressor = std::get<strategy::AllReduce>(view.part->synchronizer).compressor;
  return compressed_bits(view, shapes_[view.variable], compressor) * group_seconds_per_bit_;
}

void PublishedTerms::accumulate(const strategy::Strategy& strategy, Scratch& buffers) const {
  buffers.servers.assign(servers_.size(), Terms{});
  size_t parts = 0;
  for (const auto& config : strategy.variables) parts += config.parts.size();
  // At most half full, so that a probe is short.
  const size_t slots = std::bit_ceil(2 * parts + 2);
  if (buffers.groups.size() < slots) {
    buffers.groups.assign(slots, Group{});
  } else {
    for (const int slot : buffers.used) buffers.groups[slot].id = -1;
  }
  buffers.used.clear();
  const size_t mask = buffers.groups.size() - 1;
  walk_.each(strategy, [&](const PartView& view) {
    if (view.host >= 0) {
      add(buffers.servers[view.host], server_terms(view));
      return;
    }
    size_t slot = (static_cast<size_t>(view.group) * 0x9E3779B1u) & mask;
    while (buffers.groups[slot].id != view.group && buffers.groups[slot].id >= 0) slot = (slot + 1) & mask;
    Group& group = buffers.groups[slot];
    if (group.id < 0) {
      group = {view.group, {0, 1, most_local_}};
      buffers.used.push_back(static_cast<int>(slot));
    }
    group.terms.transmission += collective_seconds(view);
  });
}

PublishedFeatures PublishedTerms::features(const strategy::Strategy& strategy) const {
  PublishedFeatures f{};
  each_total(strategy, [&](const Terms& t, bool server) {
    double* max = f.data() + (server ? 0 : 6);
    double* sum = max + 3;
    const double values[] = {t.transmission, t.overhead, t.latency};
    for (int i = 0; i < 3; ++i) {
      max[i] = std::max(max[i], values[i]);
      sum[i] += values[i];
    }
  });
  return f;
}

PartTerms PublishedTerms::part(const PartView& view) const {
  if (view.host >= 0) return {server_terms(view), true};
  return {{collective_seconds(view), 1, most_local_}, false};
}

PublishedSimulator::PublishedSimulator(const graph::Graph& graph, const cluster::Cluster& cluster,
                                       Total total, Weights weights)
    : terms_(graph, cluster), total_(total), weights_(weights) {}

std::vector<double> PublishedSimulator::score(std::span<const strategy::Strategy> strategies) const {
  std::vector<double> scores;
  scores.reserve(strategies.size());
  for (const auto& strategy : strategies) {
    double sum = 0, max = 0;
    terms_.each_total(strategy, [&](const Terms& t, bool) {
      const double seconds = t.transmission + weights_.overhead * t.overhead + weights_.latency * t.latency;
      sum += seconds;
      max = std::max(max, seconds);
    });
    scores.push_back(total_ == Total::kSum ? sum : max);
  }
  return scores;
}

}  // namespace entrain::simulator
