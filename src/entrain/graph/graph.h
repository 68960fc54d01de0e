// G: a model as synchronization sees it. Plain values; no torch here (see capture.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace entrain::graph {

// One trainable variable. The layer times are those of the operations that read it.
struct Variable {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "float32";  // float16, bfloat16, float32, float64
  bool sparse = false;            // its gradient is a sparse tensor (embedding rows)
  int ready_order = 0;            // 0: its gradient is the first that backward makes
  double forward_s = 0;
  double backward_s = 0;
  double flops = 0;           // forward and backward, for the profiled batch
  int64_t rows_per_step = 0;  // sparse: rows touched in the profiled step

  int64_t elements() const;
  int64_t element_size() const;
  int64_t bytes() const { return elements() * element_size(); }
  // What one worker contributes to its sum in a step, before any compression. Sparse: the rows it touches
  // (each once, as they are summed before they are sent), and an int64 index for each.
  int64_t step_bytes() const;
};

// Data flows from variable `from`'s operation to variable `to`'s with no other variable's between.
struct Edge {
  int from;
  int to;
  friend bool operator==(const Edge&, const Edge&) = default;
};

// What a pass through a layer takes, with so many examples at once.
struct LayerTime {
  int64_t examples = 1;
  double forward_s = 0;
  double backward_s = 0;
  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// Of a model that is a sequence of layers: what can be on one rank and not on another.
struct Layer {
  std::string name;
  std::vector<int> variables;         // that it reads, ascending: tied ones are in several layers
  std::vector<LayerTime> times = {};  // measured, ascending by examples; none: not profiled
  int64_t output_bytes = 0;           // of each example: what flows to the next layer
  int64_t kept_bytes = 0;             // of each example: what backward keeps
  friend bool operator==(const Layer&, const Layer&) = default;

  // By the times around: linear between two, in proportion beyond the last. Requires: times.
  LayerTime time_of(int64_t examples) const;
};

// A value that a layer leaves for a later one, past those between.
struct Skip {
  int from = 0, to = 0;  // layers
  int64_t bytes = 0;     // of each example
  friend bool operator==(const Skip&, const Skip&) = default;
};

struct Graph {
  std::string model;
  int64_t batch_size = 0;           // of the profile
  std::vector<Variable> variables;  // in data-flow order: what forward reads first comes first
  std::vector<Edge> edges;
  std::vector<Layer> layers = {};  // none: it is not known to be a sequence
  std::vector<Skip> skips = {};
  int64_t input_bytes = 0;  // of each example, into the first layer; with layers that have times

  int64_t bytes() const;
  double compute_s() const;  // forward and backward
  // Index of the variable, or -1.
  int find(const std::string& name) const;
};

// Stored form: graph.proto, binary or (path ends in .json) JSON. Both throw InputError naming the file and
// field.
std::string to_json(const Graph& graph);
std::string to_binary(const Graph& graph);
Graph graph_from_json(const std::string& text);
Graph graph_from_binary(const std::string& bytes);
void save(const Graph& graph, const std::filesystem::path& path);
Graph load(const std::filesystem::path& path);

}  // namespace entrain::graph
