#include "entrain/graph/op_watch.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace entrain::graph {

bool in_backward() { return torch::autograd::get_current_graph_task_exec_info() != nullptr; }

// torch takes plain function pointers, so they find their watches through the thread. One torch callback
// serves all watches of a thread: their order is then ours, not torch's.
struct OpWatchList {
  std::vector<OpWatch*> watches;
  at::CallbackHandle handle = 0;
  bool calling = false;  // operations run by a watch itself are not watched

  static OpWatchList& of_this_thread() {
    static thread_local OpWatchList list;
    return list;
  }

  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& op) {
    of_this_thread().call(&OpWatch::before_, op);
    return nullptr;
  }

  static void end(const at::RecordFunction& op, at::ObserverContext*) {
    of_this_thread().call(&OpWatch::after_, op);
  }

  void call(OpWatch::Callback OpWatch::*callback, const at::RecordFunction& op) {
    if (calling || watches.empty() || in_backward()) return;
    calling = true;
    for (OpWatch* watch : watches) watch->call(watch->*callback, op);
    calling = false;
  }
};

OpWatch::OpWatch(Callback before, Callback after) : before_(std::move(before)), after_(std::move(after)) {
  OpWatchList& list = OpWatchList::of_this_thread();
  if (list.watches.empty()) {
    list.handle = at::addThreadLocalCallback(at::RecordFunctionCallback(OpWatchList::start, OpWatchList::end)
                                                 .needsInputs(true)
                                                 .scopes({at::RecordScope::FUNCTION}));
  }
  list.watches.push_back(this);
}

OpWatch::~OpWatch() {
  OpWatchList& list = OpWatchList::of_this_thread();
  std::erase(list.watches, this);
  if (list.watches.empty()) at::removeCallback(list.handle);
}

void OpWatch::call(const Callback& callback, const at::RecordFunction& op) {
  if (!callback || error_) return;
  try {
    callback(op);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void OpWatch::check() const {
  if (error_) std::rethrow_exception(error_);
}

}  // namespace entrain::graph
