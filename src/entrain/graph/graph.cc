#include "entrain/graph/graph.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/limits.h"
#include "entrain/graph/graph.pb.h"

namespace entrain::graph {
namespace {

constexpr size_t kMaxAxes = 64;
constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 16;  // bytes() cannot overflow

// protobuf quotes the offending line under its message; we report on one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// 0: unknown.
int64_t size_of(const std::string& dtype) {
  if (dtype == "float16" || dtype == "bfloat16") return 2;
  if (dtype == "float32") return 4;
  if (dtype == "float64") return 8;
  return 0;
}

// Written so that NaN fails, too.
void check_seconds(const std::string& owner, const char* field, double seconds) {
  if (seconds >= 0 && seconds <= kMaxSeconds) return;
  bad_input("{}: {} is {}, allowed: 0 to {}", owner, field, seconds, kMaxSeconds);
}

void check_count(const std::string& owner, const char* field, int64_t count) {
  if (count < 0) bad_input("{}: {} is {}, allowed: 0 or more", owner, field, count);
}

void check_shape(const Variable& v) {
  if (v.shape.size() > kMaxAxes) {
    bad_input("variable {}: shape has {} axes, allowed: up to {}", v.name, v.shape.size(), kMaxAxes);
  }
  int64_t product = 1;
  for (const int64_t dim : v.shape) {
    if (dim < 0) bad_input("variable {}: shape has {}, allowed: 0 or more", v.name, dim);
    if (dim > 0 && product > kMaxElements / dim)
      bad_input("variable {}: shape has too many elements", v.name);
    product *= dim;
  }
}

void check(const Graph& graph) {
  check_count("graph", "batch_size", graph.batch_size);
  check_count("graph", "input_bytes", graph.input_bytes);
  std::set<std::string> names;
  int64_t elements = 0;  // cannot overflow: both are at most kMaxElements
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    const Variable& v = graph.variables[i];
    if (v.name.empty()) bad_input("variables[{}]: name is empty", i);
    if (!names.insert(v.name).second) bad_input("variable {}: name appears twice", v.name);
    if (size_of(v.dtype) == 0) {
      bad_input("variable {}: dtype is \"{}\", allowed: float16, bfloat16, float32, float64", v.name,
                v.dtype);
    }
    check_shape(v);
    if (v.sparse && v.shape.empty()) bad_input("variable {}: sparse needs a shape with rows", v.name);
    elements += v.elements();
    if (elements > kMaxElements) bad_input("variable {}: too many elements with those before it", v.name);
    const std::string owner = "variable " + v.name;
    check_count(owner, "ready_order", v.ready_order);
    check_count(owner, "rows_per_step", v.rows_per_step);
    check_seconds(owner, "forward_s", v.forward_s);
    check_seconds(owner, "backward_s", v.backward_s);
    if (!(v.flops >= 0 && std::isfinite(v.flops))) {
      bad_input("variable {}: flops is {}, allowed: 0 or more", v.name, v.flops);
    }
  }
  const int count = static_cast<int>(graph.variables.size());
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const Edge& e = graph.edges[i];
    if (e.from < 0 || e.from >= count || e.to < 0 || e.to >= count) {
      bad_input("edges[{}]: {} -> {}, allowed: indices of the {} variables", i, e.from, e.to, count);
    }
  }
  for (const Layer& layer : graph.layers) {
    check_count("layer " + layer.name, "output_bytes", layer.output_bytes);
    check_count("layer " + layer.name, "kept_bytes", layer.kept_bytes);
    for (const int v : layer.variables) {
      if (v >= 0 && v < count) continue;
      bad_input("layer {}: variable {}, allowed: indices of the {} variables", layer.name, v, count);
    }
    int64_t before = 0;
    for (const LayerTime& time : layer.times) {
      const auto possible = [](double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; };
      if (time.examples <= before || !possible(time.forward_s) || !possible(time.backward_s)) {
        bad_input(
            "layer {}: times of {} examples are {} and {}, allowed: ascending examples, seconds from 0 on",
            layer.name, time.examples, time.forward_s, time.backward_s);
      }
      before = time.examples;
    }
  }
  const int layers = static_cast<int>(graph.layers.size());
  for (const Skip& skip : graph.skips) {
    check_count(fmt::format("skip from layer {} to {}", skip.from, skip.to), "bytes", skip.bytes);
    if (skip.from >= 0 && skip.from < skip.to && skip.to < layers) continue;
    bad_input("skip from layer {} to {}, allowed: ascending indices of the {} layers", skip.from, skip.to,
              layers);
  }
}

