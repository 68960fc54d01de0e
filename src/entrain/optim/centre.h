// The centre: a vector that asynchronous workers share, kept at one rank.
//
//   worker ── push: a vector ──▶ centre: one worker after the other, by the rule ── reply: a vector ──▶
//   worker
//
// The centre waits for nobody: it posts its replies and goes on, and a worker that is stopped or dead is
// simply not heard of any more. Under bounded staleness it keeps back the reply to a worker that is too far
// ahead of the slowest (clocks.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "entrain/optim/clocks.h"
#include "entrain/optim/rule_worker.h"
#include "entrain/optim/vector_message.h"

namespace entrain::optim {

// Changes the centre c by what a worker has pushed, and gives what the worker gets: a tensor of its own, or
// undefined for the centre itself, as it is when the worker may go on. Pure but for c; all in host memory.
using CentreRule = std::function<torch::Tensor(torch::Tensor& c, const torch::Tensor& pushed)>;

struct CentreOptions {
  int64_t staleness = kAnyStaleness;
  // A worker that lets others wait for so long does not count any more.
  double timeout_s = 120;
};

// At the rank that keeps it; serves on a thread of its own. Thread-safe.
class Centre {
 public:
  // `workers` are all ranks that train, this one among them.
  Centre(transport::Transport& transport, const std::vector<int>& workers, CentreRule rule,
         const torch::Tensor& start, const CentreOptions& options = {});
  // Waits until every worker has said goodbye, is lost or has fallen silent (not while unwinding).
  ~Centre();

  // For the worker that lives here. The answer is not to be changed: others may be getting the same memory.
  // Throws PeerError naming who is waited for after twice the timeout.
  torch::Tensor exchange(const torch::Tensor& pushed);
  torch::Tensor value();  // a copy
  void set(const torch::Tensor& value);
  // The worker that lives here trains no more.
  void leave();
  int64_t greatest_lead();

 private:
  struct Request {
    int worker;
    transport::Payload message;  // empty: the worker has ended
  };
  struct Answer {
    int worker;
    std::shared_ptr<const VectorMessage> message;
  };
  void serve();
  bool next(std::optional<Request>& request);
  void handle(Request& request);
  void apply(int worker, const torch::Tensor& pushed);  // with centre_mutex_ held, as the next one
  std::vector<Answer> take_answers();
  void deliver(const std::vector<Answer>& answers);
  void leave_out_who_lets_wait();

  transport::Transport& transport_;
  const CentreRule rule_;
  const CentreOptions options_;
  Attendance attendance_;

  std::mutex centre_mutex_;  // guards the group below
  torch::Tensor centre_;
  Clocks clocks_;
  std::map<int, torch::Tensor> replies_;  // to those who wait
  std::condition_variable own_reply_came_;
  torch::Tensor own_reply_;

  std::mutex queue_mutex_;  // guards the group below
  std::condition_variable changed_;
  std::deque<Request> requests_;  // at most one per worker, and its farewell
  bool stopping_ = false;

  std::unique_ptr<Inbox> inbox_;
  std::thread thread_;
};

// A worker's way to the centre: over the network, or straight where the worker lives at the centre's rank,
// which then keeps it for all. One thread.
class CentreLink {
 public:
  // Requires: x is the same on all workers, or restored from a checkpoint, at the first exchange.
  CentreLink(const RuleWorker& worker, CentreRule rule, int64_t staleness = kAnyStaleness);
  // Says goodbye; at the centre's rank, waits for all.
  ~CentreLink();

  // Both wait for the answer, on x's device. Throw PeerError when the centre is lost.
  // The exchange's may be memory that others get too: not to be changed.
  torch::Tensor exchange(const torch::Tensor& pushed);
  torch::Tensor value();
  // This worker trains no more, and nobody waits for it. Does not wait.
  void leave();

  Centre* own() const { return centre_.get(); }  // null where the centre is elsewhere

 private:
  torch::Tensor request(int kind, const torch::Tensor& vector, double timeout_s);

  const torch::Tensor x_;
  transport::Transport& transport_;
  const int rank_;
  const double timeout_s_;
  const double patience_s_;  // with an exchange: the centre, too, may have to wait for somebody
  std::unique_ptr<Centre> centre_;
};

}  // namespace entrain::optim
