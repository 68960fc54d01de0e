#include "entrain/transport/inproc/inproc_transport.h"

#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/transport/match_table.h"

namespace entrain::transport {
namespace {

// A message whose receive is not posted yet: the sender's own memory, or a copy of it once the
// sender has closed.
struct Arrival {
  std::optional<PostedSend> send;
  Payload copy;

  size_t size() const { return send ? total_size(send->data) : copy.size(); }
  std::vector<ConstBytes> data() const { return send ? send->data : std::vector<ConstBytes>{copy.bytes()}; }
};

// Callbacks to run once the lock is released, each with the rank it belongs to.
struct Ending {
  int rank;
  Done done;
  Result result;
};
using Endings = std::vector<Ending>;

// All ranks under one lock: this transport serves tests and single-rank jobs, not speed.
class World {
 public:
  explicit World(int size) : ranks_(size) {
    if (size > 1) timer_ = std::thread([this] { watch_deadlines(); });
  }
  ~World() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (timer_.joinable()) timer_.join();
  }

  int size() const { return static_cast<int>(ranks_.size()); }

  void post_send(int rank, PostedSend send) {
    std::unique_lock lock(mutex_);
    if (refuse(lock, rank, send)) return;
    Rank& receiver = ranks_[send.peer];
    const int peer = send.peer;
    if (is_gone(rank, peer)) {
      const auto error = why_gone(rank, peer, describe_send(send));
      Endings endings;
      endings.push_back({rank, std::move(send.done), {.peer = peer, .payload = {}, .error = error}});
      if (tolerant_) return run(lock, std::move(endings));
      return end_with(lock, std::move(endings), error);
    }
    watch(send.deadline);
    auto recv = receiver.table.arrive(rank, send.tag, [&] { return Arrival{std::move(send), {}}; });
    if (recv) transfer(lock, rank, Arrival{std::move(send), {}}, peer, std::move(*recv));
  }

  void post_recv(int rank, PostedRecv recv) {
    std::unique_lock lock(mutex_);
    if (refuse(lock, rank, recv)) return;
    watch(recv.deadline);
    auto arrival = ranks_[rank].table.post(recv);
    if (arrival) return transfer(lock, arrival->first, std::move(arrival->second), rank, std::move(recv));
    fail_if_someone_is_gone(lock, rank);
  }

  void close(int rank, const std::string& reason) {
    std::unique_lock lock(mutex_);
    Rank& self = ranks_[rank];
    if (!reason.empty() && !error_ && !self.closed) {
      self.reason = closed_error(rank, reason);
      if (!tolerant_) end_with(lock, {}, self.reason);
    }
    if (!lock) lock.lock();
    if (!self.closed) {
      self.closed = true;
      end_own_operations(lock, rank);
      lock.lock();
      for (int other = 0; other < size(); ++other) {
        fail_if_someone_is_gone(lock, other);
        if (!lock) lock.lock();
      }
    }
    changed_.wait(lock, [&] { return self.transfers == 0 && self.endings.empty() && !self.draining; });
  }

  void give_up(int rank, int suspect, const std::string& what) {
    std::unique_lock lock(mutex_);
    if (error_) return;
    const auto error = std::make_exception_ptr(PeerError(suspect, what));
    tolerant_ ? part(lock, rank, suspect, {}, error) : end_with(lock, {}, error);
  }

  void tolerate_losses() {
    std::lock_guard lock(mutex_);
    tolerant_ = true;
  }

  double silence_s(int rank, int peer) {
    std::lock_guard lock(mutex_);
    return error_ || is_gone(rank, peer) ? std::numeric_limits<double>::infinity() : 0;
  }

  uint64_t bytes_sent(int rank) const { return ranks_[rank].bytes_sent; }

 private:
  struct Rank {
    MatchTable<Arrival> table;
    bool closed = false;
    std::exception_ptr reason;               // why it closed, when not in order
    std::map<int, std::exception_ptr> lost;  // peers it has parted from, and why
    int transfers = 0;                       // copies under way that end in a callback of this rank
    std::deque<Ending> endings;              // callbacks to run, and whether a thread does so
    bool draining = false;
    std::atomic<uint64_t> bytes_sent = 0;
  };

