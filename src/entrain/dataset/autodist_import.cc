#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "entrain/base/error.h"
#include "entrain/dataset/autodist.h"
#include "entrain/dataset/autodist_names.h"
#include "entrain/dataset/graph_item.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::dataset {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::string id;
  strategy::Strategy strategy;
  std::vector<double> seconds;
};

// Runs of one model on one resource spec.
struct Setting {
  std::string cluster_folder, spec_text, spec_file;
  std::vector<Run> runs;
};

// The first of these that is in `folder`; empty when none is.
fs::path any_of(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return {};
}

std::vector<fs::path> sorted(const fs::path& folder, bool folders) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() == folders && entry.path().filename().string()[0] != '.')
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_cluster(const fs::path& folder) {
  return !any_of(folder, {"strategies", "strategy"}).empty() &&
         !any_of(folder, {"runtime", "runtimes"}).empty();
}

bool is_model(const fs::path& folder) {
  const auto inside = sorted(folder, true);
  return fs::exists(folder / "graph_item") || std::any_of(inside.begin(), inside.end(), is_cluster);
}

std::string id_of(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".yml") ? name.substr(0, name.size() - 4) : name;
}

YAML::Node field(const YAML::Node& document, const char* name) {
  return document.IsMap() ? document[name] : YAML::Node(YAML::NodeType::Undefined);
}

std::vector<double> read_runtime(const fs::path& file) {
  const auto positive = [&](const YAML::Node& value) {
    const double seconds = value.as<double>();
    if (!(seconds > 0) || !std::isfinite(seconds))
      bad_input("{}: {} s, allowed: above 0", file.string(), seconds);
    return seconds;
  };
  try {
    const YAML::Node document = YAML::Load(read_file(file));
    const YAML::Node steps = field(document, "runtime");
    std::vector<double> seconds;
    if (steps && steps.IsSequence()) {
      for (const auto& step : steps) seconds.push_back(positive(step));
    } else if (steps && steps.IsScalar()) {
      seconds.push_back(positive(steps));
    }
    if (!seconds.empty()) return seconds;
    const YAML::Node average = field(document, "average");
    if (!average) bad_input("{}: fields runtime and average are missing", file.string());
    return {positive(average)};
  } catch (const YAML::Exception& error) {
    bad_input("{}: not a run-time in YAML or JSON: {}", file.string(), error.msg);
  }
}

// The resource spec of a run, or empty.
fs::path spec_of(const fs::path& cluster, const std::string& id) {
  const fs::path specs = any_of(cluster, {"resource_spec", "resource_specs"});
  if (!specs.empty()) {
    for (const std::string& name : {id, id + ".yml"}) {
      if (fs::exists(specs / name)) return specs / name;
    }
    const auto all = sorted(specs, false);
    if (all.size() == 1) return all[0];
  }
  return any_of(cluster, {"resource_spec.yml"});
}

void read_cluster(const fs::path& cluster, std::vector<Setting>& settings) {
  const fs::path strategies = any_of(cluster, {"strategies", "strategy"});
  const fs::path runtimes = any_of(cluster, {"runtime", "runtimes"});
  std::map<std::string, size_t> by_spec;
  for (const fs::path& runtime : sorted(runtimes, false)) {
    const std::string id = id_of(runtime);
    const fs::path file = any_of(strategies, {id.c_str(), (id + ".yml").c_str()});
    if (file.empty()) continue;
    const fs::path spec = spec_of(cluster, id);
    if (spec.empty()) bad_input("{}: no resource_spec for run {}", cluster.string(), id);
    const std::string text = read_file(spec);
    const auto [at, fresh] = by_spec.emplace(text, settings.size());
    if (fresh) settings.push_back({cluster.filename().string(), text, spec.string(), {}});
    try {
      settings[at->second].runs.push_back(
          {id, strategy::from_binary(read_file(file)), read_runtime(runtime)});
    } catch (const InputError& error) {
      const std::string what = error.what();
      if (what.find(runtime.string()) != std::string::npos) throw;
      bad_input("{}: {}", file.string(), what);
    }
  }
}

// Calls visit(config) for each variable of each strategy, in order.
template <typename Visit>
void each_config(const std::vector<Setting>& settings, Visit&& visit) {
  for (const Setting& setting : settings) {
    for (const Run& run : setting.runs) {
      for (const auto& config : run.strategy.variables) visit(config);
    }
  }
}

// Enlarges the shape until the partition fits.
void make_room(const strategy::VariableConfig& config, std::vector<int64_t>& shape) {
  const auto [axis, shards] = config.partition.value_or(strategy::Partition{0, 1});
  shape.resize(std::max(shape.size(), static_cast<size_t>(axis) + 1), 1);
  shape[axis] = std::max<int64_t>(shape[axis], shards);
}

