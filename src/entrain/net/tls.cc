#include "entrain/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/base/sha256.h"

namespace entrain::net {
namespace {

constexpr size_t kRecord = 16384;  // bytes of one TLS record, at most
constexpr size_t kUnsent =
    4 * kRecord;  // encrypted ahead of the socket, at most: urgent messages come late behind it
constexpr size_t kAtOnce = 16 * kRecord;    // received by one call, at most: other connections get their turn
constexpr size_t kReadAhead = 8 * kRecord;  // asked of the socket by one call
// One key of AES-GCM is good for 2^24.5 records (RFC 8446 section 5.5), 388 GB of whole ones.
constexpr uint64_t kBytesPerKey = 100'000'000'000;

// Sessions of one use fit no other. OpenSSL wants a name where peers are verified.
constexpr unsigned char kUse[] = {'e', 'n', 't', 'r', 'a', 'i', 'n'};

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* it) const { Free(it); }
};
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION, SSL_SESSION_free>>;

// What OpenSSL says last, and nothing of it left behind.
std::string library_error() {
  const unsigned long code = ::ERR_peek_last_error();
  const char* reason = code ? ::ERR_reason_error_string(code) : nullptr;
  ::ERR_clear_error();
  return reason ? reason : "unknown error";
}

void require(bool ok, const char* what) {
  if (!ok) fail("OpenSSL: {} failed: {}", what, library_error());
}

}  // namespace

class TlsChannel::Impl {
 public:
  Impl(int fd, Side side, const Introduction& who, const std::string& token)
      : fd_(fd),
        identity_(fmt::format("entrain 1: rank {} to rank {} of {}", who.rank, who.server, who.world)),
        key_(hmac_sha256(token, "entrain TLS 1|" + identity_)) {
    ssl_ = ::SSL_new(context());
    require(ssl_, "SSL_new");
    SSL_set_app_data(ssl_, this);
    BIO* bio = ::BIO_new(socket_method());
    require(bio, "BIO_new");
    ::BIO_set_data(bio, this);
    ::BIO_set_init(bio, 1);
    ::SSL_set_bio(ssl_, bio, bio);
    side == Side::kDialled ? ::SSL_set_connect_state(ssl_) : ::SSL_set_accept_state(ssl_);
  }
  ~Impl() { ::SSL_free(ssl_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool shake_hands(short& wanted) {
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_);
    const int error = ::SSL_get_error(ssl_, done);
    flush();
    wanted = static_cast<short>(POLLIN | (holds_unsent() ? POLLOUT : 0));
    if (done != 1 && error == SSL_ERROR_WANT_READ && !ended_) return false;
    if (done != 1) fail("TLS failed: {}", ended_ ? "the connection was closed" : library_error());
    // By the key alone: whoever came with a certificate instead would be a stranger.
    if (!::SSL_session_reused(ssl_)) fail("TLS failed: the job token was not used");
    return !holds_unsent();
  }

  ssize_t receive(const iovec* pieces, int count) {
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
      for (size_t at = 0; at < pieces[i].iov_len && total < kAtOnce;) {
        size_t n = 0;
        ::ERR_clear_error();
        if (::SSL_read_ex(ssl_, static_cast<char*>(pieces[i].iov_base) + at, pieces[i].iov_len - at, &n) !=
            1) {
          return total > 0 ? static_cast<ssize_t>(total) : why_not();
        }
        drained_ = false;
        at += n, total += n;
      }
    }
    return static_cast<ssize_t>(total);
  }

  bool holds_received() const { return !drained_ && ::SSL_has_pending(ssl_) == 1; }

