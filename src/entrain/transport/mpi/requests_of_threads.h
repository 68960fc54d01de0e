// MPI for tests: the ranks of a job are threads of one process, so that what MpiRank does can be tested
// without mpirun, and with ranks that hang and calls that fail.
//
// As Open MPI over shared memory: a small message leaves at once, a large one when its receive is posted, and
// either side's memory is touched only by calls of its own rank.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {

// What the threads share: MPI_COMM_WORLD. Outlives its ranks.
class MpiWorld {
 public:
  explicit MpiWorld(int size) : places(static_cast<size_t>(size)) {}

  std::unique_ptr<Requests> requests(int rank);

  // From now on all calls of this rank hang, as in a process that is stopped, until thaw().
  void freeze(int rank) {
    change([&] { places[rank].frozen = true; });
  }
  void thaw(int rank) {
    change([&] { places[rank].frozen = places[rank].held = false; });
  }
  // From now on large messages of this rank do not get through: their receives stay as they are, until
  // thaw().
  void hold_large(int rank) {
    change([&] { places[rank].held = true; });
  }
  // All calls of all ranks fail: mpirun would end the processes, since a rank has left without MPI_Finalize.
  void end_job() {
    change([&] {
      for (Place& place : places) place = {.error = "the job is over"};
    });
  }
  // The next call of this rank fails as MPI's calls do.
  void break_down(int rank, const std::string& error) {
    change([&] { places[rank].error = error; });
  }
  // The ranks that have called MPI_Finalize.
  std::vector<int> finalized() {
    std::lock_guard lock(mutex);
    std::vector<int> ranks;
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (places[rank].finalized) ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  }
  // How often this rank has looked for what has ended.
  int polls(int rank) {
    std::lock_guard lock(mutex);
    return places[rank].polls;
  }

 private:
  friend class ThreadRequests;
  static constexpr size_t kEager = 4096;

  struct Message {
    std::vector<std::byte> bytes;
    bool copied = false;  // bytes are those of the sender
    bool wanted = false;  // a receive is posted
  };
  struct Receive {
    std::shared_ptr<Message> message;
  };
  struct Channel {  // of one sender, receiver and tag: at least one of them is empty
    std::deque<std::shared_ptr<Message>> messages;
    std::deque<std::shared_ptr<Receive>> receives;
  };
  struct Place {
    bool frozen = false, held = false, finalized = false;
    int polls = 0;
    std::string error;
  };

  template <typename Change>
  void change(Change body) {
    {
      std::lock_guard lock(mutex);
      body();
    }
    changed.notify_all();
  }

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::map<std::tuple<int, int, int>, Channel> channels;
  std::vector<Place> places;
};

class ThreadRequests final : public Requests {
 public:
  ThreadRequests(MpiWorld& world, int rank) : world_(world), rank_(rank) {}

  Place start() override {
    thread_ = std::this_thread::get_id();
    return {rank_, static_cast<int>(world_.places.size())};
  }

  void finish() override {
    auto lock = enter();
    world_.places[rank_].finalized = true;
    world_.changed.notify_all();
    world_.changed.wait(lock, [&] {
      return std::ranges::all_of(world_.places, [](const auto& place) { return place.finalized; });
    });
    for (const auto& [place, channel] : world_.channels)
      EXPECT_TRUE(channel.messages.empty());  // all received
  }

  void send(int peer, int tag, const std::vector<ConstBytes>& data, Completed completed) override {
    if (!usable()) return;
    const auto lock = enter();
    auto message = std::make_shared<MpiWorld::Message>();
    message->bytes.resize(total_size(data));
    EXPECT_LE(message->bytes.size(), kMostBytes);
    if (message->bytes.size() <= MpiWorld::kEager) copy(data, *message);
    auto& channel = world_.channels[{rank_, peer, tag}];
    if (channel.receives.empty()) {
      channel.messages.push_back(message);
    } else {
      match(message, *channel.receives.front());
      channel.receives.pop_front();
    }
    sends_.push_back({message, data, std::move(completed)});
  }

  void recv(int peer, int tag, const std::vector<Bytes>& into, Completed completed) override {
    if (!usable()) return;
    const auto lock = enter();
    auto receive = std::make_shared<MpiWorld::Receive>();
    auto& channel = world_.channels[{peer, rank_, tag}];
    if (channel.messages.empty()) {
      channel.receives.push_back(receive);
    } else {
      match(channel.messages.front(), *receive);
      channel.messages.pop_front();
    }
    receives_.push_back({receive, into, std::move(completed)});
  }

  bool poll() override {
    if (!usable()) return false;
    std::vector<Completed> calls;
    {
      const auto lock = enter();
      ++world_.places[rank_].polls;
      std::erase_if(sends_, [&](Send& send) {
        const bool moves = send.message->wanted && !world_.places[rank_].held;
        if (!send.message->copied && moves) copy(send.data, *send.message);
        if (send.message->copied) calls.push_back(std::move(send.completed));
        return send.message->copied;
      });
      std::erase_if(receives_, [&](Receive& receive) {
        const auto& message = receive.state->message;
        if (!message || !message->copied) return false;
        EXPECT_LE(message->bytes.size(), total_size(receive.into));
        copy_spans({message->bytes}, receive.into);
        calls.push_back(std::move(receive.completed));
        return true;
      });
    }
    for (Completed& call : calls) call();
    return !calls.empty();
  }

 private:
  struct Send {
    std::shared_ptr<MpiWorld::Message> message;
    std::vector<ConstBytes> data;
    Completed completed;
  };
  struct Receive {
    std::shared_ptr<MpiWorld::Receive> state;
    std::vector<Bytes> into;
    Completed completed;
  };

  std::unique_lock<std::mutex> enter() {
    EXPECT_EQ(std::this_thread::get_id(), thread_) << "only one thread may call MPI";
    std::unique_lock lock(world_.mutex);
    EXPECT_FALSE(world_.places[rank_].finalized) << "MPI is over";
    world_.changed.wait(lock, [&] { return !world_.places[rank_].frozen; });
    if (const std::string error = std::exchange(world_.places[rank_].error, ""); !error.empty()) {
      throw std::runtime_error(error);
    }
    return lock;
  }

  static void copy(const std::vector<ConstBytes>& data, MpiWorld::Message& message) {
    copy_spans(data, {message.bytes});
    message.copied = true;
  }
  static void match(const std::shared_ptr<MpiWorld::Message>& message, MpiWorld::Receive& receive) {
    message->wanted = true;
    receive.message = message;
  }

  MpiWorld& world_;
  const int rank_;
  std::thread::id thread_;
  std::list<Send> sends_;
  std::list<Receive> receives_;
};

inline std::unique_ptr<Requests> MpiWorld::requests(int rank) {
  return std::make_unique<ThreadRequests>(*this, rank);
}

}  // namespace entrain::transport
