#include "entrain/sync/engine.h"

#include <pthread.h>
#include <torch/torch.h>

#include <algorithm>
#include <future>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/sync/slices.h"

namespace entrain::sync {

Engine::Engine(transport::Transport& transport, double timeout_s, int id)
    : transport_(transport), timeout_s_(timeout_s), id_(id), thread_([this] { run(); }) {}

Engine::~Engine() {
  staging_.reset();  // no gradient arrives any more
  bool unfinished = false;
  {
    const std::lock_guard lock(mutex_);
    unfinished = messages_under_way_ > 0 || error_;
  }
  // Callbacks to come, also of a message that has failed, would meet a dead engine: closing waits for the
  // last.
  if (unfinished) transport_.close(fmt::format("rank {} ended in the middle of a step", transport_.rank()));
  loop_.stop();
  thread_.join();
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "entrain-sync");
  while (!loop_.stopped()) {
    try {
      if (!loop_.run_some(Deadline::after(timeout_s_)) && !loop_.stopped()) blame_silent_peer();
    } catch (...) {  // out of memory, say
      failed(std::current_exception());
    }
  }
}

// engine | step | message | (32 bits of the synchronizer's); the top bit is control traffic's. Two steps at
// most are under way at once.
transport::Tag Engine::tag_of(size_t message) const {
  return (static_cast<transport::Tag>(id_) & 0xff) << 55 | (static_cast<transport::Tag>(step_) & 0x7f) << 48 |
         static_cast<transport::Tag>(message) << 32;
}

// On the loop's thread: it may still be leaving the event that ended the last step.
void Engine::set_plan(plan::Plan plan, graph::Graph graph, std::vector<torch::Tensor> variables) {
  if (plan.messages.size() > 0xffff) {
    bad_input("the strategy makes {} messages; at most 65535", plan.messages.size());
  }
  std::promise<void> settled;
  loop_.post([&] {
    try {
      synchronizers_.clear();
      plan_ = std::move(plan);
      members_ = variables_by_message(plan_);
      graph_ = std::move(graph);
      variables_ = std::move(variables);
      gradients_.assign(variables_.size(), {});
      roles_.clear();
      own_messages_ = 0;
      for (const auto& message : plan_.messages) {
        roles_.push_back(role_in(message));
        const bool none = roles_.back() == Role::kNone;
        own_messages_ += none ? 0 : 1;
        synchronizers_.push_back(none ? nullptr : make_synchronizer(message, graph_, transport_, loop_));
      }
      held_ = static_cast<size_t>(std::count_if(variables_.begin(), variables_.end(),
                                                [](const torch::Tensor& v) { return v.defined(); }));
      settled.set_value();
    } catch (...) {
      settled.set_exception(std::current_exception());
    }
  });
  settled.get_future().get();
  if (device_sum_) device_messages_ = std::make_unique<DeviceMessages>(*device_sum_, plan_, graph_);
}

Engine::Role Engine::role_in(const plan::Message& message) const {
  const int rank = transport_.rank();
  const bool member = std::binary_search(message.ranks->begin(), message.ranks->end(), rank);
  if (member) return Role::kContributes;
  if (!message.scheduled()) return message.root == rank ? Role::kServes : Role::kNone;
  const auto& transfers = message.schedule->transfers;
  const bool serves = std::any_of(transfers.begin(), transfers.end(),
                                  [&](const auto& t) { return t.from == rank || t.to == rank; });
  return serves ? Role::kServes : Role::kNone;
}

void Engine::begin(int64_t step) {
  serve();
  step_ = step;
  if (device_messages_) device_messages_->begin();
  {
    const std::lock_guard lock(mutex_);
    messages_left_.clear();
    for (const auto& messages : plan_.messages_of)
      messages_left_.push_back(static_cast<int>(messages.size()));
    taken_.clear();
    for (const auto& variable : variables_) taken_.push_back(!variable.defined());
    complete_.clear();
    untaken_ = held_;
    messages_under_way_ = own_messages_;
    gradients_missing_ = counts_of(members_);
  }
  loop_.post([this] {
    under_way_.assign(plan_.messages.size(), false);
    for (size_t m = 0; m < plan_.messages.size(); ++m) {
      if (roles_[m] == Role::kServes) start_message(m);  // it has no gradients to wait for
    }
  });
}

