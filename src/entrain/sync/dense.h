// Dense gradients: the message's schedule (all-reduce or parameter server) sums them in place, on the wire as
// they are or cast to 16 bits.
#pragma once

#include <memory>
#include <vector>

#include "entrain/collective/executor.h"
#include "entrain/sync/synchronizer.h"

namespace entrain::sync {

class Dense : public Synchronizer {
 public:
  Dense(const plan::Message& message, transport::Transport& transport, EventLoop& loop);
  void start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) override;
  int waiting_for() const override { return run_ ? run_->waiting_for() : -1; }

 private:
  collective::Buffer buffer(const std::vector<torch::Tensor>& gradients);
  void feed_back(const std::vector<torch::Tensor>& gradients);
  void unpack(const std::vector<torch::Tensor>& gradients);

  const plan::Message& message_;
  transport::Transport& transport_;
  EventLoop& loop_;
  collective::Program program_;
  std::vector<torch::Tensor> packed_;  // by slice: a copy where the slice does not lie together
  std::vector<torch::Tensor> errors_;  // by slice: what casting has not let through yet
  torch::Tensor scratch_;              // the server's memory, on a rank that only serves
  std::shared_ptr<collective::Run> run_;
};

}  // namespace entrain::sync
