// What a rank over sockets and a rank over MPI have in common: operations are posted by any thread, and done,
// with their callbacks, by one thread of the rank's own.
//
//   posting threads ──lock──▶ match table, tasks ──▶ own thread ──▶ the network, callbacks
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "entrain/transport/buffer_pool.h"
#include "entrain/transport/match_table.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

// A derived class adds the send queues, the network, and the thread: it starts thread_ when it is complete,
// and closes in its destructor.
class ThreadedRank : public Transport {
 public:
  int rank() const final { return rank_; }
  int size() const final { return static_cast<int>(gone_.size()); }
  void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) final;
  void close(const std::string& reason) final;
  void give_up(int suspect, const std::string& what) final;
  void tolerate_losses() final { tolerant_ = true; }
  double silence_s(int peer) const final;
  uint64_t bytes_sent() const final { return bytes_sent_; }

 protected:
  // A message on its way in, or complete and not yet asked for.
  struct Incoming {
    int peer;
    Payload payload;                 // unused when `direct`
    bool direct = false;             // received straight into recv->into
    std::optional<PostedRecv> recv;  // guarded by mutex_ until complete
    bool complete = false;           // guarded by mutex_
  };
  enum class Wake { kForWork, kForEveryReceive };
  // What waits for the own thread.
  struct Work {
    std::vector<std::function<void()>> tasks;
    std::vector<int> dirty;  // peers with something new to send
  };
  // What peers are told when this rank fails: the rank at fault (-1: none in particular), and why.
  struct Abort {
    int culprit;
    std::string reason;
  };
  // Three pings missed: the process does not run.
  static constexpr double kSilence_s = 3.5;

  ThreadedRank(int rank, int world, Wake wake);

  // The network's part. notify(): any thread; the others: own thread.
  virtual void notify() = 0;  // ends the own thread's sleep
  virtual void fail(std::exception_ptr error) = 0;
  virtual void lose(int peer, std::exception_ptr error) = 0;
  virtual void begin_close(const std::string& reason) = 0;
  virtual std::exception_ptr blame(int suspect, const std::string& what) const = 0;
  // Sends and receives that are in neither the match table nor done. With the lock held.
  virtual void for_each_send(const std::function<void(const Posted&)>& visit) = 0;
  virtual void for_each_receive(const std::function<void(const Posted&)>& visit) = 0;
  // When anything, a ping at least, has last come from the peer. Any thread.
  virtual Clock::time_point heard(int peer) const = 0;

  // Any thread, with the lock held. refuse(), end_send() and wake() unlock.
  bool refuse(std::unique_lock<std::mutex>& lock, Done& done);
  bool end_send(std::unique_lock<std::mutex>& lock, Posted& send);
  void wake(std::unique_lock<std::mutex>& lock);
  bool is_gone(int peer) const;
  std::exception_ptr why_gone(int peer, const std::string& description) const;
  std::shared_ptr<Incoming> match(PostedRecv& recv);
  void watch(Deadline deadline) { next_check_ = std::min(next_check_, deadline.when()); }

  // Own thread, without the lock.
  Work take_work();
  Abort abort_of(const std::exception_ptr& error) const;
  void complete(const std::shared_ptr<Incoming>& incoming);
  void deliver(PostedRecv recv, Incoming& incoming);
  void fail_peer(int peer, std::exception_ptr error);
  void end_hopeless();
  void check_deadlines();

  const int rank_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  std::atomic<uint64_t> bytes_sent_ = 0;
  std::atomic<bool> tolerant_ = false;

  mutable std::mutex mutex_;  // guards the group below
  MatchTable<std::shared_ptr<Incoming>> table_;
  std::vector<int> dirty_;                    // peers with something new to send
  std::vector<std::function<void()>> tasks_;  // for the own thread
  std::vector<bool> gone_;                    // peers that ended in order, or are lost
  std::vector<std::exception_ptr> lost_;      // why, of those that are lost
  std::exception_ptr error_;                  // the first failure; written by the own thread only
  Clock::time_point next_check_ = Clock::time_point::max();  // never later than any deadline
  bool sleeping_ = false;
  bool close_requested_ = false;

  // The own thread's.
  bool failed_ = false;   // error_ is set
  bool closing_ = false;  // begin_close has run

  std::thread thread_;
  std::thread::id own_thread_;  // its id, also once it is joined

 private:
  void lose_late(const std::vector<std::pair<int, std::string>>& late);

  const Wake wake_;
  std::mutex join_mutex_;
};

}  // namespace entrain::transport
