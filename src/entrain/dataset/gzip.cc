#include "entrain/dataset/gzip.h"

#include <zlib.h>

#include <array>

#include "entrain/base/error.h"
#include "entrain/base/units.h"

namespace entrain::dataset {
namespace {

constexpr int kGzipWindow = 15 + 16;   // the largest window; 16: gzip's header, not zlib's
constexpr size_t kMaxPiece = 1 << 30;  // zlib counts in 32 bits
// Data sets become 25 times as large. gzip could make 1,000 bytes of one: a file of 5 MB would fill a
// machine.
constexpr size_t kMaxRatio = 100, kFree = 16 << 20;  // any ratio up to kFree bytes
constexpr size_t kMaxSize = 256 << 20;

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib reads only
}

struct Inflater {
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) fail("zlib: inflateInit2 failed");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
};

struct Deflater {
  Deflater() {
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
      fail("zlib: deflateInit2 failed");
    }
  }
  ~Deflater() { deflateEnd(&stream); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  z_stream stream{};
};

// Hands the stream its next piece of input. True: this was the last.
bool feed(z_stream& stream, std::string_view& rest) {
  if (stream.avail_in == 0) {
    const size_t size = std::min(rest.size(), kMaxPiece);
    stream.next_in = bytes_of(rest);
    stream.avail_in = static_cast<uInt>(size);
    rest.remove_prefix(size);
  }
  return rest.empty();
}

void check_unpacked(size_t size, size_t packed, const std::string& origin) {
  if (size <= kFree || (size <= kMaxSize && size / kMaxRatio <= packed)) return;
  bad_input("{}: {} unpack to more than {}, allowed: {} times as much, at most {}", origin,
            format_bytes(static_cast<double>(packed)), format_bytes(static_cast<double>(size)), kMaxRatio,
            format_bytes(kMaxSize));
}

}  // namespace

std::string gzip(std::string_view text) {
  Deflater deflater;
  z_stream& stream = deflater.stream;
  std::string result;
  std::array<char, 1 << 16> buffer;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    const bool last = feed(stream, text);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = buffer.size();
    status = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    if (status == Z_STREAM_ERROR) fail("zlib: deflate failed");
    result.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  return result;
}

std::string gunzip(std::string_view bytes, const std::string& origin) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string result;
  std::array<char, 1 << 16> buffer;
  const size_t packed = bytes.size();
  for (;;) {
    const bool last = feed(stream, bytes);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = buffer.size();
    const int status = inflate(&stream, Z_NO_FLUSH);
    result.append(buffer.data(), buffer.size() - stream.avail_out);
    check_unpacked(result.size(), packed, origin);
    if (status == Z_STREAM_END) {
      if (last && stream.avail_in == 0) return result;
      if (inflateReset(&stream) != Z_OK) fail("zlib: inflateReset failed");  // another member follows
    } else if (status == Z_BUF_ERROR && last) {
      bad_input("{}: the compressed data ends early; copy the file again", origin);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      bad_input("{}: not readable as gzip: {}", origin, stream.msg ? stream.msg : "damaged");
    }
  }
}

}  // namespace entrain::dataset
