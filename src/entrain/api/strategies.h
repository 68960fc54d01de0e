// The three values that a step time depends on: G (the model), D (the cluster), S (the strategy).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace entrain {

class Context;
namespace graph {
struct Graph;
}
namespace cluster {
struct Cluster;
}
namespace strategy {
struct Strategy;
}

// G: the trained variables, in the order in which forward reads them, with their times. A value.
class Graph {
 public:
  explicit Graph(graph::Graph inner);
  // Runs forward and backward of a batch a few times and watches. `loss`: runs the module's forward and
  // returns the loss. Parameters, gradients and buffers are then as before.
  static Graph of(const torch::nn::Module& module, const std::function<torch::Tensor()>& loss);
  // graph.proto, binary or (the path ends in .json) JSON. Throws InputError naming file and field.
  static Graph load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  std::vector<std::string> variables() const;  // their names
  int64_t bytes() const;                       // of all parameters
  double compute_s() const;                    // forward and backward

  const graph::Graph& inner() const { return *inner_; }

 private:
  std::shared_ptr<const graph::Graph> inner_;
};

// D: hosts, ranks and links. A value.
class Cluster {
 public:
  explicit Cluster(cluster::Cluster inner);
  // "local:4", "lab:1x10gbit+3x1gbit", or the path of a cluster.yml or a hostfile. Throws InputError naming
  // what is wrong and the allowed forms.
  static Cluster parse(const std::string& text_or_path);
  // The one that this job runs on.
  static Cluster of(Context& context);

  std::string name() const;
  int hosts() const;
  int workers() const;  // ranks that train

  const cluster::Cluster& inner() const { return *inner_; }

 private:
  std::shared_ptr<const cluster::Cluster> inner_;
};

// S: how each variable is synchronized. A value.
class Strategy {
 public:
  explicit Strategy(strategy::Strategy inner);
  // "ps", "allreduce+fp16", or a strategy file; for this model on this cluster. Throws InputError where it
  // does not fit, naming variable, field and what is allowed. `seed`: of builders that draw.
  static Strategy build(const std::string& name_or_file, const Graph& graph, const Cluster& cluster,
                        uint64_t seed = 0);
  // The names of all builders.
  static std::vector<std::string> builders();
  // JSON when the path ends in .json, else binary (AutoDist's are read, too). Throws InputError.
  static Strategy load(const std::filesystem::path& path);
  static Strategy from_json(const std::string& text);
  void save(const std::filesystem::path& path) const;
  std::string to_json() const;

  // Throws InputError unless it fits.
  void validate(const Graph& graph, const Cluster& cluster) const;

  std::string name() const;

  const strategy::Strategy& inner() const { return *inner_; }

 private:
  std::shared_ptr<const strategy::Strategy> inner_;
};

// What a step under a strategy would take, without running it.
struct Simulated {
  double step_s = 0;
  double compute_s = 0;     // of it, when nothing is waited for
  double link_bound_s = 0;  // the least that the busiest link allows
};
Simulated simulate(const Strategy& strategy, const Graph& graph, const Cluster& cluster);

}  // namespace entrain
