#include "entrain/dataset/graph_item.h"

#include <algorithm>
#include <map>

#include "entrain/base/error.h"
#include "entrain/dataset/autodist.pb.h"

namespace entrain::dataset {
namespace {

constexpr std::pair<int, const char*> kTypes[] = {
    {1, "float32"}, {2, "float64"}, {14, "bfloat16"}, {19, "float16"}};
constexpr const char* kUrl = "type.googleapis.com/tensorflow.";

bool holds_variable(const std::string& op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable";
}

// Variables are named as tensors ("W:0") by strategies and gradients, as operations ("W") by the graph.
std::string op_name(const std::string& tensor) {
  return tensor.ends_with(":0") ? tensor.substr(0, tensor.size() - 2) : tensor;
}

graph::Variable read_variable(const pb::NodeDef& node) {
  graph::Variable v;
  const auto shape = node.attr().find("shape");
  if (shape != node.attr().end()) {
    // A size that TensorFlow did not know is -1.
    for (const pb::Dim& dim : shape->second.shape().dim())
      v.shape.push_back(std::max<int64_t>(1, dim.size()));
  }
  const auto dtype = node.attr().find("dtype");
  if (dtype != node.attr().end()) {
    for (const auto& [number, name] : kTypes) {
      if (number == dtype->second.type()) v.dtype = name;
    }
  }
  return v;
}

pb::NodeDef write_variable(const graph::Variable& v) {
  pb::NodeDef node;
  node.set_name(op_name(v.name));
  node.set_op("VarHandleOp");
  for (const int64_t size : v.shape)
    (*node.mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(size);
  if (v.shape.empty()) (*node.mutable_attr())["shape"].mutable_shape();
  for (const auto& [number, name] : kTypes) {
    if (name == v.dtype) (*node.mutable_attr())["dtype"].set_type(number);
  }
  return node;
}

void pack(const google::protobuf::Message& message, const char* type, pb::Packed& packed) {
  packed.set_type_url(std::string(kUrl) + type);
  packed.set_value(message.SerializeAsString());
}

}  // namespace

GraphItem read_graph_item(const std::string& bytes, const std::set<std::string>& wanted) {
  pb::GraphItem item;
  pb::GraphDef def;
  if (!item.ParseFromString(bytes) || !def.ParseFromString(item.graph_def().value())) {
    bad_input("not a GraphItem of AutoDist (see autodist.proto)");
  }
  if (!item.entrain_graph().empty()) return {graph::graph_from_binary(item.entrain_graph()), true};
  std::map<std::string, std::string> names;  // operation -> as strategies say
  for (const std::string& name : wanted) names[op_name(name)] = name;
  std::set<std::string> sparse;
  for (const auto& [gradient, variable] : item.grad_target_pairs()) {
    if (gradient.find(';') != std::string::npos) sparse.insert(op_name(variable));
  }
  graph::Graph graph;
  for (const pb::NodeDef& node : def.node()) {
    const auto name = names.find(node.name());
    if (name == names.end() || !holds_variable(node.op())) continue;
    graph.variables.push_back(read_variable(node));
    graph.variables.back().name = name->second;
    graph.variables.back().sparse = sparse.contains(node.name()) && !graph.variables.back().shape.empty();
    names.erase(name);
  }
  return {std::move(graph), false};
}

std::string to_graph_item(const graph::Graph& graph) {
  pb::GraphItem item;
  pb::GraphDef def;
  for (const graph::Variable& v : graph.variables) {
    *def.add_node() = write_variable(v);
    pb::VariableDef variable;
    variable.set_variable_name(v.name);
    variable.set_is_resource(true);
    variable.set_trainable(true);
    pack(variable, "VariableDef", *item.mutable_info()->add_variables());
    const std::string gradient = "gradients/" + op_name(v.name);
    const std::string key = v.sparse ? fmt::format("{0}/indices:0;{0}/values:0;{0}/shape:0", gradient)
                                     : fmt::format("{}:0", gradient);
    (*item.mutable_grad_target_pairs())[key] = v.name;
  }
  pack(def, "GraphDef", *item.mutable_graph_def());
  item.set_entrain_graph(graph::to_binary(graph));
  return item.SerializeAsString();
}

}  // namespace entrain::dataset
