// Message buffers that are used again. A message of 256 KB or more would otherwise cost a fresh
// mapping, and a page fault for each 4 KB of it, every time: as much CPU as moving the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace entrain::transport {

// Sizes are rounded up to powers of two (the surplus is never touched, so it costs no memory).
// Thread-safe.
class BufferPool {
 public:
  ~BufferPool();
  std::byte* take(size_t size);             // uninitialised; throws std::bad_alloc
  void give(std::byte* data, size_t size);  // `size` as it was asked for

 private:
  static constexpr size_t kKeptBytes = size_t{128} << 20;  // idle memory never exceeds this

  std::mutex mutex_;
  std::array<std::vector<std::byte*>, 64> idle_;  // by log2 of the size
  size_t idle_bytes_ = 0;
};

}  // namespace entrain::transport
