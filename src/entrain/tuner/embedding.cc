#include "entrain/tuner/embedding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace entrain::tuner {
namespace {

using simulator::PartKind;
using simulator::PartView;

// Message sizes are told apart by these borders.
constexpr std::array<double, 5> kBorders = {64 << 10, 512 << 10, 2 << 20, 6 << 20, 16 << 20};
constexpr int kBuckets = static_cast<int>(kBorders.size()) + 1;
constexpr int kTopologies = 6;
constexpr int kStretches = 3;  // front, middle and back of the model

// Where each block of the vector begins; the servers' shares come last, one per host.
enum Block : int {
  kTopology = 0,
  kAllGather = kTopology + kTopologies,
  kSize = kAllGather + 1,
  kServedAt = kSize + kBuckets,
  kUnset = kServedAt + kStretches,
  kReadyFirst,
  kProxy,
  kOrdered,
  kCut,
  kMessages,
  kHost,
};

int bucket_of(double bytes) {
  return static_cast<int>(std::upper_bound(kBorders.begin(), kBorders.end(), bytes) - kBorders.begin());
}

struct Hash {
  uint64_t value = 1469598103934665603ull;  // FNV-1a
  void add(uint64_t word) {
    for (int i = 0; i < 8; ++i, word >>= 8) value = (value ^ (word & 255)) * 1099511628211ull;
  }
  void add(const std::string& text) {
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    add(text.size());
  }
  void add(const strategy::ParameterServer& s) {
    add(s.destination);
    add(static_cast<uint64_t>(s.local_replication) | static_cast<uint64_t>(s.sync) << 1);
    add(static_cast<uint64_t>(s.staleness) | static_cast<uint64_t>(s.compressor) << 32);
    if (s.group) add(static_cast<uint64_t>(*s.group));
  }
  void add(const strategy::AllReduce& s) {
    add(static_cast<uint64_t>(s.topology) | static_cast<uint64_t>(s.compressor) << 8);
    add(static_cast<uint64_t>(s.group));
    for (const int host : s.ring_order) add(static_cast<uint64_t>(host));
    if (s.compressor == strategy::Compressor::kPowerSgd) add(static_cast<uint64_t>(s.rank));
    if (s.compressor == strategy::Compressor::kTopK) add(std::bit_cast<uint64_t>(s.share));
  }
  void add(const strategy::AllGather& s) { add(static_cast<uint64_t>(s.group)); }
};

}  // namespace

Embedder::Embedder(const graph::Graph& graph, const cluster::Cluster& cluster) : walk_(graph, cluster) {}

size_t Embedder::size() const { return static_cast<size_t>(kHost) + walk_.hosts(); }

Vector Embedder::embed(const strategy::Strategy& strategy) const {
  Vector v(size());
  const double all = std::max(walk_.total_bytes(), 1.0);
  const int variables = std::max(walk_.variables(), 1);
  std::vector<double> groups;  // bytes of each merged message
  double messages = 0, ready_first = 0;
  const auto add_message = [&](double bytes) {
    v[kSize + bucket_of(bytes)] += bytes / all;
    messages += 1;
  };
  walk_.each(strategy, [&](const PartView& part) {
    const double share = part.bytes / all;
    if (!part.part->priority) {
      v[kUnset] += share;
    } else {  // 0: exactly forward's order, 1: exactly backward's
      const double place = static_cast<double>(*part.part->priority - part.variable);
      ready_first += share * std::min(1.0, std::abs(place) / variables);
    }
    if (part.share < 1) v[kCut] += share;
    if (part.kind == PartKind::kAllReduce) {
      const auto& reduce = std::get<strategy::AllReduce>(part.part->synchronizer);
      v[kTopology + static_cast<int>(reduce.topology)] += share;
      if (!reduce.ring_order.empty()) v[kOrdered] += share;
      if (part.group >= static_cast<int>(groups.size())) groups.resize(part.group + 1);
      groups[part.group] += part.bytes;
      return;
    }
    add_message(part.bytes);
    if (part.kind == PartKind::kAllGather) {
      v[kAllGather] += share;
      return;
    }
    v[kHost + part.host] += share;
    v[kServedAt + part.variable * kStretches / variables] += share;
    if (part.kind == PartKind::kServerProxy) v[kProxy] += share;
  });
  for (const double bytes : groups) {
    if (bytes > 0) add_message(bytes);
  }
  v[kReadyFirst] = ready_first;
  v[kMessages] = std::min(1.0, std::log2(1 + messages) / 12);
  return v;
}

int Embedder::niche(const Vector& v) const {
  const auto largest = [&](int begin, int end) {
    return static_cast<int>(std::max_element(v.begin() + begin, v.begin() + end) - v.begin()) - begin;
  };
  const int way = largest(kTopology, kSize), host = largest(kHost, static_cast<int>(v.size()));
  const int where = v[kHost + host] > v[kTopology + way] ? kSize + host : way;
  return (where * kBuckets + largest(kSize, kServedAt)) * 2 + (v[kUnset] > 0.5 ? 1 : 0);
}

double similarity(const Vector& a, const Vector& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

uint64_t fingerprint(const strategy::Strategy& strategy) {
  Hash hash;
  for (const strategy::VariableConfig& config : strategy.variables) {
    hash.add(config.name);
    const strategy::Partition partition = config.partition.value_or(strategy::Partition{-1, 1});
    hash.add(static_cast<uint64_t>(partition.axis + 1) << 32 | static_cast<uint64_t>(partition.shards));
    for (const strategy::Part& part : config.parts) {
      hash.add(part.synchronizer.index());
      std::visit([&](const auto& s) { hash.add(s); }, part.synchronizer);
      hash.add(part.priority ? static_cast<uint64_t>(*part.priority) + 1 : 0);
    }
  }
  return hash.value;
}

}  // namespace entrain::tuner
