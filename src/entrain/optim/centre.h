// The centre: a vector that asynchronous workers share, kept at one rank.
//
//   worker ── push: a vector ──▶ centre: one worker after the other, by the rule ── reply: a vector ──▶
//   worker
//
// Nobody waits for another worker: the centre posts its replies and goes on, and a worker that is stopped or
// dead is simply not heard of any more.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "entrain/optim/mail.h"
#include "entrain/optim/worker.h"

namespace entrain::optim {

// Changes the centre c by what a worker has pushed, and gives what the worker gets: a tensor of its own.
// Pure but for c; all in host memory.
using CentreRule = std::function<torch::Tensor(torch::Tensor& c, const torch::Tensor& pushed)>;

// At the rank that keeps it; serves on a thread of its own. Thread-safe.
class Centre {
 public:
  // `workers` are other ranks.
  Centre(transport::Transport& transport, const std::vector<int>& workers, CentreRule rule,
         const torch::Tensor& start);
  // Waits until every worker has said goodbye, is lost or has fallen silent (not while unwinding).
  ~Centre();

  // For the worker that lives here.
  torch::Tensor exchange(const torch::Tensor& pushed);
  torch::Tensor value();  // a copy
  void set(const torch::Tensor& value);

 private:
  void serve();
  bool next(std::pair<int, transport::Payload>& request);
  void answer(int worker, transport::Payload& payload);

  transport::Transport& transport_;
  const CentreRule rule_;
  Attendance attendance_;

  std::mutex centre_mutex_;
  torch::Tensor centre_;

  std::mutex queue_mutex_;  // guards the group below
  std::condition_variable changed_;
  std::deque<std::pair<int, transport::Payload>> requests_;  // at most one a worker
  bool stopping_ = false;

  std::unique_ptr<Inbox> inbox_;
  std::thread thread_;
};

// A worker's way to the centre: over the network, or straight where the worker lives at the centre's rank,
// which then keeps it for all. One thread.
class CentreLink {
 public:
  // Requires: x is the same on all workers, or restored from a checkpoint, at the first exchange.
  CentreLink(const Worker& worker, CentreRule rule);
  // Says goodbye; at the centre's rank, waits for all.
  ~CentreLink();

  // Both wait for the answer, on x's device. Throw PeerError when the centre is lost.
  torch::Tensor exchange(const torch::Tensor& pushed);
  torch::Tensor value();

  Centre* own() const { return centre_.get(); }  // null where the centre is elsewhere

 private:
  torch::Tensor request(int kind, const torch::Tensor& vector);

  const torch::Tensor x_;
  transport::Transport& transport_;
  const int rank_;
  const double timeout_s_;
  std::unique_ptr<Centre> centre_;
};

}  // namespace entrain::optim