  ssize_t send(const iovec* pieces, int count) {
    size_t total = 0, at = 0;
    for (int i = 0; flush() && total < kAtOnce;) {
      while (unsent() < kUnsent) {
        const size_t n = gather(pieces, count, i, at);
        if (n == 0) return flush() || errno == EAGAIN ? static_cast<ssize_t>(total) : -1;
        size_t written = 0;
        ::ERR_clear_error();
        // The BIO takes all of it, so this never stops half-way.
        if (::SSL_write_ex(ssl_, next_, n, &written) != 1) return why_not();
        total += written;
        renew_key(written);
      }
    }
    return total > 0 ? static_cast<ssize_t>(total) : -1;
  }

  bool holds_unsent() const { return unsent() > 0; }

 private:
  size_t unsent() const { return out_.size() - sent_; }

  // The bytes of the next record: next_ points to them, where they lie when they are of one piece.
  size_t gather(const iovec* pieces, int count, int& i, size_t& at) {
    while (i < count && at == pieces[i].iov_len) ++i, at = 0;
    if (i == count) return 0;
    if (pieces[i].iov_len - at >= kRecord) {
      next_ = static_cast<const char*>(pieces[i].iov_base) + at;
      at += kRecord;
      return kRecord;
    }
    size_t size = 0;
    while (i < count && size < kRecord) {
      const size_t n = std::min(pieces[i].iov_len - at, kRecord - size);
      std::memcpy(gathered_ + size, static_cast<const char*>(pieces[i].iov_base) + at, n);
      size += n, at += n;
      if (at == pieces[i].iov_len) ++i, at = 0;
    }
    next_ = gathered_;
    return size;
  }

  // As much as the socket takes. False, with errno set, when it takes no more.
  bool flush() {
    while (unsent() > 0) {
      const ssize_t n = ::send(fd_, out_.data() + sent_, unsent(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      sent_ += static_cast<size_t>(n);
    }
    out_.clear();
    sent_ = 0;
    return true;
  }

  void renew_key(size_t written) {
    bytes_with_key_ += written;
    if (bytes_with_key_ < kBytesPerKey) return;
    bytes_with_key_ = 0;
    require(::SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1, "SSL_key_update");
  }

  // After a call that has not done what it should: 0 at the end of file, else -1 with errno.
  ssize_t why_not() {
    if (socket_error_ != 0) {
      errno = socket_error_;
      return -1;
    }
    if (ended_) return 0;
    const int error = ::SSL_get_error(ssl_, 0);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    drained_ = error == SSL_ERROR_WANT_READ;
    errno = drained_ ? EAGAIN : EBADMSG;
    ::ERR_clear_error();
    return -1;
  }

  // The socket as OpenSSL sees it. Its own would raise SIGPIPE, and would stop half-way in a record.
  static BIO_METHOD* socket_method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = ::BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "entrain");
      require(made, "BIO_meth_new");
      ::BIO_meth_set_read(made, [](BIO* bio, char* data, int size) {
        return static_cast<Impl*>(::BIO_get_data(bio))->read_socket(bio, data, size);
      });
      ::BIO_meth_set_write(made, [](BIO* bio, const char* data, int size) {
        auto& out = static_cast<Impl*>(::BIO_get_data(bio))->out_;
        out.insert(out.end(), data, data + size);
        return size;
      });
      ::BIO_meth_set_ctrl(made,
                          [](BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1L : 0L; });
      return made;
    }();
    return method;
  }

  int read_socket(BIO* bio, char* data, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = ::recv(fd_, data, static_cast<size_t>(size), 0);
    ended_ |= n == 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      BIO_set_retry_read(bio);
    else if (n < 0)
      socket_error_ = errno;
    return static_cast<int>(n);
  }

  // The key as OpenSSL wants it: as a session that both sides had. Its cipher decides the hash, which is
  // SHA-256.
  Session session() const {
    Session session(::SSL_SESSION_new());
    const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl_, aes_128_gcm_sha256);
    const bool made = session && cipher &&
                      ::SSL_SESSION_set1_master_key(session.get(), key_.data(), key_.size()) &&
                      ::SSL_SESSION_set_cipher(session.get(), cipher) &&
                      ::SSL_SESSION_set1_id_context(session.get(), kUse, sizeof kUse) &&
                      ::SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION);
    return made ? std::move(session) : nullptr;
  }

  static int use_session(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_size,
                         SSL_SESSION** session) {
    const auto* self = static_cast<Impl*>(SSL_get_app_data(ssl));
    *id = reinterpret_cast<const unsigned char*>(self->identity_.data());
    *id_size = self->identity_.size();
    *session = self->session().release();
    return *session != nullptr;
  }

  static int find_session(SSL* ssl, const unsigned char* id, size_t id_size, SSL_SESSION** session) {
    const auto* self = static_cast<Impl*>(SSL_get_app_data(ssl));
    const bool meant = std::string_view(reinterpret_cast<const char*>(id), id_size) == self->identity_;
    *session = meant ? self->session().release() : nullptr;
    return 1;  // without a session: no key in common, and there are no certificates to go on with
  }

  static SSL_CTX* context() {
    static const Context made = [] {
      Context context(::SSL_CTX_new(::TLS_method()));
      SSL_CTX* c = context.get();
      require(c, "SSL_CTX_new");
      require(SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1, "SSL_CTX_set_min_proto_version");
      require(::SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1, "SSL_CTX_set_ciphersuites");
      require(::SSL_CTX_set_num_tickets(c, 0) == 1, "SSL_CTX_set_num_tickets");
      SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
      require(::SSL_CTX_set_session_id_context(c, kUse, sizeof kUse) == 1, "SSL_CTX_set_session_id_context");
      ::SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);  // no certificate is good enough
      SSL_CTX_set_read_ahead(c, 1);
      ::SSL_CTX_set_default_read_buffer_len(c, kReadAhead);
      ::SSL_CTX_set_psk_use_session_callback(c, use_session);
      ::SSL_CTX_set_psk_find_session_callback(c, find_session);
      return context;
    }();
    return made.get();
  }

  const int fd_;
  const std::string identity_;
  const Digest key_;
  SSL* ssl_ = nullptr;

  std::vector<char> out_;  // encrypted; from sent_ on not yet sent
  size_t sent_ = 0;
  uint64_t bytes_with_key_ = 0;
  const char* next_ = nullptr;
  char gathered_[kRecord];

  bool drained_ = false;  // all that has come has been read
  bool ended_ = false;
  int socket_error_ = 0;
};

