// What every transport must do. A rank checks only what it sees itself: over mpi it is a process of its own.
#include "entrain/transport/transport.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/transport/transport_suite.h"

namespace entrain::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(30); }  // against hangs only

// Repeats with a period that no buffer size divides, so that misplaced pieces show.
std::vector<std::byte> pattern(size_t size, int seed) {
  constexpr size_t kPeriod = 65521;
  std::vector<std::byte> data(size);
  for (size_t i = 0; i < std::min(size, kPeriod); ++i) {
    data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  }
  for (size_t at = kPeriod; at < size; at += kPeriod) {
    std::memcpy(data.data() + at, data.data(), std::min(kPeriod, size - at));
  }
  return data;
}

// A posted operation to wait for.
class Op {
 public:
  Done done() {
    return [promise = promise_](Result result) { promise->set_value(std::move(result)); };
  }
  Result get() {
    Result result = future_.get();
    if (result.error) std::rethrow_exception(result.error);
    return result;
  }

 private:
  std::shared_ptr<std::promise<Result>> promise_ = std::make_shared<std::promise<Result>>();
  std::future<Result> future_ = promise_->get_future();
};

// The PeerError that `body` throws.
template <typename Body>
std::pair<int, std::string> peer_error(Body body) {
  try {
    body();
  } catch (const PeerError& e) {
    return {e.peer(), e.what()};
  }
  return {-2, "no PeerError"};
}

void barrier_of_two(Transport& t, int rank, int a, int b) {
  if (rank != a && rank != b) return;
  const int other = rank == a ? b : a;
  Op out;
  t.post_send(other, 77, {}, {.deadline = soon()}, out.done());
  recv(t, other, 77, {.deadline = soon()});
  out.get();
}

TEST_P(TransportTest, PingPong) {
  run(2, [](int rank, Transport& t) {
    for (int i = 0; i < 200; ++i) {
      if (rank == 0) {
        send(t, 1, 7, as_bytes("ping"), {.deadline = soon()});
        EXPECT_EQ(as_text(recv(t, 1, 7, {.deadline = soon()}).bytes()), "pong");
      } else {
        EXPECT_EQ(as_text(recv(t, 0, 7, {.deadline = soon()}).bytes()), "ping");
        send(t, 0, 7, as_bytes("pong"), {.deadline = soon()});
      }
    }
    EXPECT_EQ(t.bytes_sent(), 800u);
  });
}

TEST_P(TransportTest, TagsMayBeTakenInAnyOrder) {
  run(2, [](int rank, Transport& t) {
    constexpr int kCount = 50;
    std::vector<Op> ops(kCount);
    std::vector<std::vector<std::byte>> data(kCount);
    for (int i = 0; i < kCount; ++i) {
      data[i] = pattern(i * 100, i);
      if (rank == 0) t.post_send(1, i, {data[i]}, {.deadline = soon()}, ops[i].done());
    }
    if (rank == 1) {
      barrier(t, kControlTags, soon());  // all are unexpected by then, at least over tcp
      for (int i = kCount - 1; i >= 0; --i) {
        if (i % 2) {
          const Payload payload = recv(t, 0, i, {.deadline = soon()});
          EXPECT_TRUE(std::ranges::equal(payload.bytes(), data[i]));
        } else {
          std::vector<std::byte> into(data[i].size());
          recv_into(t, 0, i, into, {.deadline = soon()});
          EXPECT_EQ(into, data[i]);
        }
      }
    } else {
      barrier(t, kControlTags, soon());
      for (Op& op : ops) op.get();
    }
  });
}

TEST_P(TransportTest, MessagesOfOneTagKeepTheirOrder) {
  run(2, [](int rank, Transport& t) {
    std::vector<int> numbers(500);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<Op> ops(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      auto span = std::as_writable_bytes(std::span(&numbers[i], 1));
      if (rank == 0) {
        t.post_send(1, 3, {span}, {.deadline = soon()}, ops[i].done());
      } else {
        numbers[i] = -1;
        t.post_recv(i % 2 ? 0 : kAnyPeer, 3, {span}, {.deadline = soon()}, ops[i].done());
      }
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      ops[i].get();
      EXPECT_EQ(numbers[i], static_cast<int>(i));
    }
  });
}

