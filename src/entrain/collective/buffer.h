// A message in memory: pieces that need not lie together, addressed as one.
//
// Merging variables into one message thus copies nothing: the pieces are the gradients
// themselves, and the network reads from and writes to them.
#pragma once

#include <cstddef>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::collective {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(const std::vector<transport::Bytes>& pieces);

  size_t size() const { return size_; }

  // The pieces of bytes [begin, end).
  std::vector<transport::Bytes> slice(size_t begin, size_t end) const;
  std::vector<transport::ConstBytes> const_slice(size_t begin, size_t end) const;

 private:
  std::vector<transport::Bytes> pieces_;
  std::vector<size_t> starts_;  // of each piece
  size_t size_ = 0;
};

}  // namespace entrain::collective
