// Addresses, numbers on the wire, and who is let in.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/handshake.h"
#include "entrain/net/wire.h"

namespace entrain::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(30); }

TEST(Endpoint, IsReadAsItIsWritten) {
  for (const char* text : {"10.0.0.3:4411", "[fe80::1]:4411", "node7:1", "node7:65535"}) {
    EXPECT_EQ(parse_endpoint(text, "field").text(), text);
  }
  EXPECT_EQ(parse_endpoint("[fe80::1]:4411", "field").address, "fe80::1");
  EXPECT_EQ(parse_endpoint("[fe80::1]:4411", "field").port, 4411);
}

TEST(Endpoint, NonsenseIsNamedWithItsField) {
  for (const char* text : {"", "nowhere", ":4411", "a:", "a:0", "a:65536", "a:-1", "a:12x", "[]:4411"}) {
    try {
      parse_endpoint(text, "ENTRAIN_RENDEZVOUS");
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("ENTRAIN_RENDEZVOUS"), HasSubstr(text), HasSubstr("1 to 65535")));
    }
  }
}

TEST(Wire, NumbersAreLittleEndian) {
  std::string out;
  put_u32(out, 0x8070605fU);
  EXPECT_EQ(out, std::string("\x5f\x60\x70\x80"));
  EXPECT_EQ(get_u32(out.data()), 0x8070605fU);
  char bytes[8];
  store_le(bytes, 0xfedcba9876543210U, 8);
  EXPECT_EQ(bytes[0], 0x10);
  EXPECT_EQ(load_le(bytes, 8), 0xfedcba9876543210U);
}

TEST(Socket, WholeMessagesOrTheReasonWhyNot) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  std::string error;
  const Fd client = connect_to(local_endpoint(listener), "127.0.0.1", soon(), error);
  ASSERT_TRUE(client) << error;
  Fd server = accept_one(listener);
  ASSERT_TRUE(server);
  EXPECT_EQ(remote_endpoint(server).text(), local_endpoint(client).text());
  ASSERT_TRUE(write_fully(client, "whole", 5, soon(), error)) << error;
  std::string text(5, ' ');
  ASSERT_TRUE(read_fully(server, text.data(), text.size(), soon(), error)) << error;
  EXPECT_EQ(text, "whole");
  EXPECT_FALSE(read_fully(server, text.data(), text.size(), Deadline::after(0.05), error));
  EXPECT_THAT(error, HasSubstr("in time"));
  server.reset();
  EXPECT_FALSE(server);
  EXPECT_FALSE(read_fully(client, text.data(), text.size(), soon(), error));
  EXPECT_FALSE(error.empty());
}

// Two ends of a connection.
struct Ends {
  Fd client, server;
};

Ends connected(const Fd& listener) {
  std::string error;
  Ends ends;
  ends.client = connect_to(local_endpoint(listener), "127.0.0.1", soon(), error);
  EXPECT_TRUE(ends.client) << error;
  ends.server = accept_one(listener);
  EXPECT_TRUE(ends.server);
  return ends;
}

// Hangs up so that the other end reads a failure, not an end of file.
void hang_up_rudely(Fd& socket) {
  const linger rude{1, 0};
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &rude, sizeof rude), 0);
  socket.reset();
}

TEST(Socket, WhatComesInPiecesIsReadWhole) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends ends = connected(listener);
  const std::string sent = "in pieces";
  auto writer = std::async(std::launch::async, [&] {
    for (const char c : sent) {
      std::string error;
      if (!write_fully(ends.client, &c, 1, soon(), error)) return error;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return std::string();
  });
  std::string text(sent.size(), ' '), error;
  EXPECT_TRUE(read_fully(ends.server, text.data(), text.size(), soon(), error)) << error;
  EXPECT_EQ(text, sent);
  EXPECT_EQ(writer.get(), "");
}

TEST(Socket, MoreThanItsBuffersHoldIsWrittenWhole) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends ends = connected(listener);
  std::string sent(16 << 20, ' ');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 8);
  auto writer = std::async(std::launch::async, [&] {
    std::string error;
    write_fully(ends.client, sent.data(), sent.size(), soon(), error);
    return error;
  });
  std::string text(sent.size(), ' '), error;
  EXPECT_TRUE(read_fully(ends.server, text.data(), text.size(), soon(), error)) << error;
  EXPECT_TRUE(text == sent);
  EXPECT_EQ(writer.get(), "");
}