TEST_P(TransportTest, ReceivesFromAnyPeerAndSaysFromWhom) {
  run(4, [](int rank, Transport& t) {
    if (rank > 0) return send(t, 0, 9, as_bytes(std::to_string(rank)), {.deadline = soon()});
    std::vector<int> seen(4);
    for (int i = 0; i < 3; ++i) {
      Op op;
      t.post_recv(kAnyPeer, 9, {}, {.deadline = soon()}, op.done());
      const Result result = op.get();
      EXPECT_EQ(as_text(result.payload.bytes()), std::to_string(result.peer));
      ++seen[result.peer];
    }
    EXPECT_EQ(seen, (std::vector<int>{0, 1, 1, 1}));
  });
}

TEST_P(TransportTest, GathersAndScattersSpans) {
  run(2, [](int rank, Transport& t) {
    const auto data = pattern(300'000, 5);
    const ConstBytes all(data);
    if (rank == 0) {
      std::vector<ConstBytes> pieces;
      for (size_t at = 0; at < all.size(); at += 1000) pieces.push_back(all.subspan(at, 1000));
      pieces.insert(pieces.begin() + 3, ConstBytes{});
      Op op;
      t.post_send(1, 1, pieces, {.deadline = soon()}, op.done());
      op.get();
    } else {
      std::vector<std::byte> into(all.size());
      std::vector<Bytes> pieces;
      for (size_t at = 0, n = 1; at < into.size(); at += n, n = n * 2 + 1) {
        pieces.push_back(Bytes(into).subspan(at, std::min(n, into.size() - at)));
      }
      Op op;
      t.post_recv(0, 1, pieces, {.deadline = soon()}, op.done());
      op.get();
      EXPECT_EQ(into, data);
    }
  });
}

TEST_P(TransportTest, CarriesEmptyMessages) {
  run(2, [](int rank, Transport& t) {
    if (rank == 0) {
      send(t, 1, 1, {}, {.deadline = soon()});
      send(t, 1, 1, {}, {.deadline = soon()});
    } else {
      EXPECT_EQ(recv(t, 0, 1, {.deadline = soon()}).size(), 0u);
      recv_into(t, 0, 1, {}, {.deadline = soon()});
    }
  });
}

// Every transport treats small messages in a way of its own.
TEST_P(TransportTest, CarriesMessagesOfAllSizesNearItsLimits) {
  run(2, [](int rank, Transport& t) {
    std::vector<size_t> sizes = {65512, 65536, 65537, 16 << 20, (16 << 20) + 1};
    for (size_t size = 3940; size < 4120; ++size) sizes.push_back(size);
    for (const size_t size : sizes) {
      const auto data = pattern(size, static_cast<int>(size));
      if (rank == 0) {
        send(t, 1, 1, data, {.deadline = soon()});
      } else {
        const Payload got = recv(t, 0, 1, {.deadline = soon()});
        ASSERT_EQ(got.size(), size);
        EXPECT_EQ(std::memcmp(got.bytes().data(), data.data(), size), 0) << size;
      }
    }
  });
}

TEST_P(TransportTest, CarriesLargeMessagesBothWays) {
  run(2, [](int rank, Transport& t) {
    constexpr size_t kSize = size_t{64} << 20;
    const auto mine = pattern(kSize, rank);
    std::vector<std::byte> theirs(kSize);
    Op out, in;
    t.post_recv(1 - rank, 1, {theirs}, {.deadline = soon()}, in.done());
    t.post_send(1 - rank, 1, {mine}, {.deadline = soon()}, out.done());
    in.get();
    out.get();
    EXPECT_EQ(std::memcmp(theirs.data(), pattern(kSize, 1 - rank).data(), kSize), 0);
    EXPECT_EQ(t.bytes_sent(), kSize);
  });
}

TEST_P(TransportTest, ThousandsOfSmallMessagesBetweenAll) {
  run(4, [](int rank, Transport& t) {
    constexpr int kCount = 2000;
    std::vector<Op> ops;
    ops.reserve(6 * kCount);
    std::vector<int> numbers(kCount);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<std::vector<int>> got(4, std::vector<int>(kCount, -1));
    for (int i = 0; i < kCount; ++i) {
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == rank) continue;
        t.post_send(peer, i, {std::as_bytes(std::span(&numbers[i], 1))}, {.deadline = soon()},
                    ops.emplace_back().done());
        t.post_recv(peer, i, {std::as_writable_bytes(std::span(&got[peer][i], 1))}, {.deadline = soon()},
                    ops.emplace_back().done());
      }
    }
    for (Op& op : ops) op.get();
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == rank) continue;
      EXPECT_EQ(got[peer], numbers);
    }
  });
}

