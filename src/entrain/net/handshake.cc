#include "entrain/net/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/sha256.h"
#include "entrain/net/wire.h"

namespace entrain::net {
namespace {

constexpr size_t kNonceSize = 32;
constexpr double kPatienceSeconds = 3;
// An attempt takes so long at most: a connection that the listener's full queue has lost is never answered.
constexpr double kAttemptSeconds = 5;
constexpr auto kPause = std::chrono::milliseconds(50);  // between two attempts
// Accepted before those that wait are read again: in a flood a rank's answer comes while strangers do.
constexpr int kAcceptedAtOnce = 64;
constexpr std::string_view kMagic = "entrain1";
constexpr size_t kChallengeSize = 8 + kNonceSize;               // magic, nonce
constexpr size_t kSaidSize = 4 * 4;                             // server, rank, world, encrypts
constexpr size_t kHelloSize = 8 + kSaidSize + kNonceSize + 32;  // magic, what is said, nonce, proof
constexpr size_t kAnswerSize = 2 * 4;                           // the server's world, encrypts
constexpr size_t kWelcomeSize = kAnswerSize + 32;               // answer, proof
const std::string kRefusal(kWelcomeSize, '\0');

// `said` is everything the prover claims, `nonces` both sides' fresh randomness.
std::string prove(const std::string& token, std::string_view side, std::string_view said,
                  std::string_view nonces) {
  const Digest digest = hmac_sha256(token, fmt::format("entrain handshake 1|{}|{}|{}", side, said, nonces));
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Room for all ranks at once, twice, and for strangers; connections that have been proven need files, too.
size_t most_pending(int world) {
  return std::min(256 + 4 * static_cast<size_t>(world), raise_file_limit() / 4);
}

bool same_proof(std::string_view a, std::string_view b) {
  Digest x{}, y{};
  std::memcpy(x.data(), a.data(), x.size());
  std::memcpy(y.data(), b.data(), y.size());
  return equal_digests(x, y);
}

}  // namespace

bool encrypts(Encryption encryption, const Fd& socket) {
  if (encryption != Encryption::kBetweenHosts) return encryption == Encryption::kAlways;
  return local_endpoint(socket).address != remote_endpoint(socket).address;
}

void introduce(const Fd& socket, const Introduction& who, const std::string& token, Deadline deadline,
               const std::string& where) {
  std::string error;
  std::string challenge(kChallengeSize, '\0');
  if (!read_fully(socket, challenge.data(), challenge.size(), deadline, error)) {
    throw Unanswered(fmt::format("rank {} cannot greet {}: {}", who.rank, where, error));
  }
  if (!challenge.starts_with(kMagic)) fail("{} does not speak entrain's protocol", where);

  const std::string nonce = random_bytes(kNonceSize);
  const std::string nonces = challenge.substr(8) + nonce;
  std::string said;
  put_u32(said, static_cast<uint32_t>(who.server));
  put_u32(said, static_cast<uint32_t>(who.rank));
  put_u32(said, static_cast<uint32_t>(who.world));
  const bool own_tls = encrypts(who.encryption, socket);
  put_u32(said, own_tls);
  const std::string hello = std::string(kMagic) + said + nonce + prove(token, "client", said, nonces);
  std::string welcome(kWelcomeSize, '\0');
  if (!write_fully(socket, hello.data(), hello.size(), deadline, error) ||
      !read_fully(socket, welcome.data(), welcome.size(), deadline, error)) {
    throw Unanswered(fmt::format("rank {} was not let in by {}: {}", who.rank, where, error));
  }
  if (welcome == kRefusal) {
    fail("rank {} was not let in by {}: the job tokens differ (ENTRAIN_TOKEN)", who.rank, where);
  }
  const std::string answer = welcome.substr(0, kAnswerSize);
  if (!same_proof(std::string_view(welcome).substr(kAnswerSize),
                  prove(token, "server", said + answer, nonces))) {
    fail("{} does not know the job token", where);
  }
  const int world = static_cast<int>(get_u32(answer.data()));
  if (world != who.world) {
    fail("rank {} was started for a world of {} ranks, but {} counts {}", who.rank, who.world, where, world);
  }
  if (get_u32(answer.data() + 4) != static_cast<uint32_t>(own_tls)) {
    fail("rank {} {}, but {} {}: ENTRAIN_TLS must be the same on all ranks", who.rank,
         own_tls ? "encrypts" : "does not encrypt", where, own_tls ? "does not" : "does");
  }
}

Fd reach(const Endpoint& endpoint, const std::string& from, const Introduction& who, const std::string& token,
         Refused refused, Deadline deadline, const std::string& where) {
  while (true) {
    const Deadline attempt = Deadline::after(std::min(deadline.left(), Seconds(kAttemptSeconds)));
    std::string error;
    if (Fd socket = connect_to(endpoint, from, attempt, error)) {
      try {
        introduce(socket, who, token, attempt, where);
        return socket;
      } catch (const Unanswered& e) {
        if (deadline.left() < 2 * kPause) throw;
      }
    } else if (deadline.left() < 2 * kPause || (errno == ECONNREFUSED && refused == Refused::kGiveUp)) {
      fail("rank {} cannot reach {}: {}", who.rank, where, error);
    }
    std::this_thread::sleep_for(kPause);
  }
}

HandshakeListener::HandshakeListener(Fd listener, int server, int world, std::string token,
                                     Encryption encryption)
    : listener_(std::move(listener)),
      server_(server),
      world_(world),
      token_(std::move(token)),
      encryption_(encryption),
      most_pending_(most_pending(world)) {}

int HandshakeListener::watch(std::vector<pollfd>& entries) const {
  entries.push_back({listener_.get(), POLLIN, 0});
  int wait_ms = Deadline::never().left_ms();
  for (const Pending& pending : pending_) {
    entries.push_back({pending.socket.get(), POLLIN, 0});
    wait_ms = std::min(wait_ms, pending.deadline.left_ms());
  }
  return wait_ms;
}

void HandshakeListener::accept_some() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Fd socket = accept_one(listener_);
    if (!socket) return;
    std::string nonce = random_bytes(kNonceSize);
    const std::string challenge = std::string(kMagic) + nonce;
    // A fresh socket's buffer always has room for 40 bytes.
    if (::send(socket.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL) < 0) continue;
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

