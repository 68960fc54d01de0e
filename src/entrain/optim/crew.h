// The workers of a job as one of them sees them: a few collectives on vectors and numbers, for synchronous
// rules.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "entrain/collective/executor.h"
#include "entrain/transport/transport.h"

namespace entrain::optim {

// Same calls in the same order on each of `ranks`, on one thread. Throws PeerError: of the rank that let this
// one wait `timeout_s`, or is lost. Tensors: contiguous floats, on the CPU or a GPU (staged through host
// memory).
class Crew {
 public:
  // `number` (below 2^14) tells crews of one job apart (their tags); crews without a common rank may share
  // it. `ranks` hold this one. The transport outlives the crew, which closes it when destroyed in the middle
  // of an exchange.
  Crew(transport::Transport& transport, std::vector<int> ranks, int number, double timeout_s);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int index() const { return index_; }  // of this rank in ranks()
  int count() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }

  // Everyone's value, by index. Costs one number per worker.
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
  // Runs `schedule`, kept under `name` for the next time, on `bytes` of `message`.
  void run(const std::string& name, const std::function<collective::Schedule()>& schedule,
           const torch::Tensor& message, collective::Type type);
  void work();  // the thread of beside()

  transport::Transport& transport_;
  std::vector<int> ranks_;
  int index_ = 0;
  int number_ = 0;
  uint64_t calls_ = 0;
  double timeout_s_ = 0;

  // Callbacks of a run that failed may still come: all of it lives until the transport is closed.
  EventLoop loop_;
  std::map<std::string, collective::Program> programs_;
  torch::Tensor under_way_;
  std::atomic<bool> running_ = false;  // a run has begun and not ended well

  std::atomic<int> unfinished_ = 0;  // exchanges beside

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;  // guarded by mutex_
  bool stopped_ = false;                          // guarded by mutex_
  std::thread thread_;                            // started by the first beside()
};

}  // namespace entrain::optim