TEST_P(TransportTest, CallbacksMayPost) {
  run(2, [](int rank, Transport& t) {
    std::promise<int> finished;
    std::byte token{};
    int turns = 0;
    // Passes one byte back and forth, each step posted by the callback of the one before.
    std::function<void(Result)> receive, reply;
    receive = [&](Result r) {
      if (r.error) return finished.set_value(-1);
      if (++turns == 500) {
        if (rank == 0) return finished.set_value(turns);
      }
      t.post_send(1 - rank, 1, {ConstBytes(&token, 1)}, {.deadline = soon()}, reply);
    };
    reply = [&](Result r) {
      if (r.error) return finished.set_value(-1);
      if (turns == 500) return finished.set_value(turns);
      t.post_recv(1 - rank, 1, {Bytes(&token, 1)}, {.deadline = soon()}, receive);
    };
    if (rank == 1) {
      t.post_recv(0, 1, {Bytes(&token, 1)}, {.deadline = soon()}, receive);
    } else {
      t.post_send(1, 1, {ConstBytes(&token, 1)}, {.deadline = soon()}, reply);
    }
    EXPECT_EQ(finished.get_future().get(), 500);
  });
}

TEST_P(TransportTest, ASizeMismatchFailsBothRanks) {
  run(2, [](int rank, Transport& t) {
    const auto [peer, text] = peer_error([&] {
      std::vector<std::byte> data(rank == 0 ? 100 : 60);
      if (rank == 0) {
        send(t, 1, 1, data, {.deadline = soon(), .what = "all-reduce of fc1.weight"});
        recv(t, 1, 2, {.deadline = soon()});
      } else {
        recv_into(t, 0, 1, data, {.deadline = soon(), .what = "all-reduce of fc1.weight"});
      }
    });
    EXPECT_EQ(peer, 0);
    EXPECT_THAT(text, AllOf(HasSubstr("60"), HasSubstr("100"), HasSubstr("fc1.weight"), HasSubstr("rank 0")));
  });
}

TEST_P(TransportTest, APassedDeadlineNamesPeerAndOperationEverywhere) {
  run(3, [](int rank, Transport& t) {
    const auto [peer, text] = peer_error([&] {
      if (rank == 0) recv(t, 2, 1, {.deadline = Deadline::after(0.2), .what = "all-reduce of fc1.weight"});
      recv(t, 0, 2, {.deadline = soon()});  // the others wait for rank 0, which fails first
    });
    EXPECT_EQ(peer, 2);
    EXPECT_THAT(text,
                AllOf(HasSubstr("rank 0 gave up after"), HasSubstr("all-reduce of fc1.weight, from rank 2")));
  });
}

TEST_P(TransportTest, LaterOperationsFailWithTheFirstError) {
  run(2, [&](int rank, Transport& t) {
    const auto once = [&](Tag tag) {
      return peer_error([&] { recv(t, 1 - rank, tag, {.deadline = Deadline::after(0.1)}); }).second;
    };
    const std::string first = once(1);
    EXPECT_EQ(once(2), first);
    EXPECT_EQ(peer_error([&] { send(t, 1 - rank, 3, as_bytes("x")); }).second, first);
  });
}

TEST_P(TransportTest, CloseWithAReasonReachesEveryone) {
  run(4, [](int rank, Transport& t) {
    if (rank == 2) {
      barrier(t, kControlTags, soon());
      return t.close("disk full");
    }
    const auto [peer, text] = peer_error([&] {
      barrier(t, kControlTags, soon());
      recv(t, (rank + 1) % 4, 1, {.deadline = soon()});
    });
    EXPECT_EQ(peer, 2);
    EXPECT_THAT(text, AllOf(HasSubstr("rank 2"), HasSubstr("disk full")));
  });
}