  // An operation whose deadline has passed.
  struct Late {
    int rank, peer;
    std::exception_ptr error;
  };

  // Ends an operation at once when the job has failed or the rank is closed.
  bool refuse(std::unique_lock<std::mutex>& lock, int rank, Posted& op) {
    if (!error_ && !ranks_[rank].closed) return false;
    Endings endings;
    endings.push_back({rank, std::move(op.done), {}});
    endings[0].result.error = error_ ? error_ : closed_error(rank, "");
    run(lock, std::move(endings));
    return true;
  }

  // Moves the bytes, unlocked: both operations have left the tables, so nobody else ends them.
  void transfer(std::unique_lock<std::mutex>& lock, int sender, Arrival arrival, int receiver,
                PostedRecv recv) {
    const size_t size = arrival.size();
    if (!recv.into.empty() && total_size(recv.into) != size) {
      Endings endings;
      if (arrival.send) endings.push_back({sender, std::move(arrival.send->done), {}});
      const auto error = size_error(receiver, recv, sender, size);
      endings.push_back({receiver, std::move(recv.done), {}});
      if (tolerant_) return part(lock, receiver, sender, std::move(endings), error);
      return end_with(lock, std::move(endings), error);
    }
    ++ranks_[sender].transfers, ++ranks_[receiver].transfers;
    lock.unlock();
    Result received{.peer = sender, .payload = {}, .error = nullptr};
    if (!recv.into.empty()) {
      copy_spans(arrival.data(), recv.into);
    } else if (arrival.send) {
      received.payload = Payload(size);
      copy_spans(arrival.data(), {received.payload.bytes()});
    } else {
      received.payload = std::move(arrival.copy);
    }
    ranks_[sender].bytes_sent += size;
    Endings endings;
    if (arrival.send) {
      endings.push_back(
          {sender, std::move(arrival.send->done), {.peer = receiver, .payload = {}, .error = nullptr}});
    }
    endings.push_back({receiver, std::move(recv.done), std::move(received)});
    lock.lock();
    --ranks_[sender].transfers, --ranks_[receiver].transfers;
    run(lock, std::move(endings));
  }

  // The first failure ends every posted operation of every rank.
  void end_with(std::unique_lock<std::mutex>& lock, Endings endings, std::exception_ptr error) {
    if (!error_) error_ = error;
    for (int rank = 0; rank < size(); ++rank) {
      auto& table = ranks_[rank].table;
      table.for_each_recv([&](PostedRecv& recv) { endings.push_back({rank, std::move(recv.done), {}}); });
      table.for_each_arrival([&](int sender, Arrival& arrival) {
        if (arrival.send) endings.push_back({sender, std::move(arrival.send->done), {}});
      });
      table.clear();
    }
    for (Ending& ending : endings) ending.result.error = error_;
    run(lock, std::move(endings));
  }

  bool is_gone(int rank, int peer) const {
    if (peer != kAnyPeer) return ranks_[peer].closed || ranks_[rank].lost.contains(peer);
    for (int other = 0; other < size(); ++other) {
      if (other != rank && !is_gone(rank, other)) return false;
    }
    return true;
  }

  std::exception_ptr why_gone(int rank, int peer, const std::string& description) const {
    if (peer != kAnyPeer) {
      const auto lost = ranks_[rank].lost.find(peer);
      if (lost != ranks_[rank].lost.end()) return lost->second;
      if (ranks_[peer].reason) return ranks_[peer].reason;
    }
    return gone_error(rank, peer, description);
  }

