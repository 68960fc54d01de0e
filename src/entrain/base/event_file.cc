#include "entrain/base/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}

// TensorFlow rotates a record's sum and adds a constant, so that a sum of data with sums in it is no fixed
// point.
uint32_t masked(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
void put(std::string& out, T value) {  // all machines we run on are little-endian
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Wire types of protobuf: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void put_key(std::string& out, int field, int type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, 2);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::string event(double wall_s, int64_t step) {
  std::string data;
  put_key(data, 1, 1);
  put(data, wall_s);
  put_key(data, 2, 0);
  put_varint(data, static_cast<uint64_t>(step));
  return data;
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, const std::string& name)
    : path_(folder / fmt::format("events.out.tfevents.{}.{}", std::time(nullptr), name)) {
  make_folders(folder);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot write {}: {}", path_.string(), std::strerror(errno));
  std::string first = event(static_cast<double>(std::time(nullptr)), 0);
  put_bytes(first, 3, "brain.Event:2");
  append(first);
}

EventFile::~EventFile() { ::close(fd_); }

void EventFile::scalar(std::string_view tag, int64_t step, double value, double wall_s) {
  std::string entry;
  put_bytes(entry, 1, tag);
  put_key(entry, 2, 5);
  put(entry, static_cast<float>(value));
  std::string summary;
  put_bytes(summary, 1, entry);
  std::string data = event(wall_s, step);
  put_bytes(data, 5, summary);
  append(data);
}

// One write per record: a reader never sees half of one unless the disk is full.
void EventFile::append(std::string_view data) {
  std::string record;
  put(record, static_cast<uint64_t>(data.size()));
  put(record, masked(record));
  record.append(data);
  put(record, masked(data));
  if (::write(fd_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    fail("cannot write {}: {}", path_.string(), std::strerror(errno));
  }
}

}  // namespace entrain
