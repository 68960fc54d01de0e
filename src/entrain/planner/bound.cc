#include "entrain/planner/bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "entrain/base/error.h"
#include "entrain/planner/costs.h"
#include "entrain/planner/least_times.h"
#include "entrain/planner/partial_work.h"

namespace entrain::planner {
namespace {

constexpr double kNoLimit = 1e300;  // bytes per second

// Hosts that are alike: what all ranks of one compute per second, in ranks of speed 1; bytes per second of
// its link in each direction.
struct HostKind {
  double speed, link;
  bool operator<(const HostKind& other) const {
    return std::tie(speed, link) < std::tie(other.speed, other.link);
  }
};
using Hosts = std::map<HostKind, int>;  // that train, and how many of them

double link_bytes_per_s(const cluster::Cluster& cluster, int host) {
  double gbit = cluster.hosts[host].bandwidth_gbit;
  for (const cluster::Link& link : cluster.links) {
    if (link.from != link.to && (link.from == host || link.to == host)) gbit = std::max(gbit, link.gbit);
  }
  return gbit * 1e9 / 8;
}

HostKind kind_of(const cluster::Cluster& cluster, int host) {
  return {cluster.hosts[host].workers * cluster.hosts[host].speed, link_bytes_per_s(cluster, host)};
}

// Dense bytes of each layer, a tied variable's in equal parts; what a sparse one adds (README.md, step 4).
std::vector<double> spread_bytes(const graph::Graph& graph, int64_t examples, bool sparse) {
  std::vector<double> readers(graph.variables.size()), bytes(graph.layers.size());
  for (const auto& layer : graph.layers) {
    for (const int v : layer.variables) ++readers[v];
  }
  const double batches =
      graph.batch_size > 0 ? static_cast<double>(examples) / static_cast<double>(graph.batch_size) : 0;
  for (size_t l = 0; l < bytes.size(); ++l) {
    for (const int v : graph.layers[l].variables) {
      const auto& variable = graph.variables[v];
      const auto step = static_cast<double>(variable.step_bytes());
      if (!variable.sparse) bytes[l] += step / readers[v];
      if (variable.sparse && sparse) bytes[l] += step / 2 * std::min(1.0, batches) / readers[v];
    }
  }
  return bytes;
}

// Dense bytes that can only travel after a layer's last backward and before its next forward: of variables
// that no layer before it reads.
std::vector<double> first_read_bytes(const graph::Graph& graph) {
  std::vector<double> bytes(graph.layers.size());
  std::vector<bool> seen(graph.variables.size());
  for (size_t l = 0; l < bytes.size(); ++l) {
    for (const int v : graph.layers[l].variables) {
      if (!seen[v] && !graph.variables[v].sparse) {
        bytes[l] += static_cast<double>(graph.variables[v].step_bytes());
      }
      seen[v] = true;
    }
  }
  return bytes;
}

// The links part (README.md, steps 3 to 6), for micro-batches of at most `largest` examples.
class HostsTogether {
 public:
  HostsTogether(const graph::Graph& graph, const LeastTimes& times, int64_t examples, int64_t largest,
                double fastest_rank)
      : layers_(link_layers(graph, times, examples, largest)), partial_(layers_) {
    const int first = times.first_trained();
    const auto spread = spread_bytes(graph, examples, false);
    dense_ = std::accumulate(spread.begin() + first, spread.end(), 0.0);
    const auto bytes = first_read_bytes(graph);
    for (int l = first; l < times.layers(); ++l) {
      exposed_.push_back({bytes[l], times.chain(l, 1, largest) / fastest_rank});
    }
    least_flow_ = layers_.flow.empty() ? 0 : *std::min_element(layers_.flow.begin(), layers_.flow.end());
    around_s_ = (times.forward(first, largest) + times.way_back(largest)) / fastest_rank;
  }

  // The smallest T for which the hosts can do all work. `links`: of all hosts, in bytes per second.
  double seconds(const Hosts& hosts, double links) const {
    double speeds = 0, best = 0;
    for (const auto& [kind, count] : hosts) {
      speeds += count * kind.speed;
      best = std::max(best, kind.speed);
    }
    double low = std::max(layers_.all_work() / speeds, dearest_layer(hosts)),
           high = layers_.all_work() / best;
    if (low >= high || enough(hosts, links, low)) return low;
    while (high - low > 1e-6 * high) {
      const double middle = (low + high) / 2;
      (enough(hosts, links, middle) ? high : low) = middle;
    }
    return low;
  }