// Variables that only the strategies know.
void add_unknown(const std::vector<Setting>& settings, graph::Graph& graph) {
  std::map<std::string, size_t> added;
  each_config(settings, [&](const strategy::VariableConfig& config) {
    if (graph.find(config.name) < 0) {
      added[config.name] = graph.variables.size();
      graph.variables.push_back({});
      graph.variables.back().name = config.name;
    }
    const auto at = added.find(config.name);
    if (at != added.end()) make_room(config, graph.variables[at->second].shape);
  });
}

// G from the model's graph_item, or from the cluster's where entrain wrote one.
graph::Graph read_graph(const fs::path& item, const std::string& model, const std::vector<Setting>& settings,
                        const ImportOptions& options) {
  std::set<std::string> names;
  each_config(settings, [&](const strategy::VariableConfig& config) { names.insert(config.name); });
  graph::Graph graph;
  if (fs::exists(item)) {
    try {
      GraphItem read = read_graph_item(read_file(item), names);
      if (read.complete) return read.graph;
      graph = std::move(read.graph);
    } catch (const InputError& error) {
      bad_input("{}: {}", item.string(), error.what());
    }
  }
  add_unknown(settings, graph);
  graph.model = model;
  graph.batch_size = options.batch_size;
  const int count = static_cast<int>(graph.variables.size());
  for (int i = 0; i < count; ++i) {
    graph::Variable& v = graph.variables[i];
    v.ready_order = count - 1 - i;
    if (v.sparse) v.rows_per_step = std::min(v.shape[0], options.batch_size * options.sequence);
  }
  return graph;
}

int number_of(const std::string& id, int otherwise) {
  int number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  const bool plain = error == std::errc() && end == id.data() + id.size() && number >= 0;
  return plain ? number : otherwise;
}

Domain domain_of(const Setting& setting, const graph::Graph& graph) {
  Domain domain;
  domain.graph = graph;
  domain.cluster = cluster::cluster_from_yaml(setting.spec_text, setting.spec_file);
  if (domain.cluster.name == setting.spec_file)
    domain.cluster.name = autodist::from_folder(setting.cluster_folder);
  for (auto& host : domain.cluster.hosts) {
    if (host.ssh_config == autodist::kNoSsh) host.ssh_config.clear();
  }
  domain.cluster.ssh.erase(autodist::kNoSsh);
  domain.settings.batch_size = graph.batch_size;
  domain.settings.machine = "imported from AutoDist's layout";
  std::set<int> numbers;
  for (const Run& run : setting.runs) {
    Trial trial;
    trial.number = number_of(run.id, static_cast<int>(domain.trials.size()));
    if (!numbers.insert(trial.number).second) numbers.insert(trial.number = *numbers.rbegin() + 1);
    trial.strategy = run.strategy;
    if (trial.strategy.id.empty()) trial.strategy.id = run.id;
    trial.seconds = run.seconds;
    trial.origin = "import";
    try {
      strategy::validate(trial.strategy, domain.graph, domain.cluster);
    } catch (const InputError& error) {
      trial.status = Status::kFailed;
      trial.error = std::string("measured, but not for this build: ") + error.what();
    }
    domain.trials.push_back(std::move(trial));
  }
  return domain;
}

void import_model(const fs::path& model, const ImportOptions& options, Dataset& dataset) {
  std::vector<Setting> settings;
  for (const fs::path& cluster : sorted(model, true)) {
    if (is_cluster(cluster)) read_cluster(cluster, settings);
  }
  const std::string name = autodist::from_folder(model.filename().string());
  const graph::Graph shared = read_graph(model / "graph_item", name, settings, options);
  for (const Setting& setting : settings) {
    const fs::path own = model / setting.cluster_folder / "graph_item";
    Domain domain = domain_of(setting, fs::exists(own) ? read_graph(own, name, settings, options) : shared);
    const std::string base = name + "@" + autodist::from_folder(setting.cluster_folder);
    domain.name = base;
    for (int i = 2; dataset.find(domain.name) != nullptr; ++i) domain.name = fmt::format("{}#{}", base, i);
    dataset.domains.push_back(std::move(domain));
  }
}

}  // namespace

Dataset import_autodist(const fs::path& root, const ImportOptions& options) {
  if (!fs::is_directory(root)) bad_input("{}: no such folder", root.string());
  Dataset dataset;
  const fs::path folder = root.has_filename() ? root : root.parent_path();
  if (is_model(folder)) {
    import_model(folder, options, dataset);
  } else {
    for (const fs::path& model : sorted(folder, true)) {
      if (is_model(model)) import_model(model, options, dataset);
    }
  }
  if (dataset.domains.empty()) {
    bad_input("{}: no MODEL/CLUSTER with resource_spec/, runtime/ and strategies/ of the same IDs",
              root.string());
  }
  return dataset;
}

}  // namespace entrain::dataset