  const std::string said = hello.substr(8, kSaidSize);
  const std::string nonces = pending.nonce + hello.substr(8 + kSaidSize, kNonceSize);
  const bool proven = same_proof(std::string_view(hello).substr(8 + kSaidSize + kNonceSize),
                                 prove(token_, "client", said, nonces));
  if (!proven || static_cast<int>(get_u32(said.data())) != server_) {  // a wrong token, or meant for another
    ::send(pending.socket.get(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL);
    return Progress::kDropped;
  }
  rank = static_cast<int>(get_u32(said.data() + 4));
  world = static_cast<int>(get_u32(said.data() + 8));
  std::string welcome;
  put_u32(welcome, static_cast<uint32_t>(world_));
  const bool own_tls = encrypts(encryption_, pending.socket);
  put_u32(welcome, own_tls);
  welcome += prove(token_, "server", said + welcome, nonces);
  if (::send(pending.socket.get(), welcome.data(), welcome.size(), MSG_NOSIGNAL) < 0)
    return Progress::kDropped;
  // One that would go on in another way has been told so.
  return get_u32(said.data() + 12) == static_cast<uint32_t>(own_tls) ? Progress::kProven : Progress::kDropped;
}

// Whether it still waits for more. If not, it has been handed over or dropped.
bool HandshakeListener::look_at(Pending& pending, const OnProven& on_proven) {
  int rank = 0, world = 0;
  const Progress progress = advance(pending, rank, world);
  if (progress == Progress::kWaits) return true;
  if (progress == Progress::kDropped && !warned_) {
    warned_ = true;
    log_warn("dropped a connection from {} that did not prove the job token (further ones are not reported)",
             remote_endpoint(pending.socket).text());
  }
  if (progress == Progress::kProven) on_proven(std::move(pending.socket), rank, world);
  return false;
}

void HandshakeListener::serve(const OnProven& on_proven) {
  accept_some();
  for (auto it = pending_.begin(); it != pending_.end();) {
    it = look_at(*it, on_proven) ? std::next(it) : pending_.erase(it);
  }
  while (pending_.size() > most_pending_) pending_.pop_front();
}

}  // namespace entrain::net
