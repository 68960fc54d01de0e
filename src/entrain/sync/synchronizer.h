// One message of the plan at one rank: takes the gradients when backward has made them, and
// promises the synchronized ones.
#pragma once

#include <torch/types.h>

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "entrain/base/event_loop.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/sparse_rows.h"
#include "entrain/transport/transport.h"

namespace entrain::sync {

// All methods on the loop's thread, but for rows() after `done`.
class Synchronizer {
 public:
  using Done = std::function<void(std::exception_ptr)>;
  virtual ~Synchronizer() = default;

  // `gradients`: the whole gradient of each slice's variable, in the order of the message's slices;
  // none on a rank that only serves. Dense ones are summed in place. `tag` is unique to this
  // message and step; its low 32 bits are free. `done` is called once, with null or the error.
  virtual void start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) = 0;

  // Sparse messages, after `done`: the summed rows.
  virtual Rows rows() { return {}; }

  // A rank this one waits for, or -1.
  virtual int waiting_for() const = 0;
};

// `message`, `transport` and `loop` outlive the synchronizer.
std::unique_ptr<Synchronizer> make_synchronizer(const plan::Message& message, const graph::Graph& graph,
                                                transport::Transport& transport, EventLoop& loop);

}  // namespace entrain::sync
