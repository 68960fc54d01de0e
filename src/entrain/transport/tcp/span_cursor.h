// How far a list of memory pieces has been read or written.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <vector>

namespace entrain::transport {

template <typename Span>
class SpanCursor {
 public:
  SpanCursor() = default;
  explicit SpanCursor(std::vector<Span> spans) : spans_(std::move(spans)) {
    for (const Span& span : spans_) left_ += span.size();
  }

  size_t left() const { return left_; }

  // Appends the unfinished pieces, at most `limit` bytes of them, to entries[count..capacity).
  // Returns the bytes appended.
  size_t append_to(iovec* entries, int& count, int capacity, size_t limit) const {
    size_t bytes = 0, offset = offset_;
    for (size_t i = at_; i < spans_.size() && count < capacity && bytes < limit; ++i, offset = 0) {
      const size_t n = std::min(spans_[i].size() - offset, limit - bytes);
      if (n == 0) continue;
      entries[count++] = {const_cast<std::byte*>(spans_[i].data()) + offset, n};
      bytes += n;
    }
    return bytes;
  }

  void advance(size_t bytes) {
    left_ -= bytes;
    while (bytes > 0) {
      const size_t n = std::min(bytes, spans_[at_].size() - offset_);
      offset_ += n, bytes -= n;
      if (offset_ == spans_[at_].size()) ++at_, offset_ = 0;
    }
  }

 private:
  std::vector<Span> spans_;
  size_t at_ = 0, offset_ = 0;  // the first byte not yet done
  size_t left_ = 0;
};

}  // namespace entrain::transport