TEST_P(TransportTest, AnOrderlyCloseHurtsOnlyWhoStillNeedsThatRank) {
  run(3, [&](int rank, Transport& t) {
    Op from_any;  // rank 0 can still answer
    if (rank == 1) t.post_recv(kAnyPeer, 200, {}, {.deadline = soon()}, from_any.done());
    barrier(t, kControlTags, soon());
    if (rank == 2) return;
    for (Tag tag = 0; tag < 100; ++tag) {  // rank 2 is gone meanwhile
      if (rank == 0) send(t, 1, tag, as_bytes("x"), {.deadline = soon()});
      recv(t, 1 - rank, tag, {.deadline = soon()});
      if (rank == 1) send(t, 0, tag, as_bytes("y"), {.deadline = soon()});
    }
    if (rank == 1) {
      EXPECT_EQ(from_any.get().peer, 0);
    } else {
      send(t, 1, 200, as_bytes("x"), {.deadline = soon()});
      const auto [peer, text] = peer_error([&] { recv(t, 2, 1, {.deadline = soon(), .what = "a result"}); });
      EXPECT_EQ(peer, 2);
      EXPECT_THAT(text, AllOf(HasSubstr("rank 2 has ended"), HasSubstr("a result")));
    }
  });
}

TEST_P(TransportTest, WhatWasSentBeforeAnOrderlyCloseArrives) {
  run(2, [&](int rank, Transport& t) {
    const auto data = pattern(5'000'000, 1);
    if (rank == 0) {
      t.post_send(1, 1, {data}, {.deadline = soon()}, [](Result) {});
      t.close("");
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_TRUE(std::ranges::equal(recv(t, 0, 1, {.deadline = soon()}).bytes(), data));
    }
  });
}

TEST_P(TransportTest, WhatNobodyTakesHurtsNobodyWhenBothHaveClosed) {
  run(4, [&](int rank, Transport& t) {
    if (rank == 0) return t.post_send(1, 1, {as_bytes("x")}, {.deadline = soon()}, [](Result) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * rank));
    barrier_of_two(t, rank, 2, 3);
  });
}

TEST_P(TransportTest, WhereLossesAreToleratedTheOthersGoOn) {
  const std::vector<std::byte> large(1'000'000);
  run(3, [&](int rank, Transport& t) {
    t.tolerate_losses();
    Op untaken, from_any;
    if (rank == 0) t.post_send(2, 4, {large}, {.deadline = soon()}, untaken.done());
    barrier(t, kControlTags, soon());
    if (rank == 2) return t.close("disk full");
    if (rank == 0) t.post_recv(kAnyPeer, 8, {}, {.deadline = soon()}, from_any.done());
    const auto [peer, text] = peer_error([&] { recv(t, 2, 1, {.deadline = soon()}); });
    EXPECT_EQ(peer, 2);
    EXPECT_THAT(text, AllOf(HasSubstr("rank 2"), HasSubstr("disk full")));
    EXPECT_EQ(peer_error([&] { recv(t, 2, 2); }).second, text);  // at once: there is no deadline
    EXPECT_EQ(peer_error([&] { send(t, 2, 3, as_bytes("x")); }).second, text);
    EXPECT_GT(t.silence_s(2), 1e9);
    EXPECT_LT(t.silence_s(1 - rank), 1e9);
    for (Tag tag = 100; tag < 200; ++tag) {
      if (rank == 0) send(t, 1, tag, as_bytes("x"), {.deadline = soon()});
      recv(t, 1 - rank, tag, {.deadline = soon()});
      if (rank == 1) send(t, 0, tag, as_bytes("y"), {.deadline = soon()});
    }
    if (rank == 1) send(t, 0, 8, as_bytes("z"), {.deadline = soon()});
    if (rank == 0) {
      EXPECT_EQ(from_any.get().peer, 1);
      peer_error([&] { untaken.get(); });  // it has ended, in one way or the other
    }
  });
}

