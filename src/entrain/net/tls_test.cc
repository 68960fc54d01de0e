// TLS between two ranks: what comes through, and what does not.
#include "entrain/net/tls.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <future>

#include "entrain/base/error.h"

namespace entrain::net {
namespace {

using ::testing::HasSubstr;

constexpr const char* kToken = "the job's token";
constexpr Introduction kRank3To1{1, 3, 8};

Deadline soon() { return Deadline::after(20); }

struct Sockets {
  Sockets() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    left = Fd(fds[0]), right = Fd(fds[1]);
  }
  Fd left, right;
};

struct End {
  End(const Fd& fd, Side side, const Introduction& who = kRank3To1, const std::string& token = kToken)
      : socket(fd), channel(fd, side, who, token) {}

  // The handshake on another thread: the error's text, or "".
  std::future<std::string> handshake() {
    return std::async(std::launch::async, [this]() -> std::string {
      try {
        shake_hands({{&channel, &socket, 0}}, soon());
      } catch (const Error& e) {
        ::shutdown(socket.get(), SHUT_RDWR);
        return e.what();
      }
      return "";
    });
  }
  // All of it, waiting.
  void write(std::string_view text) {
    do {
      const iovec piece{const_cast<char*>(text.data()), text.size()};
      const ssize_t n = channel.send(&piece, text.empty() ? 0 : 1);
      if (n > 0) text.remove_prefix(static_cast<size_t>(n));
      if (n < 0 || channel.holds_unsent()) wait(POLLOUT);
    } while (!text.empty() || channel.holds_unsent());
  }
  // What comes until there are `size` bytes, an end or an error, which `error` then says.
  std::string read(size_t size) {
    std::string text;
    while (text.size() < size) {
      char buffer[5000];
      const iovec pieces[] = {{buffer, 7}, {buffer + 7, std::min(sizeof buffer, size - text.size() + 7) - 7}};
      const ssize_t n = channel.receive(pieces, 2);
      error = n < 0 ? errno : 0;
      if (n == 0 || (n < 0 && errno != EAGAIN)) break;
      if (n > 0) text.append(buffer, static_cast<size_t>(n));
      if (n < 0) wait(POLLIN);
    }
    return text;
  }
  void wait(short events) {
    pollfd entry{socket.get(), events, 0};
    ASSERT_GT(::poll(&entry, 1, 20'000), 0);
  }

  const Fd& socket;
  TlsChannel channel;
  int error = 0;
};

std::string of_size(size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 >> 5);
  return text;
}

TEST(Tls, WhatIsSentArrivesBothWays) {
  const Sockets sockets;
  End three(sockets.left, Side::kDialled), one(sockets.right, Side::kListened);
  auto a = three.handshake(), b = one.handshake();
  ASSERT_EQ(a.get() + b.get(), "");
  for (const size_t size : {1, 100, 16384, 16385, 3'000'000}) {
    const std::string text = of_size(size);
    auto there = std::async(std::launch::async, [&] { three.write(text); });
    EXPECT_TRUE(one.read(size) == text) << size;
    there.get();
    auto back = std::async(std::launch::async, [&] { one.write(text); });
    EXPECT_TRUE(three.read(size) == text) << size;
    back.get();
  }
}

TEST(Tls, AnotherTokenOrAnotherPairOfRanksIsRefused) {
  for (const auto& [who, token] : {std::pair(kRank3To1, "a guess"),
                                   {Introduction{1, 2, 8}, kToken},
                                   {Introduction{3, 1, 8}, kToken},
                                   {Introduction{1, 3, 9}, kToken}}) {
    const Sockets sockets;
    End three(sockets.left, Side::kDialled), one(sockets.right, Side::kListened, who, token);
    auto a = three.handshake(), b = one.handshake();
    EXPECT_THAT(a.get(), HasSubstr("TLS failed"));
    EXPECT_THAT(b.get(), HasSubstr("TLS failed"));
  }
}

TEST(Tls, APlainPeerIsRefused) {
  const Sockets sockets;
  End three(sockets.left, Side::kDialled);
  auto a = three.handshake();
  const std::string frames(1000, '\4');
  ASSERT_GT(::send(sockets.right.get(), frames.data(), frames.size(), MSG_NOSIGNAL), 0);
  EXPECT_THAT(a.get(), HasSubstr("TLS failed"));
}

TEST(Tls, ItsOwnWordsThrownBackAreRefused) {
  const Sockets sockets;
  End three(sockets.left, Side::kDialled);
  auto a = three.handshake();
  pollfd entry{sockets.right.get(), POLLIN, 0};
  ASSERT_GT(::poll(&entry, 1, 20'000), 0);
  char hello[4096];
  const ssize_t n = ::recv(sockets.right.get(), hello, sizeof hello, 0);
  ASSERT_EQ(::send(sockets.right.get(), hello, static_cast<size_t>(n), MSG_NOSIGNAL), n);
  EXPECT_THAT(a.get(), HasSubstr("TLS failed"));
}

// In between: passes on what `change` makes of a message that came whole.
enum class Change { kNone, kFlip, kDrop, kRepeat, kSwap, kCut };

std::string tampered(std::string bytes, Change change) {
  const size_t half = bytes.size() / 2;  // two records of one size
  if (change == Change::kFlip) bytes[half + 50] ^= 1;
  if (change == Change::kDrop) bytes.erase(0, half);
  if (change == Change::kRepeat) bytes.insert(half, bytes.substr(0, half));
  if (change == Change::kSwap) bytes = bytes.substr(half) + bytes.substr(0, half);
  if (change == Change::kCut) bytes.resize(bytes.size() - 10);
  return bytes;
}

TEST(Tls, WhatWasChangedOnItsWayIsNeverRead) {
  for (const Change change :
       {Change::kNone, Change::kFlip, Change::kDrop, Change::kRepeat, Change::kSwap, Change::kCut}) {
    const Sockets sockets;
    End three(sockets.left, Side::kDialled), one(sockets.right, Side::kListened);
    auto a = three.handshake(), b = one.handshake();
    ASSERT_EQ(a.get() + b.get(), "");
    const std::string first(1000, 'a'), second(1000, 'b');
    three.write(first), three.write(second);
    char raw[5000];  // taken from the line before rank 1 sees it
    const ssize_t n = ::recv(sockets.right.get(), raw, sizeof raw, 0);
    ASSERT_GT(n, 2000);
    const std::string passed = tampered(std::string(raw, static_cast<size_t>(n)), change);
    ASSERT_EQ(::send(sockets.left.get(), passed.data(), passed.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(passed.size()));
    ::shutdown(sockets.left.get(), SHUT_WR);
    const std::string read = one.read(3000);
    EXPECT_TRUE((first + second).starts_with(read)) << static_cast<int>(change);
    const bool whole = change == Change::kNone;
    EXPECT_EQ(read.size() == 2000, whole) << static_cast<int>(change);
    EXPECT_EQ(one.error, whole || change == Change::kCut ? 0 : EBADMSG) << static_cast<int>(change);
  }
}

}  // namespace
}  // namespace entrain::net
