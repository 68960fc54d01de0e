// The workers of a job as one of them sees them: a few collectives on vectors and numbers, for synchronous
// rules.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <future>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::optim {

// Same calls in the same order on each of `ranks`, on one thread. Throws PeerError. Tensors: contiguous, on
// the CPU or a GPU (staged through host memory).
class Crew {
 public:
  // `number` tells crews of one job apart (their tags). The transport outlives it.
  Crew(transport::Transport& transport, std::vector<int> ranks, int number, double timeout_s);
  ~Crew();

  int index() const { return index_; }  // of this rank in ranks()
  int count() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }

  // Everyone's value, by index. Costs one number a worker.
  std::vector<double> all_gather(double value);
  // root's message to all, down a binomial tree: (count - 1) x its bytes on the links in all.
  void broadcast(torch::Tensor& message, int root);
  // The sum at each, around a ring: 2 (count - 1) x its bytes in all.
  void all_reduce(torch::Tensor& message);

  // Runs `exchange` (calls of this crew) on a thread beside the caller's computing. Until the future is
  // ready the caller leaves the crew, and the tensors in it, alone.
  std::future<void> beside(std::function<void()> exchange);

 private:
  transport::Tag next_tag();

  transport::Transport& transport_;
  std::vector<int> ranks_;
  int index_ = 0;
  int number_ = 0;
  uint64_t calls_ = 0;
  double timeout_s_ = 0;
};

}  // namespace entrain::optim
