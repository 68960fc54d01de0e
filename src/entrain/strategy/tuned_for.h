// What a strategy file was tuned for: a strategy that wins with one batch size, model or cluster may lose
// with another. It belongs to the file, not to S: whoever changes a strategy and saves it has tuned nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

struct TunedFor {
  std::string model;
  int64_t batch_size = 0;  // per rank
  std::string cluster;     // what the user wrote
  std::string hosts;       // its hosts and links: "1x10gbit+3x1gbit"
  friend bool operator==(const TunedFor&, const TunedFor&) = default;
};

TunedFor tuned_for(const std::string& model, int64_t batch_size, const cluster::Cluster& cluster);

// As save() of stored.h, with a note of what it was tuned for.
void save_tuned(const Strategy& strategy, const TunedFor& tuned, const std::filesystem::path& path);

// Nothing when the file does not say. Throws InputError when it cannot be read.
std::optional<TunedFor> load_tuned_for(const std::filesystem::path& path);

// In words, empty when the job is the one that was tuned for: {"batch size 2, here 32", ...}. Models in files
// are compared by the files' names, clusters by their hosts and links.
std::vector<std::string> differences(const TunedFor& tuned, const TunedFor& job);

}  // namespace entrain::strategy
