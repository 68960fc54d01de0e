#include "entrain/optim/centre.h"

#include <algorithm>
#include <exception>

#include "entrain/base/error.h"
#include "entrain/base/log.h"

namespace entrain::optim {
namespace {

enum RequestKind { kPush, kRead };

}  // namespace

Centre::Centre(transport::Transport& transport, const std::vector<int>& workers, CentreRule rule,
               const torch::Tensor& start)
    : transport_(transport),
      rule_(std::move(rule)),
      attendance_(transport, workers),
      centre_(in_host_memory(start).clone()) {
  const auto on_message = [this](int worker, transport::Payload message) {
    std::lock_guard lock(queue_mutex_);
    requests_.emplace_back(worker, std::move(message));
    changed_.notify_all();
  };
  const auto on_end = [this](int worker, bool lost) {
    if (lost) log_warn("rank {} is lost; the others go on", worker);
    attendance_.ended(worker);
  };
  inbox_ = std::make_unique<Inbox>(transport, workers, Line::kRequest, on_message, on_end);
  thread_ = std::thread([this] { serve(); });
}

Centre::~Centre() {
  if (std::uncaught_exceptions() == 0) attendance_.wait();
  {
    std::lock_guard lock(queue_mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  inbox_.reset();
}

torch::Tensor Centre::exchange(const torch::Tensor& pushed) {
  std::lock_guard lock(centre_mutex_);
  return rule_(centre_, pushed);
}

torch::Tensor Centre::value() {
  std::lock_guard lock(centre_mutex_);
  return centre_.clone();
}

void Centre::set(const torch::Tensor& value) {
  std::lock_guard lock(centre_mutex_);
  centre_ = in_host_memory(value).clone();
}

void Centre::serve() {
  const torch::NoGradGuard no_grad;
  std::pair<int, transport::Payload> request;
  while (next(request)) {
    try {
      answer(request.first, request.second);
    } catch (const std::exception& e) {
      // One worker that speaks another language must not take the centre from the others: it goes without an
      // answer, and gives up.
      log_warn("the centre cannot answer rank {}: {}", request.first, e.what());
    }
  }
}

bool Centre::next(std::pair<int, transport::Payload>& request) {
  std::unique_lock lock(queue_mutex_);
  changed_.wait(lock, [&] { return stopping_ || !requests_.empty(); });
  if (requests_.empty()) return false;
  request = std::move(requests_.front());
  requests_.pop_front();
  return true;
}

void Centre::answer(int worker, transport::Payload& payload) {
  const Parcel parcel = open(payload);
  // The reply is posted, not awaited: the memory is its own until it has gone.
  torch::Tensor reply = parcel.heading.kind == kPush ? exchange(parcel.vector) : value();
  post(transport_, worker, Line::kReply, wrap({}, std::move(reply)));
}

CentreLink::CentreLink(const Worker& worker, CentreRule rule)
    : x_(worker.x), transport_(worker.transport), rank_(worker.centre), timeout_s_(worker.timeout_s) {
  transport_.tolerate_losses();
  if (transport_.rank() != rank_) return;
  std::vector<int> others = worker.ranks;
  std::erase(others, rank_);
  centre_ = std::make_unique<Centre>(transport_, others, std::move(rule), worker.x);
}

CentreLink::~CentreLink() {
  if (!centre_) say_goodbye(transport_, rank_, Line::kRequest);
}

torch::Tensor CentreLink::exchange(const torch::Tensor& pushed) {
  if (centre_) return centre_->exchange(in_host_memory(pushed)).to(x_.device());
  return request(kPush, in_host_memory(pushed)).to(x_.device());
}

torch::Tensor CentreLink::value() {
  if (centre_) return centre_->value().to(x_.device());
  return request(kRead, {}).to(x_.device());
}

torch::Tensor CentreLink::request(int kind, const torch::Tensor& vector) {
  const Deadline deadline = Deadline::after(timeout_s_);
  post(transport_, rank_, Line::kRequest, wrap({.kind = kind}, vector));
  auto payload = transport::recv(transport_, rank_, tag_of(Line::kReply),
                                 {.deadline = deadline, .what = "the centre's answer"});
  return take_vector(std::move(payload));
}

}  // namespace entrain::optim
