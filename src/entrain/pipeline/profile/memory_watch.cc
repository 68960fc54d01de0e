#include "entrain/pipeline/profile/memory_watch.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace entrain::pipeline {

// The one count of the process: torch has one CPU allocator.
struct WatchedBytes {
  std::mutex mutex;
  int64_t live = 0;                   // guarded by mutex
  std::vector<MemoryWatch*> watches;  // guarded by mutex

  static WatchedBytes& instance();

  void add(int64_t bytes) {
    const std::lock_guard lock(mutex);
    live += bytes;
    for (MemoryWatch* watch : watches) watch->peak_ = std::max(watch->peak_, live);
  }
};

namespace {

// Ahead of each block stands its size, in as many bytes as keep the block aligned as torch wants it.
constexpr size_t kHeader = c10::gAlignment;

void release(void* data) {
  if (data == nullptr) return;
  char* const block = static_cast<char*>(data) - kHeader;
  WatchedBytes::instance().add(-*reinterpret_cast<int64_t*>(block));
  c10::free_cpu(block);
}

c10::DataPtr counted(size_t bytes) {
  void* data = nullptr;
  if (bytes > 0) {
    char* const block = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
    *reinterpret_cast<int64_t*>(block) = static_cast<int64_t>(bytes);
    data = block + kHeader;
    WatchedBytes::instance().add(static_cast<int64_t>(bytes));
  }
  return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
}

// No `override`: torch 1.13 declares the first, torch 2.x the second and copy_data.
struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) const { return counted(bytes); }
  c10::DataPtr allocate(size_t bytes) { return counted(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
};

}  // namespace

WatchedBytes& WatchedBytes::instance() {
  // Never destroyed: tensors are freed until the very end of the process.
  static WatchedBytes* const bytes = [] {
    c10::SetCPUAllocator(new CountingAllocator, /*priority=*/1);
    return new WatchedBytes;
  }();
  return *bytes;
}

MemoryWatch::MemoryWatch() {
  WatchedBytes& bytes = WatchedBytes::instance();
  const std::lock_guard lock(bytes.mutex);
  begin_ = peak_ = bytes.live;
  bytes.watches.push_back(this);
}

MemoryWatch::~MemoryWatch() {
  WatchedBytes& bytes = WatchedBytes::instance();
  const std::lock_guard lock(bytes.mutex);
  std::erase(bytes.watches, this);
}

int64_t MemoryWatch::live() const {
  WatchedBytes& bytes = WatchedBytes::instance();
  const std::lock_guard lock(bytes.mutex);
  return bytes.live - begin_;
}

int64_t MemoryWatch::peak() const {
  WatchedBytes& bytes = WatchedBytes::instance();
  const std::lock_guard lock(bytes.mutex);
  return peak_ - begin_;
}

void MemoryWatch::reset_peak() {
  WatchedBytes& bytes = WatchedBytes::instance();
  const std::lock_guard lock(bytes.mutex);
  peak_ = bytes.live;
}

}  // namespace entrain::pipeline
