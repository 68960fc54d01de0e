// Tells when forward is about to read a variable.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <unordered_map>
#include <vector>

#include "entrain/graph/op_watch.h"

namespace entrain::graph {

// Calls `on_use(i)` BEFORE an operation that reads variables[i], directly or in a tensor list (as lstm's
// weights), executes; what on_use writes into the variable in place is what the operation reads. So the next
// forward may start while later variables are still being synchronized.
//
// on_use is called on every use: many times per pass, since operations nest and layers repeat, and also by an
// optimizer's update on this thread. It must be cheap when there is nothing to wait for. Operations of
// backward are not reported, nor is the use of a view of a variable that was made before the watch.
// Cost: one hash lookup per tensor argument of each operation.
//
// Ownership: keeps the variables alive. Requires, threads, errors: as OpWatch (same thread; exceptions of
// on_use reach the caller through check()).
class ForwardWatch {
 public:
  ForwardWatch(std::vector<torch::Tensor> variables, std::function<void(size_t)> on_use);
  void check() const { watch_.check(); }

 private:
  void before(const at::RecordFunction& op) const;
  void visit(const c10::IValue& input) const;

  std::vector<torch::Tensor> variables_;
  std::unordered_map<const c10::TensorImpl*, size_t> index_;
  std::function<void(size_t)> on_use_;
  OpWatch watch_;  // last: it may call as soon as it exists
};

}  // namespace entrain::graph
