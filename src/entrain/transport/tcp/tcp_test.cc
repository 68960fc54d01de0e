// What only tcp must do: survive strangers, name the dead, send what is urgent first.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/socket.h"
#include "entrain/transport/tcp/frame.h"
#include "entrain/transport/tcp/mesh.h"
#include "entrain/transport/tcp/tcp_rank.h"
#include "support/ranks.h"

namespace entrain::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(30); }

// Ranks 0 and 1 are real; rank 2 is the test itself, holding its two bare sockets.
struct HalfWorld {
  std::vector<std::unique_ptr<Transport>> ranks;
  std::vector<net::Fd> sockets;  // rank 2's, towards 0 and 1

  explicit HalfWorld(double timeout_s = 60) {
    const auto pair = [](std::vector<Peer>& a, int to_b, std::vector<Peer>& b, int to_a) {
      const net::Fd listener = net::listen_on({"127.0.0.1", 0});
      std::string error;
      const net::Endpoint endpoint = net::local_endpoint(listener);
      a[to_b] = {net::connect_to(endpoint, "127.0.0.1", soon(), error), endpoint, nullptr};
      b[to_a] = {net::accept_one(listener), endpoint, nullptr};
      net::tune_for_messages(a[to_b].socket);
      net::tune_for_messages(b[to_a].socket);
    };
    std::vector<Peer> zero(3), one(3), two(3);
    pair(zero, 1, one, 0);
    pair(zero, 2, two, 0);
    pair(one, 2, two, 1);
    ranks.push_back(std::make_unique<TcpRank>(0, std::move(zero), 0, timeout_s));
    ranks.push_back(std::make_unique<TcpRank>(1, std::move(one), 0, timeout_s));
    sockets.push_back(std::move(two[0].socket));
    sockets.push_back(std::move(two[1].socket));
  }
};

// Both real ranks must blame rank 2, whomever they were waiting for.
void expect_both_blame_rank_2(HalfWorld& world, const std::string& text) {
  testing::run_ranks(std::move(world.ranks), [&](int rank, Transport& t) {
    try {
      recv(t, rank == 0 ? 2 : 0, 5, {.deadline = soon(), .what = "all-reduce of fc1.weight"});
      FAIL() << "rank " << rank << " received something";
    } catch (const PeerError& e) {
      EXPECT_EQ(e.peer(), 2) << e.what();
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 2"), HasSubstr(text)));
    }
  });
}

TEST(Tcp, APeerThatVanishesIsNamedByAll) {
  HalfWorld world;
  world.sockets.clear();
  expect_both_blame_rank_2(world, "closed the connection");
}

TEST(Tcp, APeerThatIsResetIsNamedByAll) {
  HalfWorld world;
  for (net::Fd& socket : world.sockets) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket.reset();
  }
  expect_both_blame_rank_2(world, "rank 2");
}

TEST(Tcp, APeerThatBreaksTheProtocolIsNamedByAll) {
  HalfWorld world;
  const std::string junk(1000, '\x55');
  ::send(world.sockets[0].get(), junk.data(), junk.size(), MSG_NOSIGNAL);
  expect_both_blame_rank_2(world, "broke the protocol");
}