 private:
  struct Exposed {
    double bytes, chain_s;
  };

  static LinkLayers link_layers(const graph::Graph& graph, const LeastTimes& times, int64_t examples,
                                int64_t largest) {
    LinkLayers layers{static_cast<double>(examples), {}, {}, {}};
    const auto spread = spread_bytes(graph, examples, true);
    for (int l = times.first_trained(); l < times.layers(); ++l) {
      layers.work.push_back(times.per_example(l, largest));
      layers.spread.push_back(spread[l]);
      if (l + 1 < times.layers()) layers.flow.push_back(static_cast<double>(graph.layers[l].output_bytes));
    }
    return layers;
  }

  // Each layer is on one host, or spread over two at least, the slower of which waits for its sum.
  double dearest_layer(const Hosts& hosts) const {
    double fastest = 0, best_link = 0, second_link = 0;
    for (const auto& [kind, count] : hosts) {
      fastest = std::max(fastest, kind.speed);
      for (int i = 0; i < std::min(count, 2); ++i) {
        second_link = std::max(second_link, std::min(best_link, kind.link));
        best_link = std::max(best_link, kind.link);
      }
    }
    double dearest = 0;
    for (size_t l = 0; l < exposed_.size(); ++l) {
      const double alone = layers_.examples * layers_.work[l] / fastest;
      const double spread =
          second_link > 0 ? exposed_[l].chain_s + exposed_[l].bytes / second_link : kNoLimit;
      if (exposed_[l].bytes > 0) dearest = std::max(dearest, std::min(alone, spread));
    }
    return dearest;
  }

  // Whether all layers may be spread over this host and others.
  bool may_spread_all(const HostKind& host, double seconds) const {
    if (layers_.all_spread() > seconds * host.link) return false;
    return std::all_of(exposed_.begin(), exposed_.end(), [&](const Exposed& layer) {
      return layer.bytes == 0 || layer.chain_s + layer.bytes / host.link <= seconds;
    });
  }

  bool enough(const Hosts& hosts, double links, double seconds) const {
    const double all = layers_.all_work() * (1 - 1e-9);
    double sum = 0;
    std::vector<std::pair<double, int>> gains;  // of spreading all layers over a host, and how many of these
    for (const auto& [kind, count] : hosts) {
      const double limit = kind.speed * seconds;
      if (limit >= all) return true;
      const double flow_s = seconds - around_s_ - least_flow_ / kind.link;
      const double partly = partial_.most(limit, seconds * kind.link, flow_s * kind.link);
      sum += count * partly;
      if (limit > partly && may_spread_all(kind, seconds)) gains.emplace_back(limit - partly, count);
    }
    // k such hosts: 2 (k - 1) dense bytes leave hosts, and one needs another that holds something.
    double most = dense_ > 0 ? seconds * links / (2 * dense_) + 1 : kNoLimit;
    if (most < 2) most = 0;
    std::sort(gains.rbegin(), gains.rend());
    for (const auto& [gain, count] : gains) {
      const double of_these = std::min(std::floor(most), static_cast<double>(count));
      sum += of_these * gain;
      most -= of_these;
    }
    return sum >= all;
  }

  LinkLayers layers_;
  PartialWork partial_;
  double dense_ = 0;
  std::vector<Exposed> exposed_;  // by layer
  double least_flow_ = 0, around_s_ = 0;
};

// Sizes at which groups of micro-batch sizes end: each of the first few, then larger by a quarter.
std::vector<int64_t> size_groups(int64_t examples) {
  std::vector<int64_t> ends;
  for (int64_t n = 1; n < examples; n += std::max<int64_t>(1, n / 4)) ends.push_back(n);
  ends.push_back(examples);
  return ends;
}

class LowerBound {
 public:
  LowerBound(const graph::Graph& graph, const cluster::Cluster& cluster, int64_t examples,
             const BoundOptions& options)
      : graph_(graph), cluster_(cluster), examples_(examples), times_(graph) {
    for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h) {
      links_ += link_bytes_per_s(cluster, h);
      if (cluster.hosts[h].server_only()) continue;
      ++hosts_[kind_of(cluster, h)];
      speeds_ += kind_of(cluster, h).speed;
      fastest_ = std::max(fastest_, cluster.hosts[h].speed);
    }
    if (options.shared_speed > 0) speeds_ = std::min(speeds_, options.shared_speed);
  }

