// For tests: small models, and a timeline of a step that leaves out whatever costs time in reality beside
// computing and payload.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/plan/assignment.h"
#include "entrain/plan/passes.h"

namespace entrain::planner::testing {

struct LayerSpec {
  double forward_s = 1, backward_s = 2;  // per example
  int64_t parameter_bytes = 0, output_bytes = 0;
  double fixed_s = 0;  // per pass
};

// One variable per layer that has parameters; times profiled at 1, 2 and 8 examples.
inline graph::Graph chain(const std::vector<LayerSpec>& specs) {
  graph::Graph g;
  g.model = "chain";
  g.batch_size = 8;
  for (const LayerSpec& spec : specs) {
    graph::Layer layer;
    layer.name = fmt::format("layer{}", g.layers.size());
    if (spec.parameter_bytes > 0) {
      layer.variables = {static_cast<int>(g.variables.size())};
      graph::Variable v;
      v.name = layer.name + ".weight";
      v.shape = {spec.parameter_bytes / 4};
      g.variables.push_back(v);
    }
    for (const int64_t n : {1, 2, 8}) {
      layer.times.push_back({n, spec.fixed_s + static_cast<double>(n) * spec.forward_s,
                             spec.fixed_s + static_cast<double>(n) * spec.backward_s});
    }
    layer.output_bytes = spec.output_bytes;
    layer.kept_bytes = spec.output_bytes;
    g.layers.push_back(layer);
  }
  return g;
}

// Hosts by (workers, speed, bytes per second of the link in each direction).
struct HostSpec {
  int workers = 1;
  double speed = 1, link = 1;
};
inline cluster::Cluster hosts(const std::vector<HostSpec>& specs) {
  cluster::Cluster c;
  c.name = "hand-made";
  for (const HostSpec& spec : specs) {
    cluster::Host host;
    host.address = fmt::format("10.0.0.{}", c.hosts.size() + 1);
    host.workers = spec.workers;
    host.speed = spec.speed;
    host.bandwidth_gbit = spec.link * 8e-9;
    c.hosts.push_back(host);
  }
  return c;
}

// Steps of a shape, event by event: ranks run their passes in order, layer by layer; a layer's forward waits
// for the sums of its variables; whatever is ready first takes a link first. Activations of one hop take both
// directions' ends; a sum over w hosts takes 2 (w - 1) / w of its bytes on each of their links. No latency,
// no cost per message, no updates, nothing recomputed, transfers within a host are free.
class Timeline {
 public:
  Timeline(const graph::Graph& graph, const cluster::Cluster& cluster, const strategy::Shape& shape,
           int64_t examples)
      : graph_(graph),
        cluster_(cluster),
        shape_(shape),
        assignment_(plan::assign(shape, examples)),
        passes_(plan::make_passes(shape, assignment_)) {
    for (int r = 0; r < cluster.world(); ++r) host_.push_back(cluster.host_of(r));
    out_.assign(cluster.hosts.size(), 0);
    in_.assign(cluster.hosts.size(), 0);
    holders_.resize(graph.variables.size());
    for (size_t l = 0; l < graph.layers.size(); ++l) {
      for (const int v : graph.layers[l].variables) {
        for (const int r : shape.holders_of(static_cast<int>(l))) holders_[v].insert(r);
      }
    }
  }

  // Seconds per step, over the last `steps` - 2 of them.
  double period(int steps = 5) {
    ranks_.assign(passes_.size(), {});
    synced_.assign(graph_.variables.size(), std::vector<double>(steps + 1, kUnknown));
    for (auto& times : synced_) times[0] = 0;
    std::vector<double> ends(steps);
    while (true) {
      // The next thing to begin: a layer's pass on some rank, or a transfer.
      double begin = kUnknown;
      int rank = -1;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const double at = rank_begin(static_cast<int>(r), steps);
        if (at < begin) begin = at, rank = static_cast<int>(r);
      }
      auto chosen = pending_.end();
      for (auto it = pending_.begin(); it != pending_.end(); ++it) {
        const double at = transfer_begin(*it);
        if (at <= begin) begin = at, chosen = it;
      }
      if (begin == kUnknown) break;
      if (chosen != pending_.end()) {
        const Transfer transfer = *chosen;
        pending_.erase(chosen);
        carry(transfer, begin);
      } else {
        const int step = ranks_[rank].step;
        ends[step] = std::max(ends[step], run_layer(rank, begin, steps));
      }
    }
    return (ends[steps - 1] - ends[1]) / (steps - 2);
  }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
  struct Rank {
    int step = 0;
    size_t pass = 0;
    int layer = 0;  // of the cell, in the order of this pass
    double free = 0;
  };
  struct Transfer {
    double ready = 0;
    std::vector<int> from, to;  // hosts whose links it takes
    double seconds = 0;
    int variable = -1, step = 0;         // of a sum
    std::tuple<int, int, int, int> key;  // of an activation
  };

