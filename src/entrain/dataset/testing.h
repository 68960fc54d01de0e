// A small data set for tests.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "entrain/dataset/dataset.h"
#include "entrain/strategy/builders/registry.h"

namespace entrain::dataset::testing {

// An empty folder that is gone again at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("entrain-dataset-{}", ::getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline graph::Variable variable(const std::string& name, std::vector<int64_t> shape, int ready,
                                bool sparse = false) {
  graph::Variable v;
  v.name = name;
  v.shape = std::move(shape);
  v.ready_order = ready;
  v.sparse = sparse;
  v.rows_per_step = sparse ? 64 : 0;
  v.forward_s = 0.001 / 3;
  v.backward_s = 0.002 / 3;
  return v;
}

inline graph::Graph small_graph(const std::string& model) {
  graph::Graph g;
  g.model = model;
  g.batch_size = 8;
  g.variables = {variable("embedding", {5000, 64}, 2, true), variable("fc.weight", {4096, 1024}, 1),
                 variable("fc.bias", {4096}, 0)};
  g.edges = {{0, 1}, {1, 2}};
  return g;
}

// One trial per builder, with three measured steps each; the last one failed.
inline Domain small_domain(const std::string& model, const std::string& cluster) {
  Domain d;
  d.name = model + "@" + cluster;
  d.graph = small_graph(model);
  d.cluster = cluster::parse(cluster);
  d.settings = {8, "replay", "2 cores, tc", 7};
  for (const std::string& builder : strategy::names()) {
    Trial trial;
    trial.number = static_cast<int>(d.trials.size());
    trial.strategy = strategy::build(builder, d.graph, d.cluster);
    const double base = 0.1 + 0.01 * trial.number;
    trial.seconds = {base / 3, base / 2.9, base / 2.8};
    trial.origin = "builder";
    d.trials.push_back(trial);
  }
  d.trials.back().status = Status::kFailed;
  d.trials.back().seconds.clear();
  d.trials.back().error = "rank 2: \"connection\" reset";
  return d;
}

}  // namespace entrain::dataset::testing
