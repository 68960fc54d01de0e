#include "entrain/transport/threaded_rank.h"

#include <limits>

#include "entrain/base/error.h"

namespace entrain::transport {

ThreadedRank::ThreadedRank(int rank, int world, Wake wake)
    : rank_(rank),
      gone_(static_cast<size_t>(world)),
      lost_(static_cast<size_t>(world)),  // NOLINT(bugprone-throw-keyword-missing): kept, not thrown
      wake_(wake) {}

void ThreadedRank::post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) {
  check_peer(*this, peer, true);
  PostedRecv recv;
  static_cast<Posted&>(recv) = {peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  recv.into = std::move(into);
  std::unique_lock lock(mutex_);
  if (refuse(lock, recv.done)) return;
  const auto gone = is_gone(peer) ? gone_error(rank_, peer, describe_recv(recv)) : nullptr;
  // By itself a receive gives the own thread nothing to do, unless that sleeps beyond this deadline.
  bool urgent = wake_ == Wake::kForEveryReceive || options.deadline.when() < next_check_;
  watch(options.deadline);
  if (const auto message = match(recv)) {
    tasks_.push_back([this, recv = std::move(recv), message] { deliver(recv, *message); });
    urgent = true;
  } else if (gone) {
    tasks_.push_back([this, gone] { tolerant_ ? end_hopeless() : fail(gone); });
    urgent = true;
  }
  if (urgent) wake(lock);
}

// Finds the message of a receive: returned when it is complete (`recv` is then untouched), else `recv` waits
// for it.
std::shared_ptr<ThreadedRank::Incoming> ThreadedRank::match(PostedRecv& recv) {
  auto arrival = table_.post(recv);
  if (!arrival) return nullptr;
  if (arrival->second->complete) return std::move(arrival->second);
  arrival->second->recv = std::move(recv);
  return nullptr;
}

void ThreadedRank::close(const std::string& reason) {
  {
    std::unique_lock lock(mutex_);
    if (!close_requested_) {
      close_requested_ = true;
      tasks_.push_back([this, reason] { begin_close(reason); });
      wake(lock);
    }
  }
  if (std::this_thread::get_id() == own_thread_) return;  // from a callback: requested, not awaited
  std::lock_guard join(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void ThreadedRank::give_up(int suspect, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (close_requested_ || error_) return;
  tasks_.push_back([this, suspect, what] { fail_peer(suspect, blame(suspect, what)); });
  wake(lock);
}

double ThreadedRank::silence_s(int peer) const {
  {
    std::lock_guard lock(mutex_);
    if (error_ || gone_[peer]) return std::numeric_limits<double>::infinity();
  }
  return seconds_since(heard(peer));
}

// Ends an operation that comes after the failure or the close. Else false, and still locked.
bool ThreadedRank::refuse(std::unique_lock<std::mutex>& lock, Done& done) {
  if (!close_requested_ && !error_) return false;
  const auto error = error_ ? error_ : closed_error(rank_, "");
  if (close_requested_) {  // the own thread may be over
    lock.unlock();
    done({.peer = kAnyPeer, .payload = {}, .error = error});
  } else {
    tasks_.push_back(
        [done = std::move(done), error] { done({.peer = kAnyPeer, .payload = {}, .error = error}); });
    wake(lock);
  }
  return true;
}

// Ends a send to a peer that is gone, where losses are tolerated. Else false, and still locked: the job
// fails, and this send with it.
bool ThreadedRank::end_send(std::unique_lock<std::mutex>& lock, Posted& send) {
  const auto error = why_gone(send.peer, describe_send(send));
  if (!tolerant_) {
    tasks_.push_back([this, error] { fail(error); });
    return false;
  }
  tasks_.push_back([peer = send.peer, error, done = std::move(send.done)] {
    done({.peer = peer, .payload = {}, .error = error});
  });
  wake(lock);
  return true;
}

// While the own thread is awake it looks at the queues anyway.
void ThreadedRank::wake(std::unique_lock<std::mutex>& lock) {
  const bool asleep = std::exchange(sleeping_, false);
  lock.unlock();
  if (asleep) notify();
}

bool ThreadedRank::is_gone(int peer) const {
  if (peer != kAnyPeer) return gone_[peer];
  for (int other = 0; other < size(); ++other) {
    if (other != rank_ && !gone_[other]) return false;
  }
  return true;
}

std::exception_ptr ThreadedRank::why_gone(int peer, const std::string& description) const {
  return peer != kAnyPeer && lost_[peer] ? lost_[peer] : gone_error(rank_, peer, description);
}

// All of a message has come.
void ThreadedRank::complete(const std::shared_ptr<Incoming>& incoming) {
  std::optional<PostedRecv> recv;
  {
    std::lock_guard lock(mutex_);
    incoming->complete = true;
    recv.swap(incoming->recv);
  }
  if (recv) deliver(std::move(*recv), *incoming);
}

void ThreadedRank::deliver(PostedRecv recv, Incoming& incoming) {
  Result result{.peer = incoming.peer, .payload = {}, .error = error_};
  if (recv.into.empty()) {
    result.payload = std::move(incoming.payload);
  } else if (!incoming.direct && !failed_) {
    if (total_size(recv.into) == incoming.payload.size()) {
      copy_spans({incoming.payload.bytes()}, recv.into);
    } else {
      result.error = size_error(rank_, recv, incoming.peer, incoming.payload.size());
      fail_peer(incoming.peer, result.error);
      if (failed_) result.error = error_;
    }
  }
  recv.done(std::move(result));
}

ThreadedRank::Work ThreadedRank::take_work() {
  std::lock_guard lock(mutex_);
  return {std::exchange(tasks_, {}), std::exchange(dirty_, {})};
}

ThreadedRank::Abort ThreadedRank::abort_of(const std::exception_ptr& error) const {
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& e) {
    return {e.peer(), e.what()};
  } catch (const std::exception& e) {
    return {rank_, e.what()};
  }
}

// A failure that is one peer's: the job's, or where losses are tolerated, only that peer's.
void ThreadedRank::fail_peer(int peer, std::exception_ptr error) {
  if (!tolerant_ || peer == kAnyPeer) return fail(error);
  lose(peer, error);
}

// Ends the receives that nobody is left to answer, each with its own peer's reason.
void ThreadedRank::end_hopeless() {
  std::vector<std::pair<PostedRecv, std::exception_ptr>> ended;
  {
    std::lock_guard lock(mutex_);
    for (PostedRecv& recv : table_.take_recvs([&](const PostedRecv& each) { return is_gone(each.peer); })) {
      const auto error = why_gone(recv.peer, describe_recv(recv));
      ended.emplace_back(std::move(recv), error);
    }
  }
  for (auto& [recv, error] : ended) recv.done({.peer = recv.peer, .payload = {}, .error = error});
}

void ThreadedRank::check_deadlines() {
  const auto now = Clock::now();
  std::vector<std::pair<int, std::string>> late;  // who, and what for
  {
    std::lock_guard lock(mutex_);
    if (now < next_check_) return;
    next_check_ = Clock::time_point::max();
    const auto look = [&](const Posted& op, auto describe) {
      if (op.deadline.when() > now) return watch(op.deadline);
      late.emplace_back(op.peer, deadline_text(rank_, op, describe(op)));
    };
    table_.for_each_recv([&](PostedRecv& recv) { look(recv, describe_recv); });
    for_each_send([&](const Posted& op) { look(op, describe_send); });
    for_each_receive([&](const Posted& op) { look(op, describe_recv); });
  }
  if (late.empty()) return;
  tolerant_ ? lose_late(late) : fail(blame(late[0].first, late[0].second));
}

// Nobody in particular is to blame for a receive from any peer: it ends alone.
void ThreadedRank::lose_late(const std::vector<std::pair<int, std::string>>& late) {
  for (const auto& [peer, text] : late) {
    if (peer != kAnyPeer) lose(peer, std::make_exception_ptr(PeerError(peer, text)));
  }
  std::vector<PostedRecv> ended;
  {
    std::lock_guard lock(mutex_);
    ended = table_.take_recvs(
        [](const PostedRecv& each) { return each.peer == kAnyPeer && each.deadline.passed(); });
  }
  for (PostedRecv& recv : ended) {
    const std::string text = deadline_text(rank_, recv, describe_recv(recv));
    recv.done({.peer = kAnyPeer, .payload = {}, .error = std::make_exception_ptr(PeerError(kAnyPeer, text))});
  }
}

}  // namespace entrain::transport