TEST(Tcp, AMessageThatFitsNoMemoryIsRefused) {
  HalfWorld world;
  const auto wire = FrameHeader{FrameType::kData, 5, uint64_t{1} << 60}.encode();
  ::send(world.sockets[0].get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  expect_both_blame_rank_2(world, "cannot hold");
}

TEST(Tcp, APeerThatDiesInTheMiddleOfAMessageIsNamed) {
  HalfWorld world;
  const auto wire = FrameHeader{FrameType::kData, 5, 1'000'000}.encode();
  ::send(world.sockets[0].get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  ::shutdown(world.sockets[0].get(), SHUT_WR);
  expect_both_blame_rank_2(world, "closed the connection");
}

TEST(Tcp, AnAbortIsBelievedOverTheEndOfFileThatFollows) {
  HalfWorld world;
  const std::string reason = "rank 7 has no disk";
  const auto wire = FrameHeader{FrameType::kAbort, 7, reason.size()}.encode();
  ::send(world.sockets[1].get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  ::send(world.sockets[1].get(), reason.data(), reason.size(), MSG_NOSIGNAL);
  world.sockets[1].reset();
  testing::run_ranks(std::move(world.ranks), [&](int, Transport& t) {
    try {
      recv(t, kAnyPeer, 5, {.deadline = soon()});
    } catch (const PeerError& e) {
      EXPECT_EQ(e.peer(), 7);
      EXPECT_EQ(e.what(), reason);
    }
  });
}

void tolerate(HalfWorld& world) {
  for (auto& rank : world.ranks) rank->tolerate_losses();
}

// Where losses are tolerated ranks 0 and 1 must lose rank 2, and go on with each other.
void expect_both_go_on(HalfWorld& world, const std::string& text) {
  testing::run_ranks(std::move(world.ranks), [&](int rank, Transport& t) {
    std::vector<std::byte> into(1'000'000);  // what rank 2 may have begun to send
    std::promise<Result> from_any;
    t.post_recv(kAnyPeer, 5, {into}, {.deadline = soon()},
                [&](Result r) { from_any.set_value(std::move(r)); });
    try {
      recv(t, 2, 6, {.deadline = soon()});
      FAIL() << "rank " << rank << " received something";
    } catch (const PeerError& e) {
      EXPECT_EQ(e.peer(), 2) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
    EXPECT_THROW(send(t, 2, 6, {}), PeerError);
    const std::vector<std::byte> mine(into.size(), std::byte{7});
    send(t, 1 - rank, 5, mine, {.deadline = soon()});
    const Result result = from_any.get_future().get();
    EXPECT_EQ(result.peer, 1 - rank);
    EXPECT_FALSE(result.error);
    EXPECT_EQ(into, mine);
    send(t, 1 - rank, 9, {}, {.deadline = soon()});
    recv(t, 1 - rank, 9, {.deadline = soon()});
  });
}

TEST(Tcp, WhereLossesAreToleratedAPeerThatVanishesIsDropped) {
  HalfWorld world;
  tolerate(world);
  world.sockets.clear();
  expect_both_go_on(world, "closed the connection");
}

TEST(Tcp, WhereLossesAreToleratedAMessageCutShortIsForgotten) {
  HalfWorld world;
  tolerate(world);
  const auto wire = FrameHeader{FrameType::kData, 5, 1'000'000}.encode();
  for (net::Fd& socket : world.sockets) {
    ::send(socket.get(), wire.data(), wire.size(), MSG_NOSIGNAL);
    ::send(socket.get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world.sockets.clear();
  expect_both_go_on(world, "closed the connection");
}

TEST(Tcp, WhereLossesAreToleratedAnAbortLosesOnlyWhoSentIt) {
  HalfWorld world;
  tolerate(world);
  const std::string reason = "rank 1 is cut off";
  const auto wire = FrameHeader{FrameType::kAbort, 1, reason.size()}.encode();
  for (net::Fd& socket : world.sockets) {
    ::send(socket.get(), wire.data(), wire.size(), MSG_NOSIGNAL);
    ::send(socket.get(), reason.data(), reason.size(), MSG_NOSIGNAL);
  }
  expect_both_go_on(world, reason);
}

TEST(Tcp, ARankThatHasNothingToSayPingsOncePerSecond) {
  HalfWorld world;
  const Deadline end = Deadline::after(2.5);
  std::string error;
  FrameHeader::Wire wire;
  int pings = 0;
  while (pings < 10 && net::read_fully(world.sockets[0], wire.data(), wire.size(), end, error)) {
    const auto header = FrameHeader::decode(wire.data());
    ASSERT_TRUE(header && header->type == FrameType::kPing);
    EXPECT_EQ(header->length, 0u);
    ++pings;
  }
  EXPECT_GE(pings, 1);
  EXPECT_LE(pings, 3);
}

TEST(Tcp, APeerThatSaysNothingAtAllIsBlamedWhoeverIsWaitedFor) {
  HalfWorld world;  // rank 2 sends no pings
  try {
    recv(*world.ranks[0], 1, 5, {.deadline = Deadline::after(4), .what = "all-reduce of fc1.weight"});
    FAIL() << "received something";
  } catch (const PeerError& e) {
    EXPECT_EQ(e.peer(), 2) << e.what();
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 2"), HasSubstr("has been silent for 4 s"),
                                HasSubstr("fc1.weight, from rank 1")));
  }
}

TEST(Tcp, APeerThatIsSilentIsNamedInTheLogAndGivenUpAfterTheTimeout) {
  ::testing::internal::CaptureStderr();
  init_logging(-1);
  HalfWorld world(6);
  expect_both_blame_rank_2(world, "has been silent for 6 s");  // no receive has a deadline as short
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told,
              AllOf(HasSubstr("rank 2"), HasSubstr("has been silent for 4 s; it is given up after 6 s")));
  EXPECT_EQ(told.find("silent"), told.rfind("silent")) << told;  // one rank tells
}

TEST(Tcp, APeerThatPausesWithAFullWindowIsWaitedFor) {
  HalfWorld world;
  std::vector<std::byte> sent(32 << 20, std::byte{7});
  std::promise<Result> promise;
  world.ranks[0]->post_send(2, 5, {sent}, {}, [&](Result r) { promise.set_value(std::move(r)); });
  // Nobody reads for longer than it takes to call a peer silent.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  std::string error;
  FrameHeader::Wire wire;
  ASSERT_TRUE(net::read_fully(world.sockets[0], wire.data(), wire.size(), soon(), error)) << error;
  std::vector<std::byte> got(sent.size());
  ASSERT_TRUE(net::read_fully(world.sockets[0], got.data(), got.size(), soon(), error)) << error;
  EXPECT_TRUE(got == sent);
  EXPECT_FALSE(promise.get_future().get().error);
  world.sockets.clear();
  for (auto& rank : world.ranks) rank->close("it is over");
}

TEST(Tcp, WhereLossesAreToleratedALeavingRankWaitsForNoSilentPeer) {
  HalfWorld world(1e6);
  tolerate(world);
  const std::vector<std::byte> much(size_t{32} << 20);
  world.ranks[0]->post_send(2, 5, {much}, {}, [](Result) {});  // rank 2 reads nothing
  for (auto& rank : world.ranks) rank->close("");              // never ends otherwise
}

// How fast it is shows in benchmarks; that it is no faster, here.
TEST(Tcp, AShapedLinkKeepsToItsRateAndServesAllPeers) {
  constexpr int kRanks = 4;
  constexpr double kGbit = 0.4;
  const std::vector<std::byte> mine(2'000'000, std::byte{3});
  const auto start = Clock::now();
  testing::run_ranks(testing::make_tcp(kRanks, kGbit), [&](int rank, Transport& t) {
    for (int round = 1; round < kRanks; ++round) {
      t.post_send((rank + round) % kRanks, 1, {mine}, {.deadline = soon()}, [](Result) {});
    }
    for (int round = 1; round < kRanks; ++round) {
      const Payload theirs = recv(t, (rank + round) % kRanks, 1, {.deadline = soon()});
      EXPECT_TRUE(std::ranges::equal(theirs.bytes(), mine));
    }
  });
  const double bytes = static_cast<double>((kRanks - 1) * mine.size());
  EXPECT_GT(seconds_since(start), 0.9 * bytes / (kGbit * 1e9 / 8));
}

TEST(Tcp, UrgentMessagesOvertakeQueuedOnes) {
  // Rank 2 does not read, so that a queue builds up; then reads all and looks at the order.
  HalfWorld world;
  const std::vector<std::byte> large(size_t{32} << 20);
  std::vector<std::future<Result>> results;
  const auto post = [&](Tag tag, ConstBytes data, int priority) {
    auto promise = std::make_shared<std::promise<Result>>();
    results.push_back(promise->get_future());
    world.ranks[0]->post_send(2, tag, {data}, {.priority = priority, .deadline = soon()},
                              [promise](Result r) { promise->set_value(std::move(r)); });
  };
  post(1, large, 0);
  std::string error;
  FrameHeader::Wire wire;
  ASSERT_TRUE(net::read_fully(world.sockets[0], wire.data(), wire.size(), soon(), error));  // 1 is under way
  for (Tag tag = 2; tag < 6; ++tag) post(tag, large, 5);
  post(6, ConstBytes(large).first(10), 1);
  post(7, ConstBytes(large).first(10), 1);
  const auto next_message = [&] {  // passes over pings
    do {
      if (!net::read_fully(world.sockets[0], wire.data(), wire.size(), soon(), error)) return false;
    } while (FrameHeader::decode(wire.data())->type == FrameType::kPing);
    return true;
  };
  std::vector<Tag> order{1};
  std::vector<std::byte> buffer(large.size());
  for (int i = 0; i < 7; ++i) {
    const auto header = FrameHeader::decode(wire.data());
    ASSERT_TRUE(header);
    ASSERT_TRUE(net::read_fully(world.sockets[0], buffer.data(), header->length, soon(), error));
    if (i == 6) break;
    ASSERT_TRUE(next_message());
    order.push_back(FrameHeader::decode(wire.data())->tag);
  }
  EXPECT_EQ(order, (std::vector<Tag>{1, 6, 7, 2, 3, 4, 5}));
  for (auto& result : results) EXPECT_FALSE(result.get().error);
  for (auto& rank : world.ranks) rank->close("");
}

// A socket that is closed too early answers what still comes with a reset, which destroys what is unread.
TEST(Tcp, ALateReaderGetsAllThatWasSentBeforeTheClose) {
  HalfWorld world;
  std::vector<std::byte> data(120'000);
  const int window = 32768;  // so that most of it stays at the sender
  ::setsockopt(world.sockets[0].get(), SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
  world.ranks[0]->post_send(2, 5, {data}, {}, [](Result) {});
  std::thread close([&] { world.ranks[0]->close(""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto ping = FrameHeader{FrameType::kPing, 0, 0}.encode();
  ::send(world.sockets[0].get(), ping.data(), ping.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::string error;
  FrameHeader::Wire wire;
  EXPECT_TRUE(net::read_fully(world.sockets[0], wire.data(), wire.size(), soon(), error)) << error;
  EXPECT_TRUE(net::read_fully(world.sockets[0], data.data(), data.size(), soon(), error)) << error;
  EXPECT_TRUE(net::read_fully(world.sockets[0], wire.data(), wire.size(), soon(), error)) << error;
  EXPECT_EQ(FrameHeader::decode(wire.data())->type, FrameType::kGoodbye);
  world.sockets.clear();
  world.ranks[1]->close("");
  close.join();
}

TEST(Tcp, CloseEndsReceivesThatAreUnderWay) {
  HalfWorld world;
  const auto wire = FrameHeader{FrameType::kData, 5, 1'000'000}.encode();
  std::vector<std::byte> into(1'000'000);
  std::promise<Result> promise;
  world.ranks[0]->post_recv(2, 5, {into}, {.deadline = soon()},
                            [&](Result r) { promise.set_value(std::move(r)); });
  ::send(world.sockets[0].get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world.ranks[0]->close("");
  EXPECT_TRUE(promise.get_future().get().error);
  world.ranks[1]->close("");
}

}  // namespace
}  // namespace entrain::transport