TlsChannel::TlsChannel(const Fd& socket, Side side, const Introduction& who, const std::string& token)
    : impl_(std::make_unique<Impl>(socket.get(), side, who, token)) {}
TlsChannel::~TlsChannel() = default;

bool TlsChannel::shake_hands(short& wanted) { return impl_->shake_hands(wanted); }
ssize_t TlsChannel::receive(const iovec* pieces, int count) { return impl_->receive(pieces, count); }
bool TlsChannel::holds_received() const { return impl_->holds_received(); }
ssize_t TlsChannel::send(const iovec* pieces, int count) { return impl_->send(pieces, count); }
bool TlsChannel::holds_unsent() const { return impl_->holds_unsent(); }

void shake_hands(std::vector<Handshaking> channels, Deadline deadline) {
  while (true) {
    std::vector<pollfd> entries;
    std::erase_if(channels, [&](const Handshaking& each) {
      short wanted = 0;
      try {
        if (each.channel->shake_hands(wanted)) return true;
      } catch (const Error& e) {
        throw PeerError(each.peer, fmt::format("rank {}: {}", each.peer, e.what()));
      }
      entries.push_back({each.socket->get(), wanted, 0});
      return false;
    });
    if (channels.empty()) return;
    if (deadline.passed()) {
      const int late = channels.front().peer;
      throw PeerError(late, fmt::format("rank {}: TLS was not set up in time", late));
    }
    ::poll(entries.data(), entries.size(), deadline.left_ms());
  }
}

}  // namespace entrain::net