void Engine::ready(size_t v) {
  torch::Tensor gradient = std::exchange(variables_[v].mutable_grad(), {});
  // G says what travels, whatever this rank's batch has made of it.
  if (gradient.is_sparse() && !graph_.variables[v].sparse) gradient = gradient.to_dense();
  if (!gradient.is_sparse() && graph_.variables[v].sparse) gradient = gradient.to_sparse(1);
  if (!gradient.is_sparse()) gradient = gradient.contiguous();
  if (device_messages_ && device_messages_->carries(v)) {
    gradients_[v] = gradient;
    for (const size_t m : device_messages_->ready(v, std::move(gradient))) finish_message(m, nullptr);
    return;
  }
  // Alone, nothing is sent: dense gradients stay where they are.
  if (gradient.is_cpu() || (plan_.world == 1 && !gradient.is_sparse())) {
    return arrived(v, std::move(gradient));
  }
  if (!staging_) {
    staging_ = std::make_unique<Staging>([this](size_t w, torch::Tensor host, std::exception_ptr error) {
      if (error) {
        failed(error);
      } else {
        arrived(w, std::move(host));
      }
    });
  }
  staging_->fetch(v, std::move(gradient));
}

void Engine::arrived(size_t v, torch::Tensor gradient) {
  gradients_[v] = std::move(gradient);
  std::vector<size_t> complete;
  {
    const std::lock_guard lock(mutex_);
    for (const int m : plan_.messages_of[v]) {
      if (--gradients_missing_[m] == 0) complete.push_back(static_cast<size_t>(m));
    }
  }
  if (complete.empty()) return;
  loop_.post([this, complete = std::move(complete)] {
    for (const size_t m : complete) start_message(m);
  });
}

void Engine::failed(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

// The device's current stream waits for sums and copies; nobody does so here.
torch::Tensor Engine::gradient(size_t v) {
  torch::Tensor gradient = std::move(gradients_[v]);
  const torch::Device device = variables_[v].device();
  if (device_messages_ && device_messages_->carries(v)) device_messages_->await(v, device);
  return gradient.device() == device ? gradient : gradient.to(device, /*non_blocking=*/true);
}

void Engine::start_message(size_t m) {
  std::vector<torch::Tensor> gradients;
  if (roles_[m] == Role::kContributes) {
    for (const auto& slice : plan_.messages[m].slices) gradients.push_back(gradients_[slice.variable]);
  }
  under_way_[m] = true;
  try {
    synchronizers_[m]->start(tag_of(m), std::move(gradients),
                             [this, m](std::exception_ptr error) { message_done(m, error); });
  } catch (...) {  // out of memory, say
    message_done(m, std::current_exception());
  }
}

void Engine::message_done(size_t m, std::exception_ptr error) {
  under_way_[m] = false;
  finish_message(m, std::move(error));
}

void Engine::finish_message(size_t m, std::exception_ptr error) {
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    if (error && !error_) error_ = error;
    --messages_under_way_;
    if (roles_[m] == Role::kContributes) {
      for (const size_t v : members_[m]) {
        if (--messages_left_[v] == 0) complete_.push_back(v);
      }
    }
    awaited = error_ || (awaited_ != nullptr && (*awaited_)());
  }
  if (awaited) changed_.notify_all();  // nobody is woken for another variable than the one waited for
}

// Nothing has moved for timeout_s. Only what is under way can be late: a message that has
// not started waits for this rank's own backward.
void Engine::blame_silent_peer() {
  for (size_t m = 0; m < under_way_.size(); ++m) {
    if (!under_way_[m]) continue;
    const int peer = synchronizers_[m]->waiting_for();
    if (peer < 0) continue;
    transport_.give_up(peer, fmt::format("rank {} has waited {:.0f} s for rank {}: {}", transport_.rank(),
                                         timeout_s_, peer, plan_.messages[m].what));
    return;
  }
}

void Engine::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until) {
  awaited_ = &until;
  changed_.wait(lock, [&] { return error_ || until(); });
  awaited_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

int Engine::take_any() {
  std::unique_lock lock(mutex_);
  if (untaken_ == 0) return -1;
  wait(lock, [&] {
    while (!complete_.empty() && taken_[complete_.front()]) complete_.pop_front();
    return !complete_.empty();
  });
  const size_t v = complete_.front();
  complete_.pop_front();
  taken_[v] = true;
  --untaken_;
  lock.unlock();
  install(v);
  return static_cast<int>(v);
}

bool Engine::take(size_t v) {
  std::unique_lock lock(mutex_);
  if (taken_[v]) return false;
  wait(lock, [&] { return messages_left_[v] == 0; });
  taken_[v] = true;
  --untaken_;
  lock.unlock();
  install(v);
  return true;
}

void Engine::serve() {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return messages_under_way_ == 0; });
}

// Dense gradients were summed in place; sparse ones are put together from their parts.
void Engine::install(size_t v) {
  if (!graph_.variables[v].sparse) return;
  const torch::NoGradGuard no_grad;
  std::vector<Rows> parts;
  for (const int m : plan_.messages_of[v]) parts.push_back(synchronizers_[m]->rows());
  gradients_[v] = to_gradient(parts, graph_.variables[v]);
}

}  // namespace entrain::sync
