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

#include "entrain/transport/mpi/requests.h"
#include "entrain/transport/threaded_rank.h"

namespace entrain::transport {

class MpiRank final : public ThreadedRank {
 public:
  // Calls MPI_Init, on the progress thread, and returns when it has. Throws InputError when MPI then says
  // another rank or size.
  MpiRank(int rank, int world, std::unique_ptr<Requests> requests);
  ~MpiRank() override;

  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override;

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

  // posting.cc
  void notify() override { wakeup_.notify_one(); }

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
  void send_pings();

  // failure.cc
  void fail(std::exception_ptr error) override;
  void lose(int peer, std::exception_ptr error) override;
  void tell(int peer, std::exception_ptr error);
  void on_abort(int peer, const Header& header, const std::string& reason);
  void on_goodbye(int peer);
  std::string describe_need(int peer);
  std::exception_ptr blame(int suspect, const std::string& what) const override;
  void for_each_send(const std::function<void(const Posted&)>& visit) override;
  void for_each_receive(const std::function<void(const Posted&)>& visit) override;
  Clock::time_point heard(int peer) const override { return peers_[peer]->heard.load(); }
  void begin_close(const std::string& reason) override;
  void say_goodbyes();
  void check_lingering();
  void abandon_mpi();
  bool finished();
  void finish_mpi();

  std::condition_variable wakeup_;
  std::vector<std::multimap<int, std::shared_ptr<Outgoing>>>
      queues_;  // by peer; key: priority. Guarded by mutex_

  // The progress thread's own.
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; the vector itself never changes
  std::unique_ptr<Requests> requests_;
  bool any_lost_ = false;
  bool all_said_goodbye_ = false;
  Clock::time_point linger_ = Clock::time_point::max();    // after a failure: how long memory may stay in use
  Clock::time_point farewell_ = Clock::time_point::max();  // after a failure: how long goodbyes are awaited
  Clock::time_point next_ping_ = Clock::now() + std::chrono::seconds(1);
  int idle_rounds_ = 0;
};

}  // namespace entrain::transport
