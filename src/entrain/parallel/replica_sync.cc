#include "entrain/parallel/replica_sync.h"

#include "entrain/graph/capture.h"
#include "entrain/plan/plan.h"

namespace entrain::parallel {
ReplicaSync::ReplicaSync(job::Context& context, std::vector<int> ranks, strategy::Request request,
                         uint64_t seed, std::vector<std::pair<std::string, torch::Tensor>> named)
    : context_(context),
      ranks_(std::move(ranks)),
      request_(std::move(request)),
      seed_(seed),
      named_(std::move(named)),
      transport_(*context.transport, ranks_) {}

void ReplicaSync::settle() {
  graph::Graph graph;
  std::vector<torch::Tensor> variables;
  const auto count = static_cast<int>(named_.size());
  for (int v = 0; v < count; ++v) {
    const auto& [name, tensor] = named_[v];
    graph::Variable variable;
    variable.name = name;
    variable.shape = tensor.sizes().vec();
    variable.dtype = graph::dtype_name(name, tensor.scalar_type());
    variable.sparse = tensor.grad().is_sparse();
    if (variable.sparse) variable.rows_per_step = tensor.grad()._nnz();
    variable.ready_order = count - 1 - v;
    if (v > 0) graph.edges.push_back({v - 1, v});
    graph.variables.push_back(std::move(variable));
    variables.push_back(tensor);
  }
  const auto cluster = cluster::restricted(context_.cluster, ranks_);
  const auto strategy = request_.made_for_part(graph, cluster, seed_);
  id_ = strategy.id;
  engine_ = std::make_unique<sync::Engine>(transport_, context_.job.timeout_s);
  engine_->set_plan(plan::make_plan(strategy, graph, cluster), graph, variables);
}

void ReplicaSync::sum(int64_t step) {
  for (const auto& [name, tensor] : named_) {
    if (!tensor.grad().defined()) tensor.mutable_grad() = torch::zeros_like(tensor);
  }
  if (!engine_) settle();
  engine_->begin(step);
  for (size_t v = 0; v < named_.size(); ++v) engine_->ready(v);
  for (int v = engine_->take_any(); v >= 0; v = engine_->take_any()) {
    named_[v].second.mutable_grad() = engine_->gradient(static_cast<size_t>(v));
  }
}

}  // namespace entrain::parallel
