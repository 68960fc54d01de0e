#include "entrain/simulator/learned/part_features.h"

#include <fmt/format.h>

#include <algorithm>

#include "entrain/plan/link_bound.h"

namespace entrain::simulator {
namespace {

constexpr int kPartVersion = 1;

int compressor_class(const strategy::AllReduce& reduce) {
  switch (reduce.compressor) {
    case strategy::Compressor::kNone:
      return 0;
    case strategy::Compressor::kPowerSgd:
      return 2;
    default:
      return 1;  // Horovod's, with and without error feedback
  }
}

int synchronizer_class(const PartView& view) {
  switch (view.kind) {
    case PartKind::kServer:
      return view.sparse ? 1 : 0;
    case PartKind::kServerProxy:
      return view.sparse ? 3 : 2;
    case PartKind::kAllReduce:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

const Schema& part_schema() {
  static const Schema kSchema = [] {
    Schema s{"part", kPartVersion, {}};
    for (int i = 0; i < kHostColumns; ++i) s.features.push_back(fmt::format("host_{}", i));
    for (int i = 0; i < kGroupColumns; ++i) s.features.push_back(fmt::format("group_{}", i));
    for (const char* name :
         {"compressor_none", "compressor_cast", "compressor_low_rank", "server_dense", "server_sparse",
          "proxy_dense", "proxy_sparse", "all_reduce", "all_gather", "size_share", "bandwidth", "local_ranks",
          "transmission", "overhead", "latency", "is_server"}) {
      s.features.emplace_back(name);
    }
    return s;
  }();
  return kSchema;
}

const Schema& linear_schema() {
  static const Schema kSchema = [] {
    const auto& names = published_feature_names();
    return Schema{"published", kPartVersion, {names.begin(), names.end()}};
  }();
  return kSchema;
}

PartFeatures::PartFeatures(const graph::Graph& graph, const cluster::Cluster& cluster)
    : terms_(graph, cluster),
      slowest_(static_cast<float>(cluster.hosts.at(0).bandwidth_gbit)),
      scale_(std::max({graph.compute_s(), plan::best_link_bound(graph, cluster), 1e-6})) {
  for (const auto& host : cluster.hosts) {
    hosts_.push_back({static_cast<float>(host.bandwidth_gbit), static_cast<float>(host.workers)});
    slowest_ = std::min(slowest_, hosts_.back().bandwidth);
  }
}

void PartFeatures::append(const strategy::Strategy& strategy, PartRows& rows) const {
  const double total = std::max(1.0, terms_.walk().total_bytes());
  terms_.walk().each(strategy, [&](const PartView& view) {
    const size_t begin = rows.values.size();
    rows.values.resize(begin + kPartWidth);
    float* at = rows.values.data() + begin;
    if (view.host >= 0) at[view.host % kHostColumns] = 1;
    at += kHostColumns;
    if (view.group >= 0) at[view.group % kGroupColumns] = 1;
    at += kGroupColumns;
    if (const auto* reduce = std::get_if<strategy::AllReduce>(&view.part->synchronizer)) {
      at[compressor_class(*reduce)] = 1;
    }
    at += 3;
    at[synchronizer_class(view)] = 1;
    at += 6;
    const PartTerms part = terms_.part(view);
    *at++ = static_cast<float>(view.bytes / total);
    *at++ = view.host >= 0 ? hosts_[view.host].bandwidth : slowest_;
    *at++ = view.host >= 0 ? hosts_[view.host].ranks : 0;
    *at++ = static_cast<float>(part.terms.transmission / scale_);
    *at++ = static_cast<float>(part.terms.overhead);
    *at++ = static_cast<float>(part.terms.latency);
    *at++ = part.server ? 1 : 0;
    rows.variables.push_back(view.variable);
  });
  rows.offsets.push_back(static_cast<int64_t>(rows.variables.size()));
}

std::vector<float> PartFeatures::linear(const strategy::Strategy& strategy) const {
  std::vector<float> row;
  const PublishedFeatures features = terms_.features(strategy);
  for (int i = 0; i < kPublishedFeatures; ++i) {
    row.push_back(static_cast<float>(i % 3 == 0 ? features[i] / scale_ : features[i]));
  }
  return row;
}

}  // namespace entrain::simulator