TEST(Socket, AWriteThatNobodyReadsEndsInTime) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends ends = connected(listener);
  const std::string much(64 << 20, ' ');
  std::string error;
  EXPECT_FALSE(write_fully(ends.client, much.data(), much.size(), Deadline::after(0.05), error));
  EXPECT_THAT(error, HasSubstr("in time"));
}

TEST(Socket, APeerThatIsGoneFailsReadsAndWritesWithTheReason) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  Ends ends = connected(listener);
  hang_up_rudely(ends.client);
  std::string error, text(5, ' ');
  EXPECT_FALSE(read_fully(ends.server, text.data(), text.size(), soon(), error));
  EXPECT_THAT(error, HasSubstr("reset by peer"));
  error.clear();
  EXPECT_FALSE(write_fully(ends.server, text.data(), text.size(), soon(), error));
  EXPECT_FALSE(error.empty());
}

TEST(Socket, ARefusedConnectionSaysSo) {
  Fd listener = listen_on({"127.0.0.1", 0});
  const Endpoint nobody = local_endpoint(listener);
  listener.reset();
  std::string error;
  EXPECT_FALSE(connect_to(nobody, "127.0.0.1", soon(), error));
  EXPECT_THAT(error, HasSubstr("refused"));
}

TEST(Socket, ANameThatDoesNotResolveYetIsAReasonToTryAgain) {
  std::string error;
  EXPECT_FALSE(connect_to({"rank-0.invalid", 4411}, "127.0.0.1", soon(), error));
  EXPECT_THAT(error, HasSubstr("cannot resolve the address rank-0.invalid:4411"));
}

