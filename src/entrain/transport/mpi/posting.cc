// MpiRank as its users see it: posting, from any thread, and closing.
#include <limits>

#include "entrain/base/error.h"
#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {

MpiRank::MpiRank(int rank, int world)
    : rank_(rank),
      queues_(static_cast<size_t>(world)),
      gone_(static_cast<size_t>(world)),
      lost_(static_cast<size_t>(world)) {  // NOLINT(bugprone-throw-keyword-missing): kept, not thrown
  for (int i = 0; i < world; ++i) peers_.push_back(std::make_unique<Peer>());
  std::promise<void> started;
  thread_ = std::thread([&] { run(started); });
  progress_thread_ = thread_.get_id();
  try {
    started.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

MpiRank::~MpiRank() {
  // A rank that is unwinding has not finished its work: its peers must not take it for an orderly end.
  MpiRank::close(std::uncaught_exceptions() > 0 ? "it failed" : "");
}

void MpiRank::post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) {
  check_peer(*this, peer, false);
  auto out = std::make_shared<Outgoing>();
  out->peer = peer;
  out->header = {Type::kData, tag, total_size(data)};
  out->data = std::move(data);
  out->op = Posted{peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  std::unique_lock lock(mutex_);
  if (refuse(lock, out->op->done)) return;
  watch(options.deadline);
  if (gone_[peer]) {
    const auto error = why_gone(peer, describe_send(*out->op));
    if (tolerant_) {
      tasks_.push_back([peer, error, done = std::move(out->op->done)] {
        done({.peer = peer, .payload = {}, .error = error});
      });
      return wake(lock);
    }
    tasks_.push_back([this, error] { fail(error); });
  }
  queues_[peer].emplace(options.priority, std::move(out));
  dirty_.push_back(peer);
  wake(lock);
}

void MpiRank::post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) {
  check_peer(*this, peer, true);
  PostedRecv recv;
  static_cast<Posted&>(recv) = {peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  recv.into = std::move(into);
  std::unique_lock lock(mutex_);
  if (refuse(lock, recv.done)) return;
  const auto gone = is_gone(peer) ? gone_error(rank_, peer, describe_recv(recv)) : nullptr;
  watch(options.deadline);
  if (const auto complete = match(recv)) {
    tasks_.push_back([this, recv = std::move(recv), complete] { deliver(recv, *complete); });
  } else if (gone) {
    tasks_.push_back([this, gone] { tolerant_ ? end_hopeless() : fail(gone); });
  }
  wake(lock);  // even for nothing to do now: an answer is likely, and a long sleep the wrong way to await it
}

// Finds the message of a receive: returned when it is complete (`recv` is then untouched), else `recv` waits
// for it. With the lock held.
std::shared_ptr<MpiRank::Incoming> MpiRank::match(PostedRecv& recv) {
  auto arrival = table_.post(recv);
  if (!arrival) return nullptr;
  if (arrival->second->complete) return std::move(arrival->second);
  arrival->second->recv = std::move(recv);
  return nullptr;
}

void MpiRank::close(const std::string& reason) {
  {
    std::unique_lock lock(mutex_);
    if (!close_requested_) {
      close_requested_ = true;
      tasks_.push_back([this, reason] { begin_close(reason); });
      wake(lock);
    }
  }
  if (std::this_thread::get_id() == progress_thread_) return;  // from a callback: requested, not awaited
  std::lock_guard join(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void MpiRank::give_up(int suspect, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (close_requested_ || error_) return;
  tasks_.push_back([this, suspect, what] { fail_peer(suspect, blame(suspect, what)); });
  wake(lock);
}

// Ends an operation that comes after the failure or the close.
bool MpiRank::refuse(std::unique_lock<std::mutex>& lock, Done& done) {
  if (!close_requested_ && !error_) return false;
  const auto error = error_ ? error_ : closed_error(rank_, "");
  if (close_requested_) {  // the progress thread may be over
    lock.unlock();
    done({.peer = kAnyPeer, .payload = {}, .error = error});
  } else {
    tasks_.push_back(
        [done = std::move(done), error] { done({.peer = kAnyPeer, .payload = {}, .error = error}); });
    wake(lock);
  }
  return true;
}

// Unlocks.
void MpiRank::wake(std::unique_lock<std::mutex>& lock) {
  const bool asleep = std::exchange(sleeping_, false);
  lock.unlock();
  if (asleep) wakeup_.notify_one();
}

bool MpiRank::is_gone(int peer) const {
  if (peer != kAnyPeer) return gone_[peer];
  for (int other = 0; other < size(); ++other) {
    if (other != rank_ && !gone_[other]) return false;
  }
  return true;
}

std::exception_ptr MpiRank::why_gone(int peer, const std::string& description) const {
  return peer != kAnyPeer && lost_[peer] ? lost_[peer] : gone_error(rank_, peer, description);
}

double MpiRank::silence_s(int peer) const {
  {
    std::lock_guard lock(mutex_);
    if (error_ || gone_[peer]) return std::numeric_limits<double>::infinity();
  }
  return seconds_since(peers_[peer]->heard.load());
}

}  // namespace entrain::transport
