// One rank of an MPI job: the Transport, its progress thread, and what they share.
//
//   posting threads ──lock──▶ match table, send queues, tasks ──▶ progress thread ──▶ MPI, callbacks
//
// The progress thread is the only one that calls MPI (MPI_THREAD_FUNNELED, it being the one that called
// MPI_Init). It polls, since MPI cannot wait without taking a whole core, and sleeps ever longer up to half a
// millisecond while nothing comes.
//
// Two kinds of MPI messages, told apart by MPI's tag, each kind in order between two ranks:
//
//   head   {type, tag, length}, and the payload too when that is small; a receive for it is always posted
//   body   the payload of the last head, in parts of 16 MB; received once the head says where it goes
//
// Three files: posting.cc (any thread), progress.cc (the progress thread: sending and receiving), failure.cc
// (the progress thread: first failure, deadlines, closing).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "entrain/transport/buffer_pool.h"
#include "entrain/transport/match_table.h"
#include "entrain/transport/mpi/requests.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

class MpiRank final : public Transport {
 public:
  // Calls MPI_Init, on the progress thread, and returns when it has. Throws InputError when MPI then says
  // another rank or size.
  MpiRank(int rank, int world);
  ~MpiRank() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override;
  void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) override;
  void close(const std::string& reason) override;
  void give_up(int suspect, const std::string& what) override;
  void tolerate_losses() override { tolerant_ = true; }
  double silence_s(int peer) const override;
  uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  enum class Type : uint64_t { kData, kPing, kAbort, kGoodbye };

  // Of all messages. Ranks of one job have one byte order.
  struct Header {
    Type type = Type::kData;
    Tag tag = 0;  // of an abort: the rank at fault
    uint64_t length = 0;
  };

  // A message on its way out.
  struct Outgoing {
    int peer = 0;
    Header header;
    std::vector<ConstBytes> data;
    std::optional<Posted> op;     // empty: control, or its sender has been answered
    std::vector<std::byte> head;  // the header, and a small payload
    Payload copy;                 // of `data` where losses are tolerated: then nobody else's memory is used
    int parts = 0;                // MPI messages under way
  };

  // A message on its way in, or complete and not yet asked for.
  struct Incoming {
    int peer;
    Payload payload;                 // unused when `direct`
    bool direct = false;             // received straight into recv->into
    std::optional<PostedRecv> recv;  // guarded by mutex_ until complete
    bool complete = false;           // guarded by mutex_
    size_t parts = 0;                // MPI messages still to come
  };

  // One peer, as the progress thread sees it.
  struct Peer {
    std::vector<std::byte> inbox;                // of the next head
    std::vector<std::shared_ptr<Outgoing>> out;  // given to MPI
    std::vector<std::shared_ptr<Incoming>> in;   // bodies being received
    size_t out_bytes = 0;
    bool lost = false;
    bool told = false;          // that this rank has failed, or has lost it
    bool goodbye_sent = false;  // the last word either way: heads end with it
    bool goodbye_heard = false;
    bool ended = false;  // its goodbye has been dealt with
    std::atomic<Clock::time_point> heard = Clock::now();
  };

  // posting.cc, with mutex_ held where a lock is passed
  bool refuse(std::unique_lock<std::mutex>& lock, Done& done);
  void wake(std::unique_lock<std::mutex>& lock);
  bool is_gone(int peer) const;
  std::exception_ptr why_gone(int peer, const std::string& description) const;
  std::shared_ptr<Incoming> match(PostedRecv& recv);
  void watch(Deadline deadline) { next_check_ = std::min(next_check_, deadline.when()); }

  // progress.cc
  void run(std::promise<void>& started);
  void start_mpi(int world);
  bool progress();
  bool run_tasks();
  void rest(bool worked);
  void pump(int peer);
  void start_send(const std::shared_ptr<Outgoing>& out);
  void send_control(int peer, Header header, const std::string& text);
  void on_sent(const std::shared_ptr<Outgoing>& out);
  void await_head(int peer);
  void on_head(int peer);
  void on_data(int peer, const Header& header, ConstBytes payload);
  void receive_body(int peer, const std::shared_ptr<Incoming>& incoming, const std::vector<Bytes>& into);
  void on_body(const std::shared_ptr<Incoming>& incoming);
  void deliver(PostedRecv recv, Incoming& incoming);
  void send_pings();

  // failure.cc
  void fail(std::exception_ptr error);
  void fail_peer(int peer, std::exception_ptr error);
  void lose(int peer, std::exception_ptr error);
  void end_hopeless();
  void tell(int peer, std::exception_ptr error);
  void on_abort(int peer, const Header& header, const std::string& reason);
  void on_goodbye(int peer);
  std::string describe_need(int peer);
  std::exception_ptr blame(int suspect, const std::string& what) const;
  void check_deadlines();
  void lose_late(const std::vector<std::pair<int, std::string>>& late);
  void begin_close(const std::string& reason);
  void say_goodbyes();
  void check_lingering();
  void abandon_mpi();
  bool finished();
  void finish_mpi();

  const int rank_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  std::atomic<uint64_t> bytes_sent_ = 0;
  std::atomic<bool> tolerant_ = false;

  mutable std::mutex mutex_;  // guards the group below
  std::condition_variable wakeup_;
  MatchTable<std::shared_ptr<Incoming>> table_;
  std::vector<std::multimap<int, std::shared_ptr<Outgoing>>> queues_;  // by peer; key: priority
  std::vector<int> dirty_;                                             // peers with something new to send
  std::vector<std::function<void()>> tasks_;                           // for the progress thread
  std::vector<bool> gone_;                                             // peers that ended, or are lost
  std::vector<std::exception_ptr> lost_;                               // why, of those that are lost
  std::exception_ptr error_;  // the first failure; written by the progress thread only
  Clock::time_point next_check_ = Clock::time_point::max();  // never later than any deadline
  bool sleeping_ = false;
  bool close_requested_ = false;

  // The progress thread's own.
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; the vector itself never changes
  Requests requests_;
  bool failed_ = false;   // error_ is set
  bool closing_ = false;  // begin_close has run
  bool any_lost_ = false;
  bool all_said_goodbye_ = false;
  Clock::time_point linger_ = Clock::time_point::max();    // after a failure: how long memory may stay in use
  Clock::time_point farewell_ = Clock::time_point::max();  // after a failure: how long goodbyes are awaited
  Clock::time_point next_ping_ = Clock::now() + std::chrono::seconds(1);
  int idle_rounds_ = 0;

  std::mutex join_mutex_;
  std::thread thread_;
  std::thread::id progress_thread_;
};

}  // namespace entrain::transport