  Bound find() const {
    // The largest micro-batch lies in one of the groups. From group to group the chain grows (each takes the
    // least of those after it as well) and the work falls, so the least of their maxima is where they meet.
    const auto ends = size_groups(examples_);
    std::vector<double> chains(ends.size());
    for (size_t g = ends.size(); g-- > 0;) {
      const int64_t least = g == 0 ? 1 : ends[g - 1] + 1;
      chains[g] = times_.chain(times_.first_trained(), least, ends[g]) / fastest_;
      if (g + 1 < ends.size()) chains[g] = std::min(chains[g], chains[g + 1]);
    }
    size_t low = 0, high = ends.size();  // the chain is below the work before `low`, not from `high` on
    std::map<size_t, Bound> bounds;
    while (low < high) {
      const size_t g = (low + high) / 2;
      bounds[g] = of_group(ends[g], chains[g]);
      (bounds[g].chain_s < std::max(bounds[g].compute_s, bounds[g].links_s) ? low : high) =
          bounds[g].chain_s < std::max(bounds[g].compute_s, bounds[g].links_s) ? g + 1 : g;
    }
    Bound best;
    best.seconds = kNoLimit;
    for (const size_t g : {high - 1, high}) {
      if (const auto at = bounds.find(g); at != bounds.end() && at->second.seconds < best.seconds) {
        best = at->second;
        best_largest_ = ends[g];
      }
    }
    if (best.binds == Bound::Part::kLinks) best.host = binding_host();
    return best;
  }

 private:
  Bound of_group(int64_t largest, double chain_s) const {
    Bound bound;
    bound.chain_s = chain_s;
    bound.compute_s = static_cast<double>(examples_) * times_.per_example(largest) / speeds_;
    bound.links_s = links_seconds(hosts_, links_, largest);
    bound.seconds = std::max({bound.chain_s, bound.compute_s, bound.links_s});
    if (bound.links_s > bound.compute_s * (1 + 1e-6)) bound.binds = Bound::Part::kLinks;
    if (bound.chain_s >= bound.seconds) bound.binds = Bound::Part::kChain;
    return bound;
  }

  double links_seconds(const Hosts& hosts, double links, int64_t largest) const {
    if (times_.first_trained() == times_.layers()) return 0;
    return HostsTogether(graph_, times_, examples_, largest, fastest_).seconds(hosts, links);
  }

  int binding_host() const {
    std::map<HostKind, double> without;
    int best = -1;
    for (int h = 0; h < static_cast<int>(cluster_.hosts.size()); ++h) {
      if (cluster_.hosts[h].server_only()) continue;
      const HostKind kind = kind_of(cluster_, h);
      if (!without.count(kind)) {
        Hosts hosts = hosts_;
        if (--hosts[kind] == 0) hosts.erase(kind);
        ++hosts[{kind.speed, kNoLimit}];
        without[kind] = links_seconds(hosts, kNoLimit, best_largest_);
      }
      if (best < 0 || without[kind] < without[kind_of(cluster_, best)] * (1 - 1e-5)) best = h;
    }
    return best;
  }

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  int64_t examples_;
  LeastTimes times_;
  Hosts hosts_;
  double links_ = 0, speeds_ = 0, fastest_ = 0;
  mutable int64_t best_largest_ = 1;
};

}  // namespace

Bound lower_bound(const graph::Graph& graph, const cluster::Cluster& cluster, int64_t examples,
                  const BoundOptions& options) {
  require_profile(graph);
  if (examples < 1) bad_input("examples per update is {}, allowed: 1 or more", examples);
  if (cluster.workers() == 0) bad_input("cluster {}: no rank trains, allowed: one or more", cluster.name);
  return LowerBound(graph, cluster, examples, options).find();
}

}  // namespace entrain::planner
