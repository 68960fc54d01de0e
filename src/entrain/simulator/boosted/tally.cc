#include "entrain/simulator/boosted/tally.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace entrain::simulator {
namespace {

constexpr double kSmallMessage = 65536;  // bytes; below it latency outweighs the wire on any link we know

// When each gradient is there, as a share of backward.
std::vector<double> ready_shares(const graph::Graph& graph) {
  std::vector<int> order(graph.variables.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return graph.variables[a].ready_order < graph.variables[b].ready_order;
  });
  std::vector<double> ready(order.size());
  double time = 0;
  for (const int v : order) ready[v] = time += std::max(0.0, graph.variables[v].backward_s);
  for (size_t i = 0; i < order.size(); ++i) {
    // Without a profile: as if each layer took equally long.
    ready[order[i]] =
        time > 0 ? ready[order[i]] / time : static_cast<double>(i + 1) / static_cast<double>(order.size());
  }
  return ready;
}

}  // namespace

// What grows while the parts are walked.
struct Tallier::Sums {
  struct Message {
    double bytes = 0;
    double ready = 0;   // of its last slice
    double waited = 0;  // sum of bytes x ready of each slice
  };
  std::unordered_map<int, Message> groups;
  std::vector<double> sent, received, served;  // bytes, by host
};

Tallier::Tallier(const graph::Graph& graph, const cluster::Cluster& cluster)
    : walk_(graph, cluster), ready_(ready_shares(graph)) {
  for (const auto& host : cluster.hosts) {
    hosts_.push_back({host.bandwidth_gbit * 1e9, static_cast<double>(host.workers)});
    workers_ += host.workers;
    worker_hosts_ += host.workers > 0 ? 1 : 0;
    largest_bandwidth_ = std::max(largest_bandwidth_, host.bandwidth_gbit * 1e9);
  }
}

// Bytes through each host's link. A server receives from and answers every other host: once per rank, or
// once per host with a proxy. An all-reduce moves 2 (w - 1) / w of the message through each worker host
// whatever its topology; an all-gather every other rank's rows into each host.
void Tallier::add_traffic(const PartView& view, Sums& sums) const {
  for (size_t h = 0; h < hosts_.size(); ++h) {
    const double ranks = hosts_[h].ranks;
    if (ranks == 0) continue;
    if (view.host >= 0) {
      if (static_cast<int>(h) == view.host) continue;
      const double copies = view.kind == PartKind::kServerProxy && !view.sparse ? 1 : ranks;
      const double back = view.sparse ? copies * workers_ : copies;
      sums.sent[h] += view.bytes * copies;
      sums.received[view.host] += view.bytes * copies;
      sums.sent[view.host] += view.bytes * back;
      sums.received[h] += view.bytes * back;
    } else if (view.kind == PartKind::kAllReduce) {
      const double bytes = view.bytes * 2 * (worker_hosts_ - 1) / worker_hosts_;
      sums.sent[h] += bytes;
      sums.received[h] += bytes;
    } else {
      sums.sent[h] += view.bytes * ranks * (workers_ - ranks);
      sums.received[h] += view.bytes * ranks * (workers_ - ranks);
    }
  }
}

Tally Tallier::tally(const strategy::Strategy& strategy) const {
  Tally t;
  Sums sums;
  sums.sent.resize(hosts_.size());
  sums.received.resize(hosts_.size());
  sums.served.resize(hosts_.size());
  const double total = std::max(1.0, walk_.total_bytes());
  for (const auto& config : strategy.variables) {
    t.most_parts = std::max(t.most_parts, static_cast<double>(config.parts.size()));
    t.cut_variables += config.parts.size() > 1 ? 1 : 0;
  }
  walk_.each(strategy, [&](const PartView& view) {
    const double share = view.bytes / total;
    t.parts += 1;
    t.kinds[static_cast<size_t>(view.kind)] += share;
    if (view.part->priority) {
      t.prioritised += 1;
      t.disorder += share * std::min(1.0, std::abs(*view.part->priority - view.variable) /
                                              static_cast<double>(walk_.variables()));
    }
    add_traffic(view, sums);
    if (view.kind == PartKind::kAllReduce) {
      const auto& reduce = std::get<strategy::AllReduce>(view.part->synchronizer);
      t.topologies[static_cast<size_t>(reduce.topology)] += share;
      if (!reduce.ring_order.empty()) t.ring_ordered += share;
      auto& message = sums.groups[view.group];
      message.bytes += view.bytes;
      message.ready = std::max(message.ready, ready_[view.variable]);
      message.waited += view.bytes * ready_[view.variable];
      return;
    }
    // Servers and all-gathers: each part is a message.
    t.messages += 1;
    t.small_messages += view.bytes < kSmallMessage ? 1 : 0;
    t.largest_message = std::max(t.largest_message, share);
    t.late += ready_[view.variable] > 0.9 ? share : 0;
    if (view.host >= 0) {
      sums.served[view.host] += share;
      t.served_bandwidth += share * hosts_[view.host].bits_per_second / largest_bandwidth_;
    }
  });
  finish(sums, t);
  return t;
}

void Tallier::finish(const Sums& sums, Tally& t) const {
  const double total = std::max(1.0, walk_.total_bytes());
  t.groups = static_cast<double>(sums.groups.size());
  t.messages += t.groups;
  for (const auto& [id, message] : sums.groups) {
    const double share = message.bytes / total;
    t.largest_group = std::max(t.largest_group, share);
    t.small_messages += message.bytes < kSmallMessage ? 1 : 0;
    t.waiting += share * message.ready - message.waited / total;
    t.late += message.ready > 0.9 ? share : 0;
  }
  t.largest_message = std::max(t.largest_message, t.largest_group);
  t.prioritised /= std::max(1.0, t.parts);
  double mean = 0, busiest = 0;
  for (size_t h = 0; h < hosts_.size(); ++h) {
    const double rate = hosts_[h].bits_per_second / 8;
    t.send_bound = std::max(t.send_bound, sums.sent[h] / rate);
    t.receive_bound = std::max(t.receive_bound, sums.received[h] / rate);
    busiest = std::max(busiest, (sums.sent[h] + sums.received[h]) / rate);
    mean += (sums.sent[h] + sums.received[h]) / rate / static_cast<double>(hosts_.size());
    t.servers += sums.served[h] > 0 ? 1.0 / static_cast<double>(hosts_.size()) : 0;
    t.served_max = std::max(t.served_max, sums.served[h]);
    if (hosts_[h].ranks == 0) t.served_only += sums.served[h];
  }
  t.link_spread = mean > 0 ? busiest / mean : 1;
}

}  // namespace entrain::simulator