// Before a parser takes memory for it.
void check_size(const std::string& stored) {
  if (stored.size() <= kMaxDocument) return;
  bad_input("a graph of {} bytes, allowed: up to {}", stored.size(), kMaxDocument);
}

Graph from_proto(const pb::Graph& stored) {
  Graph graph;
  graph.model = stored.model();
  graph.batch_size = stored.batch_size();
  for (const pb::Variable& s : stored.variables()) {
    Variable v;
    v.name = s.name();
    v.shape.assign(s.shape().begin(), s.shape().end());
    if (!s.dtype().empty()) v.dtype = s.dtype();
    v.sparse = s.sparse();
    v.ready_order = s.ready_order();
    v.forward_s = s.forward_s();
    v.backward_s = s.backward_s();
    v.flops = s.flops();
    v.rows_per_step = s.rows_per_step();
    graph.variables.push_back(std::move(v));
  }
  for (const pb::Edge& e : stored.edges()) graph.edges.push_back({e.from(), e.to()});
  for (const pb::Layer& l : stored.layers()) {
    Layer layer{l.name(), {l.variables().begin(), l.variables().end()}};
    for (const pb::LayerTime& t : l.times()) {
      layer.times.push_back({t.examples(), t.forward_s(), t.backward_s()});
    }
    layer.output_bytes = l.output_bytes();
    layer.kept_bytes = l.kept_bytes();
    graph.layers.push_back(std::move(layer));
  }
  for (const pb::Skip& s : stored.skips()) graph.skips.push_back({s.from(), s.to(), s.bytes()});
  graph.input_bytes = stored.input_bytes();
  check(graph);
  return graph;
}

pb::Graph to_proto(const Graph& graph) {
  pb::Graph stored;
  stored.set_model(graph.model);
  stored.set_batch_size(graph.batch_size);
  for (const Variable& v : graph.variables) {
    pb::Variable& s = *stored.add_variables();
    s.set_name(v.name);
    for (const int64_t dim : v.shape) s.add_shape(dim);
    s.set_dtype(v.dtype);
    s.set_sparse(v.sparse);
    s.set_ready_order(v.ready_order);
    s.set_forward_s(v.forward_s);
    s.set_backward_s(v.backward_s);
    s.set_flops(v.flops);
    s.set_rows_per_step(v.rows_per_step);
    s.set_bytes(v.bytes());
  }
  for (const Edge& e : graph.edges) {
    pb::Edge& s = *stored.add_edges();
    s.set_from(e.from);
    s.set_to(e.to);
  }
  for (const Layer& layer : graph.layers) {
    pb::Layer& s = *stored.add_layers();
    s.set_name(layer.name);
    for (const int v : layer.variables) s.add_variables(v);
    for (const LayerTime& t : layer.times) {
      pb::LayerTime& time = *s.add_times();
      time.set_examples(t.examples);
      time.set_forward_s(t.forward_s);
      time.set_backward_s(t.backward_s);
    }
    s.set_output_bytes(layer.output_bytes);
    s.set_kept_bytes(layer.kept_bytes);
  }
  for (const Skip& skip : graph.skips) {
    pb::Skip& s = *stored.add_skips();
    s.set_from(skip.from);
    s.set_to(skip.to);
    s.set_bytes(skip.bytes);
  }
  stored.set_input_bytes(graph.input_bytes);
  stored.set_bytes(graph.bytes());
  stored.set_compute_s(graph.compute_s());
  return stored;
}

}  // namespace

