// How much memory tensors take, counted where it is given out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace entrain::pipeline {

// Bytes of CPU tensors of the whole process, from its construction on, whichever thread asks for them or
// gives them back. Exact: what tensors asked for, without the allocator's rounding; scratch memory that a
// library gets elsewhere (oneDNN's, a BLAS's) is not in it.
//
// The first watch of a process replaces torch's CPU allocator by one that counts and then does what torch's
// does; that one stays. Tensors older than it are never counted. Any number of watches may live at once.
// Thread-safe, except that no tensor may be made by another thread while the first watch is constructed.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Allocated minus freed since construction: below 0 when older tensors were freed.
  int64_t live() const;
  // The most that live() has been since construction or reset_peak().
  int64_t peak() const;
  void reset_peak();

 private:
  friend struct WatchedBytes;

  int64_t begin_ = 0;
  int64_t peak_ = 0;  // in the process's count
};

}  // namespace entrain::pipeline
