#include "entrain/graph/capture.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "entrain/base/error.h"

namespace entrain::graph {
namespace {

using torch::autograd::Node;
using Set = std::vector<int>;  // of variables, sorted

// Children before parents. Iterative: the graph is as deep as the model.
std::vector<Node*> post_order(Node* root) {
  std::vector<Node*> order;
  std::unordered_map<Node*, size_t> next_child{{root, 0}};
  std::vector<Node*> stack{root};
  while (!stack.empty()) {
    Node* node = stack.back();
    size_t& next = next_child[node];
    if (next == node->next_edges().size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    Node* child = node->next_edges()[next++].function.get();
    if (child != nullptr && next_child.emplace(child, 0).second) stack.push_back(child);
  }
  return order;
}

// A lookup's indices are data although autograd shows no edge for them.
bool is_lookup(const Node& node) {
  const std::string name = node.name();
  return name.starts_with("Embedding") || name.starts_with("Index") || name.starts_with("Gather");
}

class Walk {
 public:
  explicit Walk(const std::vector<torch::Tensor>& variables)
      : first_use(variables.size(), std::numeric_limits<uint64_t>::max()),
        first_op(variables.size(), nullptr) {
    for (size_t i = 0; i < variables.size(); ++i)
      index_[variables[i].unsafeGetTensorImpl()] = static_cast<int>(i);
  }

  void run(Node* root) {
    for (Node* node : post_order(root)) visit(node, node == root);
  }

  std::vector<uint64_t> first_use;    // per variable: sequence number of the first operation that reads it
  std::vector<const Node*> first_op;  // and that operation
  std::set<std::pair<int, int>> edges;

 private:
  // A node is either computed from parameters only, and then belongs to whatever reads it, or it carries
  // data.
  struct Info {
    bool parameters_only = false;
    int set = 0;  // in sets_: the parameters it is made of, or those whose operations its data last passed
  };

  void visit(Node* node, bool is_root) {
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      const auto found = index_.find(leaf->variable.unsafeGetTensorImpl());
      if (found != index_.end()) info_[node] = {true, add_set({found->second})};
      return;  // otherwise data that happens to require a gradient
    }
    std::set<int> data_sets, parameter_sets;
    bool parameters_only = !is_root && !node->next_edges().empty();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      const Info child = edge.is_valid() ? info_[edge.function.get()] : Info{};
      (child.parameters_only ? parameter_sets : data_sets).insert(child.set);
      parameters_only = parameters_only && child.parameters_only;
    }
    const int read = merge(parameter_sets);
    if (parameters_only && !is_lookup(*node)) {
      info_[node] = {true, read};
      return;
    }
    const int passed = merge(data_sets);
    if (read != 0) record(node, sets_[passed], sets_[read]);
    info_[node] = {false, read != 0 ? read : passed};
  }

  void record(const Node* node, const Set& from, const Set& to) {
    for (int v : to) {
      if (node->sequence_nr() < first_use[v]) {
        first_use[v] = node->sequence_nr();
        first_op[v] = node;
      }
      for (int u : from) {
        if (!std::binary_search(to.begin(), to.end(), u)) edges.emplace(u, v);
      }
    }
  }

  int add_set(Set set) {
    sets_.push_back(std::move(set));
    return static_cast<int>(sets_.size()) - 1;
  }

  int merge(std::set<int>& ids) {
    ids.erase(0);
    if (ids.empty()) return 0;
    if (ids.size() == 1) return *ids.begin();
    std::set<int> all;
    for (int id : ids) all.insert(sets_[id].begin(), sets_[id].end());
    return add_set(Set(all.begin(), all.end()));
  }

  std::unordered_map<const c10::TensorImpl*, int> index_;
  std::unordered_map<const Node*, Info> info_;
  std::vector<Set> sets_{{}};  // sets_[0] is empty; nodes share them
};

}  // namespace

NamedTensors trainable_parameters(const torch::nn::Module& module) {
  NamedTensors named;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    named.emplace_back(item.key(), item.value());
  }
  return named;
}

std::string dtype_name(const std::string& variable, torch::ScalarType type) {
  switch (type) {
    case torch::kFloat16:
      return "float16";
    case torch::kBFloat16:
      return "bfloat16";
    case torch::kFloat32:
      return "float32";
    case torch::kFloat64:
      return "float64";
    default:
      fail("variable {}: dtype {} is not supported; allowed: float16, bfloat16, float32, float64", variable,
           c10::toString(type));
  }
}

Capture capture_variables(const NamedTensors& parameters, const torch::Tensor& loss) {
  if (loss.defined() && !loss.grad_fn()) fail("capture: the loss does not depend on any variable");
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  Walk walk(tensors);
  if (loss.defined()) walk.run(loss.grad_fn().get());

  std::vector<int> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return walk.first_use[a] < walk.first_use[b]; });

  Capture result;
  std::vector<int> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int v = order[i];
    position[v] = static_cast<int>(i);
    Variable variable;
    variable.name = parameters[v].first;
    variable.shape = tensors[v].sizes().vec();
    variable.dtype = dtype_name(variable.name, tensors[v].scalar_type());
    variable.ready_order = static_cast<int>(order.size() - 1 - i);
    result.graph.variables.push_back(std::move(variable));
    result.variables.push_back(tensors[v]);
    const bool same_layer =
        i > 0 && walk.first_op[v] != nullptr && walk.first_op[v] == walk.first_op[order[i - 1]];
    result.layers.push_back(i == 0 ? 0 : result.layers.back() + (same_layer ? 0 : 1));
  }
  for (const auto& [from, to] : walk.edges) result.graph.edges.push_back({position[from], position[to]});
  std::sort(result.graph.edges.begin(), result.graph.edges.end(),
            [](const Edge& a, const Edge& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  return result;
}

void describe_gradients(Capture& captured, const std::vector<size_t>& ready) {
  auto& variables = captured.graph.variables;
  for (Variable& variable : variables) variable.ready_order = -1;
  int next = 0;
  for (const size_t i : ready) variables[i].ready_order = next++;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].ready_order < 0) variables[i].ready_order = next++;
    const torch::Tensor gradient = captured.variables[i].grad();
    variables[i].sparse = gradient.defined() && gradient.is_sparse();
    if (variables[i].sparse) variables[i].rows_per_step = gradient.coalesce()._nnz();
  }
}

std::vector<torch::Tensor> tensors_of(const NamedTensors& parameters, const Graph& graph) {
  std::unordered_map<std::string_view, const torch::Tensor*> by_name;
  for (const auto& [name, tensor] : parameters) by_name.emplace(name, &tensor);
  std::vector<torch::Tensor> tensors;
  for (const Variable& variable : graph.variables) {
    const auto found = by_name.find(variable.name);
    if (found == by_name.end()) fail("the model has no variable {}", variable.name);
    const torch::Tensor& tensor = *found->second;
    if (tensor.sizes().vec() != variable.shape) {
      fail("variable {}: the model has shape [{}], the graph [{}]", variable.name,
           fmt::join(tensor.sizes(), ","), fmt::join(variable.shape, ","));
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace entrain::graph
