#include "entrain/optim/centre.h"

#include <chrono>
#include <exception>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/base/log.h"

namespace entrain::optim {
namespace {

enum RequestKind { kPush, kRead, kLeave };

// How often the centre looks whether those who are waited for are still there.
constexpr auto kLookAround = std::chrono::milliseconds(100);

}  // namespace

Centre::Centre(transport::Transport& transport, const std::vector<int>& workers, CentreRule rule,
               const torch::Tensor& start, const CentreOptions& options)
    : transport_(transport),
      rule_(std::move(rule)),
      options_(options),
      attendance_(transport, without(workers, transport.rank())),
      centre_(in_host_memory(start).clone()),
      clocks_(workers, options.staleness, Clock::now()) {
  const auto enqueue = [this](int worker, transport::Payload message) {
    std::lock_guard lock(queue_mutex_);
    requests_.push_back({worker, std::move(message)});
    changed_.notify_all();
  };
  const auto on_end = [this, enqueue](int worker, bool lost) {
    if (lost) log_warn("rank {} is lost; the others go on", worker);
    attendance_.ended(worker);
    enqueue(worker, {});
  };
  inbox_ = std::make_unique<Inbox>(transport, without(workers, transport.rank()), Channel::kRequest, enqueue,
                                   on_end);
  thread_ = std::thread([this] { serve(); });
}

Centre::~Centre() {
  leave();
  if (std::uncaught_exceptions() == 0) attendance_.wait();
  {
    std::lock_guard lock(queue_mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  inbox_.reset();
}

// ---- the worker that lives here

torch::Tensor Centre::exchange(const torch::Tensor& pushed) {
  std::unique_lock lock(centre_mutex_);
  own_reply_ = torch::Tensor();
  apply(transport_.rank(), pushed);
  const std::vector<Answer> answers = take_answers();
  lock.unlock();
  deliver(answers);
  lock.lock();
  const Deadline deadline = Deadline::after(2 * options_.timeout_s);
  if (!own_reply_came_.wait_until(lock, deadline.when(), [&] { return own_reply_.defined(); })) {
    const auto late = clocks_.waited_for(Clock::now());
    const int whom = late.empty() ? transport_.rank() : late.begin()->first;
    throw PeerError(whom, fmt::format("rank {} waits for an exchange of rank {}: none within {} s",
                                      transport_.rank(), whom, 2 * options_.timeout_s));
  }
  return std::exchange(own_reply_, {});
}

torch::Tensor Centre::value() {
  std::lock_guard lock(centre_mutex_);
  return centre_.clone();
}

void Centre::set(const torch::Tensor& value) {
  std::lock_guard lock(centre_mutex_);
  centre_ = in_host_memory(value).clone();
}

void Centre::leave() {
  Request request{transport_.rank(), {}};
  handle(request);
}

int64_t Centre::greatest_lead() {
  std::lock_guard lock(centre_mutex_);
  return clocks_.greatest_lead();
}

// ---- the others

void Centre::serve() {
  const torch::NoGradGuard no_grad;
  std::optional<Request> request;
  while (next(request)) {
    try {
      if (request) handle(*request);
      leave_out_who_lets_wait();
    } catch (const std::exception& e) {
      // One worker that speaks another language must not take the centre from the others: it goes without an
      // answer, and gives up.
      log_warn("the centre cannot answer rank {}: {}", request ? request->worker : -1, e.what());
    }
  }
}

// Without a request when nothing has come for a while. False: it is over.
bool Centre::next(std::optional<Request>& request) {
  request.reset();
  std::unique_lock lock(queue_mutex_);
  changed_.wait_for(lock, kLookAround, [&] { return stopping_ || !requests_.empty(); });
  if (requests_.empty()) return !stopping_;
  request = std::move(requests_.front());
  requests_.pop_front();
  return true;
}

void Centre::handle(Request& request) {
  const bool ended = request.message.size() == 0;
  const VectorMessage message = ended ? VectorMessage{{.kind = kLeave}, {}} : read_message(request.message);
  if (message.heading.kind == kRead) {
    // The reply is posted, not awaited: the memory is its own until it has gone.
    return post(transport_, request.worker, Channel::kReply, make_message({}, value()));
  }
  std::unique_lock lock(centre_mutex_);
  if (message.heading.kind == kPush) {
    apply(request.worker, message.vector);
  } else {
    clocks_.gone(request.worker);
  }
  const std::vector<Answer> answers = take_answers();
  lock.unlock();
  deliver(answers);
}

void Centre::apply(int worker, const torch::Tensor& pushed) {
  replies_[worker] = rule_(centre_, pushed);
  clocks_.pushed(worker);
}

// Together with what made them due, before another push: so under s = 0 all get the same centre.
std::vector<Centre::Answer> Centre::take_answers() {
  std::vector<Answer> answers;
  torch::Tensor now;  // the centre, one copy for all
  for (const int worker : clocks_.take_ready(Clock::now())) {
    torch::Tensor reply = std::exchange(replies_[worker], {});
    if (!reply.defined()) {
      if (!now.defined()) now = centre_.clone();
      reply = now;
    }
    if (worker == transport_.rank()) {
      own_reply_ = std::move(reply);
      own_reply_came_.notify_all();
    } else {
      answers.push_back({worker, make_message({}, std::move(reply))});
    }
  }
  return answers;
}

void Centre::deliver(const std::vector<Answer>& answers) {
  for (const auto& [worker, message] : answers) post(transport_, worker, Channel::kReply, message);
}

void Centre::leave_out_who_lets_wait() {
  std::unique_lock lock(centre_mutex_);
  for (const auto& [worker, seconds] : clocks_.waited_for(Clock::now())) {
    const bool present = worker == transport_.rank() || attendance_.is_present(worker);
    if (present && seconds < options_.timeout_s) continue;
    log_warn("rank {} {}; the others go on without it until it is heard of again", worker,
             present ? fmt::format("has made no exchange for {:.0f} s", seconds) : "is silent");
    clocks_.leave_out(worker);
  }
  const std::vector<Answer> answers = take_answers();
  lock.unlock();
  deliver(answers);
}

// ---- a worker's side

CentreLink::CentreLink(const RuleWorker& worker, CentreRule rule, int64_t staleness)
    : x_(worker.x),
      transport_(worker.transport),
      rank_(worker.centre),
      timeout_s_(worker.timeout_s),
      patience_s_(staleness == kAnyStaleness ? worker.timeout_s : 2 * worker.timeout_s) {
  transport_.tolerate_losses();
  if (transport_.rank() != rank_) return;
  const CentreOptions options{.staleness = staleness, .timeout_s = worker.timeout_s};
  centre_ = std::make_unique<Centre>(transport_, worker.ranks, std::move(rule), worker.x, options);
}

CentreLink::~CentreLink() {
  if (!centre_) say_goodbye(transport_, rank_, Channel::kRequest);
}

torch::Tensor CentreLink::exchange(const torch::Tensor& pushed) {
  if (centre_) return centre_->exchange(in_host_memory(pushed)).to(x_.device());
  return request(kPush, in_host_memory(pushed), patience_s_).to(x_.device());
}

torch::Tensor CentreLink::value() {
  if (centre_) return centre_->value().to(x_.device());
  return request(kRead, {}, timeout_s_).to(x_.device());
}

void CentreLink::leave() {
  if (centre_) return centre_->leave();
  post(transport_, rank_, Channel::kRequest, make_message({.kind = kLeave}));
}

torch::Tensor CentreLink::request(int kind, const torch::Tensor& vector, double timeout_s) {
  const Deadline deadline = Deadline::after(timeout_s);
  post(transport_, rank_, Channel::kRequest, make_message({.kind = kind}, vector));
  auto payload = transport::recv(transport_, rank_, tag_of(Channel::kReply),
                                 {.deadline = deadline, .what = "the centre's answer"});
  return take_vector(std::move(payload));
}

}  // namespace entrain::optim
