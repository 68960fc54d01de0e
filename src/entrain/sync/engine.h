// The per-step engine: starts each message of the plan as soon as backward has made its
// gradients, and hands out variables as their gradients are synchronized.
//
//   backward thread   ready(v3) ready(v2) ...            take_any() ─▶ v0, v1, ...   (update them)
//                        │         │                        ▲
//   engine's thread      └▶ messages whose gradients are all there start; sums; done ┘
//
// Gradients of an accelerator go through host memory (staging.h) wherever there is another rank, unless the
// devices sum them themselves (device_messages.h).
#pragma once

#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "entrain/base/event_loop.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/device_messages.h"
#include "entrain/sync/device_sum.h"
#include "entrain/sync/staging.h"
#include "entrain/sync/synchronizer.h"
#include "entrain/transport/transport.h"

namespace entrain::sync {

class Engine {
 public:
  // `timeout_s`: the job fails when messages are under way and none has moved for so long.
  // `id`, 0 to 255: engines of one transport that run at the same time have different ones, each the same on
  // all ranks. The transport outlives the engine.
  Engine(transport::Transport& transport, double timeout_s, int id = 0);
  ~Engine();

  // Where the devices can sum, they do so where a plan allows it. Before set_plan().
  void sum_on(std::unique_ptr<DeviceSum> devices) { device_sum_ = std::move(devices); }

  // Another strategy. Requires: no step under way. `variables`: this rank's parameters in G's order, those
  // that are other ranks' undefined; none on a rank that only serves.
  void set_plan(plan::Plan plan, graph::Graph graph, std::vector<torch::Tensor> variables);

  // Begins step `step` (the same number on all ranks). Requires: the last one is all taken. Waits for what
  // this rank still serves to others in it.
  void begin(int64_t step);

  // Whether this rank has gradients of v.
  bool holds(size_t v) const { return v < variables_.size() && variables_[v].defined(); }
  // variables[v].grad() is complete, and the engine's from here on: the variable has none any more, so that
  // nobody touches one under way. Called from backward, once per step for each variable.
  void ready(size_t v);

  // The next variable whose gradient is synchronized, or -1 when all have been taken. Blocks.
  int take_any();
  // Waits for this one; false when it had been taken before in this step.
  bool take(size_t v);
  // Hands over the synchronized gradient of a variable that has just been taken.
  torch::Tensor gradient(size_t v);
  // Blocks until everything this rank serves in the step is done.
  void serve();

  const plan::Plan& plan() const { return plan_; }

 private:
  void run();
  void arrived(size_t v, torch::Tensor gradient);
  void failed(std::exception_ptr error);
  void finish_message(size_t m, std::exception_ptr error);
  void start_message(size_t m);
  void message_done(size_t m, std::exception_ptr error);
  void blame_silent_peer();
  transport::Tag tag_of(size_t message) const;
  enum class Role { kContributes, kServes, kNone };
  Role role_in(const plan::Message& message) const;
  void install(size_t v);
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until);

  transport::Transport& transport_;
  double timeout_s_;
  int id_;
  EventLoop loop_;

  // Set between steps.
  plan::Plan plan_;
  std::vector<std::vector<size_t>> members_;  // by message: its variables
  std::vector<Role> roles_;                   // by message: this rank's
  size_t held_ = 0;                           // variables that this rank has
  size_t own_messages_ = 0;                   // that this rank has a role in
  graph::Graph graph_;
  std::vector<torch::Tensor> variables_;
  std::vector<std::unique_ptr<Synchronizer>> synchronizers_;  // by message
  int64_t step_ = 0;

  // By variable: with the caller before ready() and after take(), with the loop in between.
  std::vector<torch::Tensor> gradients_;

  // The loop thread's own.
  std::vector<bool> under_way_;  // by message

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<int> gradients_missing_;              // by message
  std::vector<int> messages_left_;                  // by variable
  std::vector<bool> taken_;                         // by variable
  std::deque<size_t> complete_;                     // to be taken, some were
  size_t untaken_ = 0;                              // variables
  size_t messages_under_way_ = 0;                   // of the step, started or not
  std::exception_ptr error_;                        // the first
  const std::function<bool()>* awaited_ = nullptr;  // by the one who waits

  std::unique_ptr<Staging> staging_;  // once there is a gradient of an accelerator
  std::unique_ptr<DeviceSum> device_sum_;
  std::unique_ptr<DeviceMessages> device_messages_;  // of the plan, where there is a device_sum_

  std::thread thread_;  // last: it uses the rest
};

}  // namespace entrain::sync