  double rank_begin(int r, int steps) {
    const Rank& rank = ranks_[r];
    if (rank.step >= steps || passes_[r].empty()) return kUnknown;
    const auto& work = passes_[r][rank.pass].work;
    const bool forward = work.kind == pipeline::Kind::kForward;
    double at = rank.free;
    if (rank.layer == 0) {
      const auto it = arrived_.find({rank.step, forward ? 0 : 1, work.cell, work.micro_batch});
      const bool source = forward && work.cell == 0;
      if (!source && it == arrived_.end()) return kUnknown;
      if (!source) at = std::max(at, it->second);
    }
    if (forward) {
      for (const int v : graph_.layers[shape_.cells[work.cell].begin + rank.layer].variables) {
        at = std::max(at, synced_[v][rank.step]);
      }
    }
    return at;
  }

  double run_layer(int r, double begin, int steps) {
    Rank& rank = ranks_[r];
    const auto work = passes_[r][rank.pass].work;
    const auto& cell = shape_.cells[work.cell];
    const bool forward = work.kind == pipeline::Kind::kForward;
    const int l = forward ? cell.begin + rank.layer : cell.end - 1 - rank.layer;
    const auto time = graph_.layers[l].time_of(assignment_.micro_batches[work.micro_batch].count);
    const double end = begin + (forward ? time.forward_s : time.backward_s) / cluster_.hosts[host_[r]].speed;
    const int step = rank.step;
    rank.free = end;
    if (!forward) layer_backward_done(l, step, end);
    if (++rank.layer == cell.end - cell.begin) {
      rank.layer = 0;
      pass_done(work, step, end);
      if (++rank.pass == passes_[r].size()) {
        rank.pass = 0;
        ++rank.step;
      }
    }
    (void)steps;
    return end;
  }

  void pass_done(const pipeline::Work& work, int step, double end) {
    const bool forward = work.kind == pipeline::Kind::kForward;
    const int last = static_cast<int>(shape_.cells.size()) - 1;
    if (forward && work.cell == last) {
      arrived_[{step, 1, last, work.micro_batch}] = end;
      return;
    }
    if (!forward && work.cell == 0) return;
    const int next = forward ? work.cell + 1 : work.cell - 1;
    const int a = host_[assignment_.rank_of[work.cell][work.micro_batch]];
    const int b = host_[assignment_.rank_of[next][work.micro_batch]];
    const std::tuple<int, int, int, int> key{step, forward ? 0 : 1, next, work.micro_batch};
    if (a == b) {
      arrived_[key] = end;
      return;
    }
    const int cut = shape_.cells[std::max(work.cell, next)].begin;
    const double bytes = static_cast<double>(graph_.layers[cut - 1].output_bytes *
                                             assignment_.micro_batches[work.micro_batch].count);
    pending_.push_back({end, {a}, {b}, bytes / std::min(link(a), link(b)), -1, 0, key});
  }

  void layer_backward_done(int layer, int step, double end) {
    for (const int v : graph_.layers[layer].variables) {
      auto& done = done_[{v, step}];
      ++done.first;
      done.second = std::max(done.second, end);
      int readers = 0;
      for (const auto& l : graph_.layers) {
        readers += static_cast<int>(std::count(l.variables.begin(), l.variables.end(), v));
      }
      if (done.first < readers * assignment_.count()) continue;
      std::set<int> hosts;
      double slowest = kUnknown;
      for (const int r : holders_[v]) {
        hosts.insert(host_[r]);
        slowest = std::min(slowest, link(host_[r]));
      }
      if (hosts.size() == 1) {
        synced_[v][step + 1] = done.second;
        continue;
      }
      const auto w = static_cast<double>(hosts.size());
      const double bytes = 2 * (w - 1) / w * static_cast<double>(graph_.variables[v].bytes());
      const std::vector<int> all(hosts.begin(), hosts.end());
      pending_.push_back({done.second, all, all, bytes / slowest, v, step, {}});
    }
  }

  double link(int host) const { return cluster_.hosts[host].bandwidth_gbit * 1e9 / 8; }

  double transfer_begin(const Transfer& t) const {
    double at = t.ready;
    for (const int h : t.from) at = std::max(at, out_[h]);
    for (const int h : t.to) at = std::max(at, in_[h]);
    return at;
  }

  void carry(const Transfer& t, double begin) {
    const double end = begin + t.seconds;
    for (const int h : t.from) out_[h] = end;
    for (const int h : t.to) in_[h] = end;
    if (t.variable >= 0) {
      synced_[t.variable][t.step + 1] = end;
    } else {
      arrived_[t.key] = end;
    }
  }

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  const strategy::Shape& shape_;
  plan::Assignment assignment_;
  std::vector<std::vector<pipeline::Pass>> passes_;
  std::vector<int> host_;
  std::vector<double> out_, in_;  // when each host's link is free
  std::vector<std::set<int>> holders_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<double>> synced_;  // by variable and step that waits for it
  std::map<std::tuple<int, int, int, int>, double> arrived_;
  std::map<std::pair<int, int>, std::pair<int, double>>
      done_;  // backwards of a variable: how many, until when
  std::vector<Transfer> pending_;
};

}  // namespace entrain::planner::testing
