#include "entrain/transport/tcp/frame_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace entrain::transport {

FrameReader::Outcome FrameReader::read(net::Channel& channel, size_t limit, Handler& handler) {
  constexpr int kMaxPieces = 64;
  iovec pieces[kMaxPieces + 1];
  int count = 0;
  size_t asked = 0;
  if (in_payload_ && !discarding_) asked = payload_.append_to(pieces, count, kMaxPieces, limit);
  // Behind a whole payload the next header is likely to follow: fetch it in the same call.
  const bool whole = !in_payload_ || discarding_ || asked == payload_.left();
  if (whole && asked < limit) {
    if (begin_ > 0) {
      std::memmove(staging_.get(), staging_.get() + begin_, end_ - begin_);
      end_ -= begin_, begin_ = 0;
    }
    const size_t room = std::min(kStaging - end_, limit - asked);
    pieces[count++] = {staging_.get() + end_, room};
    asked += room;
  }
  const ssize_t n = channel.receive(pieces, count);
  if (n == 0) return {.status = Status::kEnd};
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return {.status = Status::kFailed, .bytes = 0, .more = false, .error = errno};
  }
  Outcome outcome{
      .status = Status::kOpen, .bytes = static_cast<size_t>(n), .more = static_cast<size_t>(n) == asked};
  if (discarding_) return outcome;
  const size_t direct = in_payload_ ? std::min(outcome.bytes, payload_.left()) : 0;
  if (in_payload_) payload_.advance(direct);
  end_ += outcome.bytes - direct;
  if (!parse(handler)) outcome.status = Status::kNonsense;
  return outcome;
}

// Finishes the frame under way and takes whole headers from the staging. False: a header is nonsense.
bool FrameReader::parse(Handler& handler) {
  while (!discarding_) {
    if (in_payload_) {
      while (payload_.left() > 0 && begin_ < end_) {
        iovec piece{};
        int count = 0;
        const size_t n = payload_.append_to(&piece, count, 1, end_ - begin_);
        std::memcpy(piece.iov_base, staging_.get() + begin_, n);
        payload_.advance(n);
        begin_ += n;
      }
      if (payload_.left() > 0) return true;
      in_payload_ = false;
      handler.on_frame();
    } else {
      if (end_ - begin_ < FrameHeader::kSize) return true;
      const auto header = FrameHeader::decode(staging_.get() + begin_);
      if (!header) return false;
      begin_ += FrameHeader::kSize;
      in_payload_ = true;  // before on_header, which may call discard()
      payload_ = SpanCursor<Bytes>(handler.on_header(*header));
    }
  }
  return true;
}

void FrameReader::discard() {
  discarding_ = true;
  begin_ = end_ = 0;
  payload_ = {};
}

}  // namespace entrain::transport
