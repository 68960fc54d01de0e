// One rank of a tcp job: the Transport, its I/O thread, and what they share.
//
//   posting threads ──lock──▶ match table, send queues, tasks ──▶ I/O thread ──▶ sockets, callbacks
//
// Three files: posting.cc (any thread), event_loop.cc (the I/O thread: reading and writing),
// failure.cc (the I/O thread: first failure, deadlines, closing).
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "entrain/base/wake.h"
#include "entrain/transport/tcp/frame_reader.h"
#include "entrain/transport/tcp/frame_writer.h"
#include "entrain/transport/tcp/mesh.h"
#include "entrain/transport/tcp/shaper.h"
#include "entrain/transport/threaded_rank.h"

namespace entrain::transport {

class TcpRank final : public ThreadedRank {
 public:
  // `peers` are connected and authenticated, in rank order. One that is silent for `timeout_s` has failed,
  // but nobody that pauses for a few seconds.
  TcpRank(int rank, std::vector<Peer> peers, double shape_gbit, double timeout_s);
  ~TcpRank() override;

  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override;

 private:
  // How this side ends a connection.
  enum class Farewell { kNone, kGoodbye, kAbort };

  // One peer, as the I/O thread sees it.
  struct Connection final : FrameReader::Handler {
    Connection(TcpRank& rank, int peer_rank) : owner(rank), peer(peer_rank) {}
    std::vector<Bytes> on_header(const FrameHeader& next) override { return owner.on_header(*this, next); }
    void on_frame() override { owner.on_frame(*this); }

    TcpRank& owner;
    int peer;
    net::Fd socket;                         // empty: over
    std::unique_ptr<net::Channel> channel;  // over the socket
    std::string name;                       // "rank 2 (10.0.0.3:4411)"
    uint32_t events = 0;                    // asked of epoll

    FrameReader reader;
    FrameHeader header;                  // of the frame being read
    std::shared_ptr<Incoming> incoming;  // when that is a message
    std::string control;                 // when it is not
    bool goodbye = false;                // the peer ended in order
    bool eof = false;
    std::atomic<Clock::time_point> heard = Clock::now();  // anything, a ping at least
    bool silent = false;                                  // and the log says so

    FrameWriter writer;
    bool blocked = false;    // waits for the socket to take more
    bool throttled = false;  // waits for the shaper
    Farewell farewell = Farewell::kNone;
    bool shut = false;  // everything including the farewell is written
    Clock::time_point linger = Clock::time_point::max();
  };

  // posting.cc
  void notify() override;

  // event_loop.cc
  void run();
  void on_events(std::span<const epoll_event> events);
  void run_tasks();
  int prepare_to_sleep();
  void on_event(Connection& c, uint32_t events);
  void update_events(Connection& c);
  FrameReader::Outcome read_once(Connection& c);
  void read(Connection& c);
  void read_held();
  std::vector<Bytes> on_header(Connection& c, const FrameHeader& header);
  void on_frame(Connection& c);
  void refill(Connection& c);
  void write(Connection& c);
  void finish(OutFrame& frame);
  void resume_shaped();
  void tick();
  void send_pings();

  // failure.cc
  void fail(std::exception_ptr error) override;
  void lose(int peer, std::exception_ptr error) override;
  void send_abort(Connection& c);
  void on_end(Connection& c, const std::string& how);
  void on_write_error(Connection& c, int code);
  std::string describe_need(Connection& c);
  void drop(Connection& c);
  void written_out(Connection& c);
  void begin_close(const std::string& reason) override;
  std::exception_ptr blame(int suspect, const std::string& what) const override;
  void for_each_send(const std::function<void(const Posted&)>& visit) override;
  void for_each_receive(const std::function<void(const Posted&)>& visit) override;
  Clock::time_point heard(int peer) const override { return connections_[peer]->heard.load(); }
  void forgive(Clock::duration slept);
  void check_silence();
  void check_lingering();
  bool finished() const;

  // Ends the I/O thread's sleep; lives on while somebody is about to do so.
  struct Doorbell final : Sleeper {
    void wake() override;
    net::Fd eventfd;
  };

  net::Fd epoll_;
  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  // By peer; key: priority, equal keys stay in order. Guarded by mutex_.
  std::vector<std::multimap<int, OutFrame>> queues_;

  // The I/O thread's own.
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank; the vector itself never changes
  Shaper ingress_, egress_;
  bool reading_paused_ = false;
  bool holds_received_ = true;  // a channel holds what epoll knows nothing of
  const double patience_s_;     // with a silent peer
  Clock::time_point next_tick_ = Clock::now() + std::chrono::seconds(1);
  size_t turn_ = 0;  // who is served first when the shaper allows more
};

}  // namespace entrain::transport
