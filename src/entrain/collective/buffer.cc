#include "entrain/collective/buffer.h"

#include <algorithm>

namespace entrain::collective {

Buffer::Buffer(const std::vector<transport::Bytes>& pieces) {
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    pieces_.push_back(piece);
    starts_.push_back(size_);
    size_ += piece.size();
  }
}

std::vector<transport::Bytes> Buffer::slice(size_t begin, size_t end) const {
  std::vector<transport::Bytes> result;
  auto piece = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin());
  for (piece = piece > 0 ? piece - 1 : 0; piece < pieces_.size() && begin < end; ++piece) {
    const size_t offset = begin - starts_[piece];
    const size_t n = std::min(end - begin, pieces_[piece].size() - offset);
    result.push_back(pieces_[piece].subspan(offset, n));
    begin += n;
  }
  return result;
}

std::vector<transport::ConstBytes> Buffer::const_slice(size_t begin, size_t end) const {
  const auto pieces = slice(begin, end);
  return {pieces.begin(), pieces.end()};
}

}  // namespace entrain::collective
