#include "entrain/transport/tcp/frame_writer.h"

#include <cerrno>

namespace entrain::transport {

void FrameWriter::push(OutFrame frame) {
  Active& active = frames_.emplace_back();
  active.frame = std::move(frame);
  active.wire = active.frame.header.encode();
  std::vector<ConstBytes> spans{active.wire};
  if (active.frame.op) {
    spans.insert(spans.end(), active.frame.data.begin(), active.frame.data.end());
  } else {
    spans.push_back(as_bytes(active.frame.text));
  }
  active.cursor = SpanCursor<ConstBytes>(std::move(spans));
  bytes_left_ += active.cursor.left();
}

FrameWriter::Outcome FrameWriter::write(net::Channel& channel, size_t limit,
                                        std::vector<OutFrame>& finished) {
  constexpr int kMaxPieces = 128;
  iovec pieces[kMaxPieces];
  int count = 0;
  size_t asked = 0;
  for (const Active& active : frames_) {
    if (count == kMaxPieces || asked == limit) break;
    asked += active.cursor.append_to(pieces, count, kMaxPieces, limit - asked);
  }
  const ssize_t n = channel.send(pieces, count);
  if (n < 0) {
    if (errno == EAGAIN) return {.bytes = 0, .blocked = true};
    if (errno == EINTR) return {};
    return {.bytes = 0, .blocked = false, .error = errno};
  }
  size_t left = static_cast<size_t>(n);
  bytes_left_ -= left;
  while (!frames_.empty()) {
    Active& active = frames_.front();
    const size_t part = std::min(left, active.cursor.left());
    active.cursor.advance(part);
    active.touched |= part > 0;
    left -= part;
    if (active.cursor.left() > 0) break;
    finished.push_back(std::move(active.frame));
    frames_.pop_front();
  }
  return {.bytes = static_cast<size_t>(n),
          .blocked = static_cast<size_t>(n) < asked || channel.holds_unsent()};
}

std::vector<OutFrame> FrameWriter::take_untouched() {
  std::vector<OutFrame> untouched;
  while (!frames_.empty() && !frames_.back().touched) {
    bytes_left_ -= frames_.back().cursor.left();
    untouched.push_back(std::move(frames_.back().frame));
    frames_.pop_back();
  }
  return untouched;
}

std::vector<OutFrame> FrameWriter::take_all() {
  std::vector<OutFrame> all;
  for (Active& active : frames_) all.push_back(std::move(active.frame));
  frames_.clear();
  bytes_left_ = 0;
  return all;
}

}  // namespace entrain::transport