TEST_P(TransportTest, WhereLossesAreToleratedADeadlineEndsOnlyWhatNeedsThatPeer) {
  run(3, [&](int rank, Transport& t) {
    t.tolerate_losses();
    barrier(t, kControlTags, soon());
    Op later;
    std::string first;
    if (rank == 0) {
      t.post_recv(kAnyPeer, 9, {}, {.deadline = soon()}, later.done());
      // From any peer: nobody is to blame.
      EXPECT_EQ(peer_error([&] { recv(t, kAnyPeer, 1, {.deadline = Deadline::after(0.1)}); }).first,
                kAnyPeer);
      const auto [peer, text] = peer_error([&] { recv(t, 2, 1, {.deadline = Deadline::after(0.1)}); });
      EXPECT_EQ(peer, 2);
      EXPECT_THAT(text, HasSubstr("gave up after"));
      EXPECT_EQ(peer_error([&] { send(t, 2, 5, as_bytes("x")); }).second, text);
      first = text;
    }
    if (rank == 2) {
      EXPECT_EQ(peer_error([&] { recv(t, 0, 1, {.deadline = soon()}); }).first, 0);  // it is lost to 2, too
    }
    barrier_of_two(t, rank, 1, 2);
    barrier_of_two(t, rank, 0, 1);
    if (rank == 1) send(t, 0, 9, as_bytes("z"), {.deadline = soon()});
    if (rank == 0) {
      EXPECT_EQ(later.get().peer, 1);
      EXPECT_EQ(peer_error([&] { recv(t, 2, 6); }).second, first);  // whatever 2 has said since
    }
  });
}

TEST_P(TransportTest, WhereLossesAreToleratedWhatHadArrivedIsDeliveredAndNobodyLeftIsAnError) {
  run(3, [&](int rank, Transport& t) {
    t.tolerate_losses();
    barrier(t, kControlTags, soon());
    if (rank > 0) {
      t.post_send(0, 1, {as_bytes("last words")}, {}, [](Result) {});
      return;  // an orderly close
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(as_text(recv(t, kAnyPeer, 1, {.deadline = soon()}).bytes()), "last words");
    }
    EXPECT_THAT(peer_error([&] { recv(t, kAnyPeer, 1, {.deadline = soon()}); }).second,
                HasSubstr("all other ranks have ended"));
  });
}

TEST_P(TransportTest, ControlCollectives) {
  run(5, [](int rank, Transport& t) {
    for (int round = 0; round < 20; ++round) {
      barrier(t, kControlTags + 1, soon());
      const std::string mine = std::string(rank, 'a') + std::to_string(round);
      const auto all = gather(t, 3, mine, kControlTags + 2, soon());
      EXPECT_EQ(all.size(), rank == 3 ? 5u : 0u);
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::string(i, 'a') + std::to_string(round));
      EXPECT_EQ(broadcast(t, 2, mine, kControlTags + 3, soon()), "aa" + std::to_string(round));
    }
    EXPECT_THROW(barrier(t, 5, soon()), Error);
  });
}

TEST_P(TransportTest, ABroadcastIsOverForItsRootWhenAllHaveIt) {
  run(3, [](int rank, Transport& t) {
    const std::string text(size_t{4} << 20, 'x');
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::string got = broadcast(t, 2, rank == 2 ? text : "", kControlTags, soon());
    EXPECT_TRUE(got == text);
    got.assign(got.size(), '-');  // the root's own memory again
  });
}

TEST_P(TransportTest, RefusesNonsensePeers) {
  run(2, [](int rank, Transport& t) {
    EXPECT_THROW(send(t, rank, 1, {}), Error);
    try {
      send(t, 2, 1, {});
      ADD_FAILURE() << "sent to nobody";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("peers are the other ranks of 0..1"));
    }
    EXPECT_THROW(recv(t, -2, 1), Error);
  });
}

TEST_P(TransportTest, AWorldOfOneWorks) {
  run(1, [](int, Transport& t) {
    barrier(t, kControlTags, soon());
    EXPECT_EQ(broadcast(t, 0, "x", kControlTags, soon()), "x");
    EXPECT_EQ(gather(t, 0, "y", kControlTags, soon()), std::vector<std::string>{"y"});
  });
}

}  // namespace
}  // namespace entrain::transport
