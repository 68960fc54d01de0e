// Asynchronous Leader SGD's coordinator: counts everybody's iterations and names the next leader.
//
//   workers ── loss, one per step ──▶ coordinator ── "lead" ──▶ the leader ── its parameters ──▶ its
//   followers
//
// Only numbers reach it. It waits for nobody: a worker that is not heard of is left out, both when it is
// counted how many iterations make a round and when a leader is chosen.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "entrain/optim/vector_message.h"
#include "entrain/strategy/rules.h"

namespace entrain::optim {

// Workers among whom a leader is chosen, each time they have made `period` iterations each on average.
struct Scope {
  std::vector<int> workers;
  int64_t period;
};
// One group: all workers. More: each group with the local period, then all with the global one.
std::vector<Scope> scopes_of(const strategy::LsgdAsync& rule, const std::vector<std::vector<int>>& groups);

// The decisions. Thread-safe.
class Coordinator {
 public:
  struct Order {
    int leader;  // rank
    int scope;   // index
    int64_t round;
  };

  Coordinator(std::vector<Scope> scopes, std::string choice, uint64_t seed);

  // One more iteration of `worker`, whose running loss is now `loss`. What it brings about: nothing, an order
  // to the leader of all, one to the leader of its group, or both.
  std::vector<Order> report(int worker, double loss);
  void lost(int worker);
  // Has reported in this round or the one before.
  bool is_heard_of(int worker) const;

 private:
  struct Progress {
    Scope scope;
    int64_t count = 0;  // iterations in this round
    int64_t round = 0;
    std::map<int, int64_t> heard;  // the round of each worker's last report; lost ones are absent
  };
  static std::vector<int> fresh(const Progress& progress);
  int choose(const Progress& progress) const;

  const std::string choice_;
  const uint64_t seed_;
  mutable std::mutex mutex_;  // guards the group below
  std::vector<Progress> scopes_;
  std::map<int, double> losses_;  // of those that have reported
};

// What a worker and the coordinator's rank tell each other.
enum ReportKind { kLoss, kParameters, kResting };  // value: the loss; number: of the question; as kParameters
enum CommandKind { kLead, kSendParameters };       // number: round, dtype: scope; number: of the question

// The coordinator's rank: takes reports, hands out orders, and collects parameters when a test asks for them.
class CoordinatorService {
 public:
  struct Command {
    CommandKind kind;
    int scope;
    int64_t number;
  };
  // `tell` gives a command to the worker that lives here. It must not block.
  CoordinatorService(transport::Transport& transport, const strategy::LsgdAsync& rule,
                     const std::vector<std::vector<int>>& groups, uint64_t seed,
                     std::function<void(Command)> tell);
  // Waits until every worker has said goodbye, is lost or has fallen silent (not while unwinding).
  ~CoordinatorService();

  // Of the worker that lives here; it counts no more after `leave`.
  void report(double loss);
  void leave();

  // The parameters of those of `workers` (other ranks) that answer between two of their steps, and the last
  // ones of those that have finished. Not of those that are lost or silent. In host memory.
  std::vector<torch::Tensor> collect(const std::vector<int>& workers, double timeout_s);

 private:
  struct Known {
    transport::Payload payload;
    int64_t number = -1;  // of the question it answers
    bool resting = false;
  };
  void on_report(int worker, transport::Payload message);
  void on_end(int worker, bool lost);
  void give(const std::vector<Coordinator::Order>& orders);
  bool has_answered(int worker, int64_t number);

  transport::Transport& transport_;
  const std::function<void(Command)> tell_;
  Coordinator coordinator_;
  Attendance attendance_;

  std::mutex mutex_;  // guards the group below
  std::condition_variable changed_;
  std::map<int, Known> known_;
  int64_t question_ = 0;

  std::unique_ptr<Inbox> inbox_;
};

}  // namespace entrain::optim
