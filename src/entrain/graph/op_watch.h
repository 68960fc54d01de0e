// Observes the torch operations that this thread's forward passes run.
#pragma once

#include <ATen/record_function.h>

#include <exception>
#include <functional>

namespace entrain::graph {

// True on a thread that is running backward at this moment (in an operation of it or in a gradient hook).
bool in_backward();

// Calls `before` on entry to every operation that this thread dispatches outside backward, with its name and
// inputs, and `after` when it leaves. Operations nest: `aten::linear` calls `aten::addmm`, and both are seen.
// Several watches on one thread are called in the order of their construction.
//
// Requires: constructed and destroyed on the same thread, and not from inside a watched operation.
// Threads: only operations of the constructing thread are seen.
// Errors: torch swallows what such a callback throws. The first exception is kept, the watch calls nothing
// any more, and check() throws it: call check() after the forward pass.
class OpWatch {
 public:
  using Callback = std::function<void(const at::RecordFunction&)>;

  explicit OpWatch(Callback before, Callback after = nullptr);
  ~OpWatch();
  OpWatch(const OpWatch&) = delete;
  OpWatch& operator=(const OpWatch&) = delete;

  void check() const;

 private:
  friend struct OpWatchList;
  void call(const Callback& callback, const at::RecordFunction& op);

  Callback before_;
  Callback after_;
  std::exception_ptr error_;
};

}  // namespace entrain::graph