  // Where losses are tolerated: `rank` has lost `peer`, and so `peer` has lost `rank`. Unlocks.
  void part(std::unique_lock<std::mutex>& lock, int rank, int peer, Endings endings,
            std::exception_ptr error) {
    for (Ending& ending : endings) ending.result.error = error;
    ranks_[rank].lost.emplace(peer, error);
    ranks_[peer].lost.emplace(rank, std::make_exception_ptr(PeerError(
                                        rank, fmt::format("rank {} has given rank {} up", rank, peer))));
    take_hopeless(endings);
    run(lock, std::move(endings));
  }

  // What nobody is left to answer, each with its own peer's reason.
  void take_hopeless(Endings& endings) {
    const auto end = [&](int rank, int peer, Done done, const std::string& description) {
      const auto error = why_gone(rank, peer, description);
      endings.push_back({rank, std::move(done), {.peer = peer, .payload = {}, .error = error}});
    };
    for (int rank = 0; rank < size(); ++rank) {
      auto& table = ranks_[rank].table;
      for (auto& recv : table.take_recvs([&](const PostedRecv& each) { return is_gone(rank, each.peer); })) {
        end(rank, recv.peer, std::move(recv.done), describe_recv(recv));
      }
      table.erase_arrivals([&](int sender, Arrival& arrival) {
        if (!arrival.send || !is_gone(sender, rank)) return false;
        end(sender, rank, std::move(arrival.send->done), describe_send(*arrival.send));
        return true;
      });
    }
  }

  // An orderly close: what was sent stays deliverable, as a copy; what was awaited ends.
  void end_own_operations(std::unique_lock<std::mutex>& lock, int rank) {
    Endings endings;
    ranks_[rank].table.for_each_recv([&](PostedRecv& recv) {
      endings.push_back({rank, std::move(recv.done), {}});
      endings.back().result.error = closed_error(rank, "");
    });
    ranks_[rank].table.clear_recvs();
    for (Rank& other : ranks_) {
      other.table.for_each_arrival([&](int sender, Arrival& arrival) {
        if (sender != rank || !arrival.send) return;
        arrival.copy = Payload(arrival.size());
        copy_spans(arrival.send->data, {arrival.copy.bytes()});
        endings.push_back({rank, std::move(arrival.send->done), {}});
        arrival.send.reset();
      });
    }
    run(lock, std::move(endings));
  }

  // Unlocks when something fails.
  void fail_if_someone_is_gone(std::unique_lock<std::mutex>& lock, int rank) {
    if (error_) return;
    if (tolerant_) {
      Endings endings;
      take_hopeless(endings);
      return endings.empty() ? void() : run(lock, std::move(endings));
    }
    const PostedRecv* hopeless =
        ranks_[rank].table.oldest_recv([&](const PostedRecv& recv) { return is_gone(rank, recv.peer); });
    if (hopeless) return end_with(lock, {}, gone_error(rank, hopeless->peer, describe_recv(*hopeless)));
    if (!ranks_[rank].closed) return;
    std::exception_ptr untaken;  // a message to a rank that will never take it
    ranks_[rank].table.for_each_arrival([&](int sender, Arrival& arrival) {
      if (arrival.send && !untaken) untaken = gone_error(sender, rank, describe_send(*arrival.send));
    });
    if (untaken) end_with(lock, {}, untaken);
  }

  // Runs callbacks without the lock, which is released on return. The callbacks of one rank run one
  // after the other, on whichever thread came first: so they never overlap, and a callback that
  // completes an operation of a rank further up the stack does not nest deeper.
  void run(std::unique_lock<std::mutex>& lock, Endings endings) {
    std::vector<int> touched;
    for (Ending& ending : endings) {
      touched.push_back(ending.rank);
      ranks_[ending.rank].endings.push_back(std::move(ending));
    }
    for (const int rank : touched) drain(lock, ranks_[rank]);
    lock.unlock();
    changed_.notify_all();
  }

  void drain(std::unique_lock<std::mutex>& lock, Rank& rank) {
    if (rank.draining) return;
    rank.draining = true;
    while (!rank.endings.empty()) {
      Ending ending = std::move(rank.endings.front());
      rank.endings.pop_front();
      lock.unlock();
      ending.done(std::move(ending.result));
      ending.done = nullptr;  // what it captured is gone before close() returns
      lock.lock();
    }
    rank.draining = false;
  }

