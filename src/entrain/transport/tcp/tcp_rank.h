// One rank of a tcp job: the Transport, its I/O thread, and what they share.
//
//   posting threads ──lock──▶ match table, send queues, tasks ──▶ I/O thread ──▶ sockets, callbacks
//
// Three files: posting.cc (any thread), event_loop.cc (the I/O thread: reading and writing),
// failure.cc (the I/O thread: first failure, deadlines, closing).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "entrain/transport/buffer_pool.h"
#include "entrain/transport/match_table.h"
#include "entrain/transport/tcp/frame_reader.h"
#include "entrain/transport/tcp/frame_writer.h"
#include "entrain/transport/tcp/mesh.h"
#include "entrain/transport/tcp/shaper.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

class TcpRank final : public Transport {
 public:
  // `peers` are connected and authenticated, in rank order.
  TcpRank(int rank, std::vector<Peer> peers, double shape_gbit);
  ~TcpRank() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connections_.size()); }
  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override;
  void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) override;
  void close(const std::string& reason) override;
  void give_up(int suspect, const std::string& what) override;
  void tolerate_losses() override { tolerant_ = true; }
  double silence_s(int peer) const override;
  uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  // A message on its way in, or complete and not yet asked for.
  struct Incoming {
    int peer;
    Payload payload;                 // unused when `direct`
    bool direct = false;             // read straight into recv->into
    std::optional<PostedRecv> recv;  // guarded by mutex_ until complete
    bool complete = false;           // guarded by mutex_
  };

  // How this side ends a connection.
  enum class Farewell { kNone, kGoodbye, kAbort };

  // One peer, as the I/O thread sees it.
  struct Connection final : FrameReader::Handler {
    Connection(TcpRank& rank, int peer_rank) : owner(rank), peer(peer_rank) {}
    std::vector<Bytes> on_header(const FrameHeader& next) override { return owner.on_header(*this, next); }
    void on_frame() override { owner.on_frame(*this); }

    TcpRank& owner;
    int peer;
    Fd socket;            // empty: over
    std::string name;     // "rank 2 (10.0.0.3:4411)"
    uint32_t events = 0;  // asked of epoll

    FrameReader reader;
    FrameHeader header;                  // of the frame being read
    std::shared_ptr<Incoming> incoming;  // when that is a message
    std::string control;                 // when it is not
    bool goodbye = false;                // the peer ended in order
    bool eof = false;
    std::atomic<Clock::time_point> heard = Clock::now();  // anything, a ping at least

    FrameWriter writer;
    bool blocked = false;    // waits for the socket to take more
    bool throttled = false;  // waits for the shaper
    Farewell farewell = Farewell::kNone;
    bool shut = false;  // everything including the farewell is written
    Clock::time_point linger = Clock::time_point::max();
  };

  // posting.cc, with mutex_ held where a lock is passed
  bool refuse(std::unique_lock<std::mutex>& lock, Done& done);
  void add_task(std::unique_lock<std::mutex>& lock, std::function<void()> task);
  void wake(std::unique_lock<std::mutex>& lock);
  bool is_gone(int peer) const;
  std::exception_ptr why_gone(int peer, const std::string& description) const;
  std::shared_ptr<Incoming> match(PostedRecv& recv);
  void watch(Deadline deadline) { next_check_ = std::min(next_check_, deadline.when()); }

  // event_loop.cc
  void run();
  void run_tasks();
  int prepare_to_sleep();
  void on_event(Connection& c, uint32_t events);
  void update_events(Connection& c);
  FrameReader::Outcome read_once(Connection& c);
  void read(Connection& c);
  std::vector<Bytes> on_header(Connection& c, const FrameHeader& header);
  void on_frame(Connection& c);
  void deliver(PostedRecv recv, Incoming& incoming);
  void refill(Connection& c);
  void write(Connection& c);
  void finish(OutFrame& frame);
  void resume_shaped();
  void send_pings();

  // failure.cc
  void fail(std::exception_ptr error);
  void fail_peer(int peer, std::exception_ptr error);
  void lose(Connection& c, std::exception_ptr error);
  void end_hopeless();
  void send_abort(Connection& c);
  void on_end(Connection& c, const std::string& how);
  void on_write_error(Connection& c, int code);
  std::string describe_need(Connection& c);
  void drop(Connection& c);
  void written_out(Connection& c);
  void begin_close(const std::string& reason);
  std::exception_ptr blame(int suspect, const std::string& what) const;
  void check_deadlines();
  void lose_late(const std::vector<std::pair<int, std::string>>& late);
  void check_lingering();
  bool finished() const;

  const int rank_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  std::atomic<uint64_t> bytes_sent_ = 0;
  std::atomic<bool> tolerant_ = false;
  Fd epoll_;
  Fd wakeup_;  // eventfd

  mutable std::mutex mutex_;  // guards the group below
  MatchTable<std::shared_ptr<Incoming>> table_;
  std::vector<std::multimap<int, OutFrame>> queues_;  // by peer; key: priority, equal keys stay in order
  std::vector<int> dirty_;                            // peers with something new to send
  std::vector<std::function<void()>> tasks_;          // for the I/O thread
  std::vector<bool> gone_;                            // peers that ended in order, or are lost
  std::vector<std::exception_ptr> lost_;              // why, of those that are lost
  std::exception_ptr error_;                          // the first failure; written by the I/O thread only
  Clock::time_point next_check_ = Clock::time_point::max();  // never later than any deadline
  bool sleeping_ = false;
  bool close_requested_ = false;

  // The I/O thread's own.
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank; the vector itself never changes
  Shaper ingress_, egress_;
  bool reading_paused_ = false;
  bool failed_ = false;   // error_ is set
  bool closing_ = false;  // begin_close has run
  Clock::time_point next_ping_ = Clock::now() + std::chrono::seconds(1);
  size_t turn_ = 0;  // who is served first when the shaper allows more

  std::mutex join_mutex_;
  std::thread thread_;
  std::thread::id io_thread_;
};

}  // namespace entrain::transport
