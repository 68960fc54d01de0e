#include "entrain/transport/buffer_pool.h"

#include <bit>

#include "entrain/transport/transport.h"

namespace entrain::transport {
namespace {

int size_class(size_t size) { return std::bit_width(std::max<size_t>(size, 64) - 1); }

}  // namespace

BufferPool::~BufferPool() {
  for (auto& buffers : idle_) {
    for (std::byte* data : buffers) delete[] data;
  }
}

std::byte* BufferPool::take(size_t size) {
  const int c = size_class(size);
  if (c >= 48) throw std::bad_alloc();  // 256 TB: a nonsense length, not a message
  {
    std::lock_guard lock(mutex_);
    if (!idle_[c].empty()) {
      std::byte* data = idle_[c].back();
      idle_[c].pop_back();
      idle_bytes_ -= size_t{1} << c;
      return data;
    }
  }
  return new std::byte[size_t{1} << c];
}

void BufferPool::give(std::byte* data, size_t size) {
  const int c = size_class(size);
  {
    std::lock_guard lock(mutex_);
    if (idle_bytes_ + (size_t{1} << c) <= kKeptBytes) {
      idle_[c].push_back(data);
      idle_bytes_ += size_t{1} << c;
      return;
    }
  }
  delete[] data;
}

Payload::Payload(std::shared_ptr<BufferPool> pool, size_t size)
    : data_(pool->take(size), Recycle{pool, size}), size_(size) {}

void Payload::Recycle::operator()(std::byte* data) const {
  if (pool) {
    pool->give(data, size);
  } else {
    delete[] data;
  }
}

}  // namespace entrain::transport