  void watch(Deadline deadline) {
    if (deadline.when() >= next_check_) return;
    next_check_ = deadline.when();
    changed_.notify_all();
  }

  // `next_check_` is never later than the earliest deadline of a posted operation; operations that
  // end in time leave it too early, which costs one look through the tables.
  void watch_deadlines() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (next_check_ == Clock::time_point::max()) {
        changed_.wait(lock);
      } else if (Clock::now() < next_check_) {
        changed_.wait_until(lock, next_check_);
      } else {
        check_deadlines(lock);
        if (!lock) lock.lock();
      }
    }
  }

  void check_deadlines(std::unique_lock<std::mutex>& lock) {
    next_check_ = Clock::time_point::max();
    const auto now = Clock::now();
    std::vector<Late> late;
    const auto look = [&](int rank, const Posted& op, const auto& describe) {
      if (op.deadline.when() > now) {
        next_check_ = std::min(next_check_, op.deadline.when());
      } else {
        const std::string text = deadline_text(rank, op, describe(op));
        late.push_back({rank, op.peer, std::make_exception_ptr(PeerError(op.peer, text))});
      }
    };
    for (int rank = 0; rank < size(); ++rank) {
      ranks_[rank].table.for_each_recv([&](PostedRecv& recv) { look(rank, recv, describe_recv); });
      ranks_[rank].table.for_each_arrival([&](int sender, Arrival& arrival) {
        if (arrival.send) look(sender, *arrival.send, describe_send);
      });
    }
    if (late.empty()) return;
    tolerant_ ? lose_late(lock, late) : end_with(lock, {}, late[0].error);
  }

  // Nobody in particular is to blame for a receive from any peer: it ends alone.
  void lose_late(std::unique_lock<std::mutex>& lock, const std::vector<Late>& late) {
    for (const auto& [rank, peer, error] : late) {
      if (!lock) lock.lock();
      if (peer != kAnyPeer) {
        part(lock, rank, peer, {}, error);
        continue;
      }
      Endings endings;
      for (auto& recv : ranks_[rank].table.take_recvs(
               [](const PostedRecv& each) { return each.peer == kAnyPeer && each.deadline.passed(); })) {
        endings.push_back({rank, std::move(recv.done), {.peer = kAnyPeer, .payload = {}, .error = error}});
      }
      run(lock, std::move(endings));
    }
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::exception_ptr error_;
  bool tolerant_ = false;  // one process, one mind: of all ranks as soon as one says so
  Clock::time_point next_check_ = Clock::time_point::max();
  bool stopping_ = false;

  std::thread timer_;
};

class InprocTransport : public Transport {
 public:
  InprocTransport(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}
  ~InprocTransport() override { InprocTransport::close(""); }

  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }

  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override {
    check_peer(*this, peer, false);
    PostedSend send;
    static_cast<Posted&>(send) = {peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
    send.data = std::move(data);
    world_->post_send(rank_, std::move(send));
  }

  void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) override {
    check_peer(*this, peer, true);
    PostedRecv recv;
    static_cast<Posted&>(recv) = {peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
    recv.into = std::move(into);
    world_->post_recv(rank_, std::move(recv));
  }

  void close(const std::string& reason) override { world_->close(rank_, reason); }
  // Ranks that are threads of one process are never stopped alone.
  void give_up(int suspect, const std::string& what) override { world_->give_up(rank_, suspect, what); }
  void tolerate_losses() override { world_->tolerate_losses(); }
  double silence_s(int peer) const override { return world_->silence_s(rank_, peer); }
  uint64_t bytes_sent() const override { return world_->bytes_sent(rank_); }

 private:
  std::shared_ptr<World> world_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_inproc(int world) {
  auto shared = std::make_shared<World>(world);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < world; ++rank) {
    transports.push_back(std::make_unique<InprocTransport>(shared, rank));
  }
  return transports;
}

}  // namespace entrain::transport
