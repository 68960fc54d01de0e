#include "entrain/net/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/sha256.h"
#include "entrain/net/wire.h"

namespace entrain::net {
namespace {

constexpr size_t kNonceSize = 32;
constexpr size_t kMaxPending = 64;
constexpr double kPatienceSeconds = 3;
constexpr std::string_view kMagic = "entrain1";
constexpr size_t kChallengeSize = 8 + kNonceSize;               // magic, nonce
constexpr size_t kHelloSize = 8 + 4 + 4 + 4 + kNonceSize + 32;  // magic, server, rank, world, nonce, proof
constexpr size_t kWelcomeSize = 4 + 32;                         // the server's world, proof

// `said` is everything the prover claims, `nonces` both sides' fresh randomness.
std::string prove(const std::string& token, std::string_view side, std::string_view said,
                  std::string_view nonces) {
  const Digest digest = hmac_sha256(token, fmt::format("entrain handshake 1|{}|{}|{}", side, said, nonces));
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool same_proof(std::string_view a, std::string_view b) {
  Digest x{}, y{};
  std::memcpy(x.data(), a.data(), x.size());
  std::memcpy(y.data(), b.data(), y.size());
  return equal_digests(x, y);
}

}  // namespace

void introduce(const Fd& socket, const Introduction& who, const std::string& token, Deadline deadline,
               const std::string& where) {
  std::string error;
  std::string challenge(kChallengeSize, '\0');
  if (!read_fully(socket, challenge.data(), challenge.size(), deadline, error)) {
    fail("rank {} cannot greet {}: {}", who.rank, where, error);
  }
  if (!challenge.starts_with(kMagic)) fail("{} does not speak entrain's protocol", where);

  const std::string nonce = random_bytes(kNonceSize);
  const std::string nonces = challenge.substr(8) + nonce;
  std::string said;
  put_u32(said, static_cast<uint32_t>(who.server));
  put_u32(said, static_cast<uint32_t>(who.rank));
  put_u32(said, static_cast<uint32_t>(who.world));
  const std::string hello = std::string(kMagic) + said + nonce + prove(token, "client", said, nonces);
  std::string welcome(kWelcomeSize, '\0');
  if (!write_fully(socket, hello.data(), hello.size(), deadline, error) ||
      !read_fully(socket, welcome.data(), welcome.size(), deadline, error)) {
    fail("rank {} was not let in by {}: {} (is the job token the same?)", who.rank, where, error);
  }
  const std::string answer = welcome.substr(0, 4);
  if (!same_proof(std::string_view(welcome).substr(4), prove(token, "server", said + answer, nonces))) {
    fail("{} does not know the job token", where);
  }
  const int world = static_cast<int>(get_u32(answer.data()));
  if (world != who.world) {
    fail("rank {} was started for a world of {} ranks, but {} counts {}", who.rank, who.world, where, world);
  }
}

HandshakeListener::HandshakeListener(Fd listener, int server, int world, std::string token)
    : listener_(std::move(listener)), server_(server), world_(world), token_(std::move(token)) {}

int HandshakeListener::watch(std::vector<pollfd>& entries) const {
  entries.push_back({listener_.get(), POLLIN, 0});
  int wait_ms = Deadline::never().left_ms();
  for (const Pending& pending : pending_) {
    entries.push_back({pending.socket.get(), POLLIN, 0});
    wait_ms = std::min(wait_ms, pending.deadline.left_ms());
  }
  return wait_ms;
}

void HandshakeListener::accept_all() {
  while (Fd socket = accept_one(listener_)) {
    std::string nonce = random_bytes(kNonceSize);
    const std::string challenge = std::string(kMagic) + nonce;
    // A fresh socket's buffer always has room for 40 bytes.
    if (::send(socket.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL) < 0) continue;
    if (pending_.size() == kMaxPending) pending_.pop_front();
    pending_.push_back({std::move(socket), Deadline::after(kPatienceSeconds), std::move(nonce), ""});
  }
}

HandshakeListener::Progress HandshakeListener::advance(Pending& pending, int& rank, int& world) {
  char buffer[kHelloSize];
  const ssize_t n = ::recv(pending.socket.get(), buffer, kHelloSize - pending.received.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return pending.deadline.passed() ? Progress::kDropped : Progress::kWaits;
  }
  if (n <= 0) return Progress::kDropped;
  pending.received.append(buffer, static_cast<size_t>(n));
  const std::string& hello = pending.received;
  if (!kMagic.starts_with(hello.substr(0, kMagic.size()))) return Progress::kDropped;
  if (hello.size() < kHelloSize) return Progress::kWaits;

  const std::string said = hello.substr(8, 12);
  const std::string nonces = pending.nonce + hello.substr(20, kNonceSize);
  if (!same_proof(std::string_view(hello).substr(20 + kNonceSize), prove(token_, "client", said, nonces))) {
    return Progress::kDropped;
  }
  if (static_cast<int>(get_u32(said.data())) != server_) return Progress::kDropped;  // meant for another
  rank = static_cast<int>(get_u32(said.data() + 4));
  world = static_cast<int>(get_u32(said.data() + 8));
  std::string welcome;
  put_u32(welcome, static_cast<uint32_t>(world_));
  welcome += prove(token_, "server", said + welcome, nonces);
  if (::send(pending.socket.get(), welcome.data(), welcome.size(), MSG_NOSIGNAL) < 0)
    return Progress::kDropped;
  return Progress::kProven;
}

void HandshakeListener::serve(const OnProven& on_proven) {
  accept_all();
  for (auto it = pending_.begin(); it != pending_.end();) {
    int rank = 0, world = 0;
    const Progress progress = advance(*it, rank, world);
    if (progress == Progress::kWaits) {
      ++it;
      continue;
    }
    if (progress == Progress::kDropped && !warned_) {
      warned_ = true;
      log_warn(
          "dropped a connection from {} that did not prove the job token (further ones are not reported)",
          remote_endpoint(it->socket).text());
    }
    Fd socket = std::move(it->socket);
    it = pending_.erase(it);
    if (progress == Progress::kProven) on_proven(std::move(socket), rank, world);
  }
}

}  // namespace entrain::net