TEST(Socket, TheFileLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{before.rlim_max / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(raise_file_limit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

TEST(Socket, SeveralConnectionsLeaveFromOneAddress) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends first = connected(listener), second = connected(listener);
  EXPECT_NE(local_endpoint(first.client).port, local_endpoint(second.client).port);
}

TEST(Socket, APortOfAnEndedJobIsListenedOnAgainAtOnce) {
  const Endpoint endpoint = local_endpoint(listen_on({"127.0.0.1", 0}));
  for (int job = 0; job < 3; ++job) {
    Fd listener = listen_on(endpoint);
    Ends ends = connected(listener);
    ends.server.reset();  // this end hangs up first: the system remembers the connection for a while
  }
}

TEST(Socket, SignalsNeitherFailAWaitNorMakeItEndless) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART: poll() returns
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends ends = connected(listener);
  for (const bool answered : {true, false}) {
    std::string error;
    bool read = false;
    std::atomic<bool> ended = false;
    std::thread reader([&] {
      char c = 0;
      read = read_fully(ends.server, &c, 1, answered ? soon() : Deadline::after(0.2), error);
      ended = true;
    });
    for (int i = 0; i < 50 && !ended; ++i) {
      ::pthread_kill(reader.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::string unsent;
    if (answered) {
      EXPECT_TRUE(write_fully(ends.client, "x", 1, soon(), unsent)) << unsent;
    }
    reader.join();
    EXPECT_EQ(read, answered) << error;
    if (!answered) {
      EXPECT_THAT(error, HasSubstr("in time"));
    }
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(Socket, DescriptorZeroIsClosedAsAnyOther) {  // it is a socket's where a daemon has closed its input
  const int input = ::dup(0);
  ::close(0);
  Fd zero(::open("/dev/null", O_RDONLY));
  EXPECT_EQ(zero.get(), 0);
  zero.reset();
  EXPECT_EQ(::fcntl(0, F_GETFD), -1);
  if (input >= 0) ::dup2(input, 0), ::close(input);
}

int option(const Fd& socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &size), 0);
  return value;
}

TEST(Socket, TunedForMessagesGivesNobodyUp) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  const Ends ends = connected(listener);
  tune_for_messages(ends.client);
  const auto tcp = [&](int name) { return option(ends.client, IPPROTO_TCP, name); };
  EXPECT_EQ(option(ends.client, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_GE(tcp(TCP_USER_TIMEOUT), 3600 * 1000);  // unacknowledged, or acknowledged by a full window
  EXPECT_NE(tcp(TCP_NODELAY), 0);
  EXPECT_GE(tcp(TCP_NOTSENT_LOWAT), 64 << 10);  // a fast link has a packet of the largest size to send
}

TEST(Handshake, AProofForOneListenerOpensNoOther) {
  // A client that means rank 1 must not be let in by rank 0.
  HandshakeListener door(listen_on({"127.0.0.1", 0}), 0, 3, "token");
  const Endpoint endpoint = local_endpoint(door.listener());
  const auto try_as = [&](int server) {
    auto client = std::async(std::launch::async, [&, server] {
      std::string error;
      const Fd socket = connect_to(endpoint, "127.0.0.1", soon(), error);
      try {
        introduce(socket, {server, 2, 3}, "token", soon(), "the door");
      } catch (const Error&) {
        return false;
      }
      return true;
    });
    int guest = -1;
    while (client.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      door.serve([&](Fd, int rank, int) { guest = rank; });
    }
    return client.get() ? guest : -1;
  };
  EXPECT_EQ(try_as(1), -1);
  EXPECT_EQ(try_as(0), 2);
}

// A listener of rank 0 in a world of three, and what it has been told.
struct Door {
  HandshakeListener listener{listen_on({"127.0.0.1", 0}), 0, 3, "token"};
  std::vector<std::pair<int, int>> guests;  // rank, world
  std::vector<Fd> sockets;

  void serve() {
    listener.serve([&](Fd socket, int rank, int world) {
      guests.emplace_back(rank, world);
      sockets.push_back(std::move(socket));
    });
  }
  template <typename Done>
  void serve_until(const Done& done) {
    for (const Deadline limit = soon(); !done() && !limit.passed();) {
      serve();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(done());
  }
  Fd knock() {
    std::string error;
    return connect_to(local_endpoint(listener.listener()), "127.0.0.1", soon(), error);
  }
  size_t pending() const {
    std::vector<pollfd> entries;
    listener.watch(entries);
    return entries.size() - 1;
  }
  // As a client with this token and world: what it was told, or nothing when it was let in.
  std::future<std::string> guest(int rank, const std::string& token = "token", int world = 3) {
    return std::async(std::launch::async, [this, rank, token, world]() -> std::string {
      const Fd socket = knock();
      try {
        introduce(socket, {0, rank, world}, token, soon(), "the door");
      } catch (const Error& e) {
        return e.what();
      }
      return "";
    });
  }
};

bool ended(const std::future<std::string>& guest) {
  return guest.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST(Handshake, WhoeverHangsUpIsForgottenAtOnce) {
  for (const bool rudely : {false, true}) {
    Door door;
    Fd stranger = door.knock();
    door.serve();
    ASSERT_EQ(door.pending(), 1U);
    if (rudely) {
      hang_up_rudely(stranger);
    } else {
      std::string challenge(40, ' '), error;
      EXPECT_TRUE(read_fully(stranger, challenge.data(), challenge.size(), soon(), error)) << error;
      stranger.reset();
    }
    door.serve();
    EXPECT_EQ(door.pending(), 0U) << rudely;
  }
}

TEST(Handshake, SilentStrangersKeepNobodyOut) {
  Door door;
  std::vector<Fd> strangers;
  for (int i = 0; i < 3; ++i) strangers.push_back(door.knock());
  door.serve();
  auto guest = door.guest(2);
  door.serve_until([&] { return ended(guest); });
  EXPECT_EQ(guest.get(), "");
  EXPECT_EQ(door.guests, (std::vector<std::pair<int, int>>{{2, 3}}));
  EXPECT_EQ(door.pending(), 3U);
}

TEST(Handshake, ARankThatLostItsPlaceTriesAgain) {
  Door door;
  auto guest = std::async(std::launch::async, [&] {
    return reach(local_endpoint(door.listener.listener()), "127.0.0.1", {0, 2, 3}, "token",
                 Refused::kTryAgain, soon(), "the door");
  });
  for (int lost = 0; lost < 3;) lost += accept_one(door.listener.listener()) ? 1 : 0;  // closed before a word
  door.serve_until([&] { return !door.guests.empty(); });
  EXPECT_TRUE(guest.get());
  EXPECT_EQ(door.guests, (std::vector<std::pair<int, int>>{{2, 3}}));
}

TEST(Handshake, AWrongTokenIsToldAndNotTriedAgain) {
  Door door;
  auto guest = std::async(std::launch::async, [&]() -> std::string {
    try {
      reach(local_endpoint(door.listener.listener()), "127.0.0.1", {0, 2, 3}, "a guess", Refused::kTryAgain,
            Deadline::never(), "the door");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  });
  door.serve_until([&] { return guest.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  EXPECT_THAT(guest.get(), AllOf(HasSubstr("rank 2"), HasSubstr("the job tokens differ")));
}

TEST(Handshake, ACrowdLargerThanIsHeldKeepsNobodyOut) {
  Door door;
  std::vector<Fd> crowd;
  for (int i = 0; i < 600; ++i) crowd.push_back(door.knock());
  auto guest = door.guest(2);
  door.serve_until([&] { return ended(guest); });
  EXPECT_EQ(guest.get(), "");
  EXPECT_LT(door.pending(), crowd.size());
}

TEST(Handshake, AHelloMayComeByteByByte) {
  Door door;
  const Fd relay_listener = listen_on({"127.0.0.1", 0});
  auto guest = std::async(std::launch::async, [&]() -> std::string {
    std::string error;
    const Fd socket = connect_to(local_endpoint(relay_listener), "127.0.0.1", soon(), error);
    try {
      introduce(socket, {0, 1, 3}, "token", soon(), "the door");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  });
  // In between: passes every byte on by itself, both ways.
  Fd client, server = door.knock();
  door.serve_until([&] {
    char c = 0;
    if (!client) client = accept_one(relay_listener);
    if (client && ::recv(client.get(), &c, 1, 0) == 1) ::send(server.get(), &c, 1, 0);
    while (client && ::recv(server.get(), &c, 1, 0) == 1) ::send(client.get(), &c, 1, 0);
    return ended(guest);
  });
  EXPECT_EQ(guest.get(), "");
  EXPECT_EQ(door.guests, (std::vector<std::pair<int, int>>{{1, 3}}));
}

TEST(Handshake, WorldsThatDifferAreToldToBothSides) {
  Door door;
  auto guest = door.guest(1, "token", 5);
  door.serve_until([&] { return ended(guest); });
  const std::string told = guest.get();
  EXPECT_THAT(told, AllOf(HasSubstr("world of 5"), HasSubstr("counts 3")));
  EXPECT_EQ(door.guests, (std::vector<std::pair<int, int>>{{1, 5}}));
}

TEST(Handshake, OneThatWouldNotEncryptIsRefusedByName) {
  Door door;  // which does not
  auto guest = std::async(std::launch::async, [&]() -> std::string {
    const Fd socket = door.knock();
    try {
      introduce(socket, {0, 1, 3, Encryption::kAlways}, "token", soon(), "the door");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  });
  door.serve_until([&] { return ended(guest); });
  EXPECT_THAT(guest.get(), AllOf(HasSubstr("rank 1 encrypts"), HasSubstr("ENTRAIN_TLS")));
  EXPECT_TRUE(door.guests.empty());
}

TEST(Handshake, StrangersAreReportedOnceAndGuestsNever) {
  Door door;
  ::testing::internal::CaptureStderr();
  init_logging(-1);
  auto first = door.guest(1);
  door.serve_until([&] { return ended(first); });
  const std::string quiet = ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    auto stranger = door.guest(1, "another token");
    door.serve_until([&] { return ended(stranger); });
    EXPECT_NE(stranger.get(), "");
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(quiet, "");
  const size_t at = told.find("did not prove the job token");
  EXPECT_NE(at, std::string::npos) << told;
  EXPECT_EQ(told.find("did not prove the job token", at + 1), std::string::npos) << told;
}

TEST(Handshake, ASilentStrangerIsLookedAtAgainBeforeItsTimeIsUp) {
  Door door;
  std::vector<pollfd> entries;
  const int alone = door.listener.watch(entries);
  const Fd stranger = door.knock();
  door.serve();
  const int with_stranger = door.listener.watch(entries);
  EXPECT_LT(with_stranger, alone);
  EXPECT_LE(with_stranger, 3000);
}

}  // namespace
}  // namespace entrain::net
