#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/dataset/autodist.h"
#include "entrain/dataset/autodist_names.h"
#include "entrain/dataset/graph_item.h"
#include "entrain/strategy/stored.h"

namespace entrain::dataset {
namespace {

namespace fs = std::filesystem;

// cluster.yml as AutoDist insists on it: devices listed, one chief, an ssh_config for everyone else.
std::string resource_spec(const cluster::Cluster& cluster) {
  YAML::Node document = YAML::Load(cluster::to_yaml(cluster));
  bool chief = false;
  for (const auto& host : cluster.hosts) chief = chief || host.chief;
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    YAML::Node node = document["nodes"][i];
    for (const char* devices : {"cpus", "gpus"}) {
      if (!node[devices]) continue;
      YAML::Node list(YAML::NodeType::Sequence);
      for (int d = 0; d < node[devices].as<int>(); ++d) list.push_back(d);
      list.SetStyle(YAML::EmitterStyle::Flow);
      node[devices] = list;
    }
    if (!chief && i == 0) node["chief"] = true;
    if (!node["ssh_config"]) node["ssh_config"] = autodist::kNoSsh;
  }
  document["ssh"][autodist::kNoSsh] = YAML::Node(YAML::NodeType::Map);
  return YAML::Dump(document) + "\n";
}

std::string runtime(const Trial& trial) {
  const double sum = std::accumulate(trial.seconds.begin(), trial.seconds.end(), 0.0);
  std::string text = fmt::format("average: {}\nruntime:\n", sum / static_cast<double>(trial.seconds.size()));
  for (const double seconds : trial.seconds) text += fmt::format("- {}\n", seconds);
  return text;
}

// Thousands of small files in a new folder: each of them synced would take minutes.
void write(const fs::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) fail("cannot write {}", path.string());
}

void check_same(const graph::Graph& a, const graph::Graph& b, const std::string& folder) {
  const auto same = [](const graph::Variable& x, const graph::Variable& y) {
    return x.name == y.name && x.shape == y.shape && x.dtype == y.dtype && x.sparse == y.sparse;
  };
  if (!std::equal(a.variables.begin(), a.variables.end(), b.variables.begin(), b.variables.end(), same)) {
    bad_input("model {}: its domains have different variables, and the layout has one graph_item per model",
              folder);
  }
}

void export_domain(const Domain& domain, const fs::path& folder) {
  for (const char* part : {"resource_spec", "runtime", "strategies"}) make_folders(folder / part);
  const std::string spec = resource_spec(domain.cluster);
  write(folder / "graph_item", to_graph_item(domain.graph));
  for (const Trial& trial : domain.trials) {
    if (!trial.ok()) continue;
    const std::string id = fmt::format("{:05}", trial.number);
    write(folder / "resource_spec" / id, spec);
    write(folder / "runtime" / id, runtime(trial));
    write(folder / "strategies" / id, strategy::to_binary(trial.strategy));
  }
}

}  // namespace

void export_autodist(const Dataset& dataset, const fs::path& root) {
  if (fs::exists(root) && !fs::is_empty(root))
    bad_input("{}: is not empty; give a new folder", root.string());
  std::map<std::string, const graph::Graph*> models;  // by folder
  for (const Domain& domain : dataset.domains) {
    const auto place = autodist::place_of(domain.name, domain.graph.model);
    const auto [at, fresh] = models.emplace(place.model, &domain.graph);
    check_same(*at->second, domain.graph, place.model);
    make_folders(root / place.model);
    if (fresh) write(root / place.model / "graph_item", to_graph_item(domain.graph));
    export_domain(domain, root / place.model / place.cluster);
  }
}

}  // namespace entrain::dataset