LayerTime Layer::time_of(int64_t examples) const {
  const auto at = std::find_if(times.begin(), times.end(),
                               [&](const LayerTime& time) { return time.examples >= examples; });
  if (at == times.begin() && at != times.end()) return {examples, at->forward_s, at->backward_s};
  const LayerTime& low = at[-1];
  if (at == times.end()) {
    const double more = static_cast<double>(examples) / static_cast<double>(low.examples);
    return {examples, low.forward_s * more, low.backward_s * more};
  }
  const double share =
      static_cast<double>(examples - low.examples) / static_cast<double>(at->examples - low.examples);
  return {examples, low.forward_s + share * (at->forward_s - low.forward_s),
          low.backward_s + share * (at->backward_s - low.backward_s)};
}

int64_t Variable::elements() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

int64_t Variable::element_size() const {
  const int64_t size = size_of(dtype);
  if (size == 0)
    bad_input("variable {}: dtype is \"{}\", allowed: float16, bfloat16, float32, float64", name, dtype);
  return size;
}

int64_t Variable::step_bytes() const {
  if (!sparse || shape.empty() || shape[0] == 0) return bytes();
  const int64_t row = bytes() / shape[0] + static_cast<int64_t>(sizeof(int64_t));
  return std::min(rows_per_step, shape[0]) * row;
}

int64_t Graph::bytes() const {
  int64_t sum = 0;
  for (const Variable& v : variables) sum += v.bytes();
  return sum;
}

double Graph::compute_s() const {
  double sum = 0;
  for (const Variable& v : variables) sum += v.forward_s + v.backward_s;
  return sum;
}

int Graph::find(const std::string& name) const {
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// Written by hand rather than by protobuf, which prints every int64 as a string: scripts
// that read `shape` and `bytes` want numbers. protobuf's parser takes both.
std::string to_json(const Graph& graph) {
  using Json = nlohmann::ordered_json;
  Json variables = Json::array();
  for (const Variable& v : graph.variables) {
    variables.push_back({{"name", v.name},
                         {"shape", v.shape},
                         {"dtype", v.dtype},
                         {"sparse", v.sparse},
                         {"bytes", v.bytes()},
                         {"ready_order", v.ready_order},
                         {"forward_s", v.forward_s},
                         {"backward_s", v.backward_s},
                         {"flops", v.flops},
                         {"rows_per_step", v.rows_per_step}});
  }
  Json edges = Json::array();
  for (const Edge& e : graph.edges) edges.push_back({{"from", e.from}, {"to", e.to}});
  Json document = {{"model", graph.model},   {"batch_size", graph.batch_size},
                   {"bytes", graph.bytes()}, {"compute_s", graph.compute_s()},
                   {"variables", variables}, {"edges", edges}};
  for (const Layer& layer : graph.layers) {
    Json stored = {{"name", layer.name}, {"variables", layer.variables}};
    if (!layer.times.empty()) {
      Json times = Json::array();
      for (const LayerTime& t : layer.times) {
        times.push_back({{"examples", t.examples}, {"forward_s", t.forward_s}, {"backward_s", t.backward_s}});
      }
      stored.update(
          {{"times", times}, {"output_bytes", layer.output_bytes}, {"kept_bytes", layer.kept_bytes}});
    }
    document["layers"].push_back(std::move(stored));
  }
  for (const Skip& skip : graph.skips) {
    document["skips"].push_back({{"from", skip.from}, {"to", skip.to}, {"bytes", skip.bytes}});
  }
  if (graph.input_bytes > 0) document["input_bytes"] = graph.input_bytes;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_binary(const Graph& graph) { return to_proto(graph).SerializeAsString(); }

Graph graph_from_json(const std::string& text) {
  check_size(text);
  pb::Graph stored;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &stored);
  if (!status.ok()) bad_input("not a graph in JSON: {}", one_line(std::string(status.message())));
  return from_proto(stored);
}

Graph graph_from_binary(const std::string& bytes) {
  check_size(bytes);
  pb::Graph stored;
  if (!stored.ParseFromString(bytes)) bad_input("not a graph in protobuf's binary form (see graph.proto)");
  return from_proto(stored);
}

void save(const Graph& graph, const std::filesystem::path& path) {
  write_file_atomically(path, path.extension() == ".json" ? to_json(graph) : to_binary(graph));
}

Graph load(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  try {
    return path.extension() == ".json" ? graph_from_json(content) : graph_from_binary(content);
  } catch (const InputError& error) {
    bad_input("{}: {}", path.string(), error.what());
  }
}

}  // namespace entrain::graph
