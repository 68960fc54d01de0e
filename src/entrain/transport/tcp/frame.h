// The unit on a connection: a header of fixed size, then `length` bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "entrain/net/wire.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

enum class FrameType : uint32_t {
  kData = 1,     // tag: the message's
  kAbort = 2,    // tag: the rank at fault; payload: the reason
  kGoodbye = 3,  // nothing more will come, and that is in order
  kPing = 4,     // this process lives
};

constexpr size_t kMaxAbortReason = 4096;

struct FrameHeader {
  static constexpr size_t kSize = 20;
  using Wire = std::array<std::byte, kSize>;

  FrameType type = FrameType::kData;
  Tag tag = 0;
  uint64_t length = 0;

  Wire encode() const {
    Wire wire;
    net::store_le(wire.data(), static_cast<uint32_t>(type), 4);
    net::store_le(wire.data() + 4, tag, 8);
    net::store_le(wire.data() + 12, length, 8);
    return wire;
  }

  // Nothing when no such frame may exist.
  static std::optional<FrameHeader> decode(const std::byte* wire) {
    const FrameHeader header{static_cast<FrameType>(net::load_le(wire, 4)), net::load_le(wire + 4, 8),
                             net::load_le(wire + 12, 8)};
    switch (header.type) {
      case FrameType::kData:
        return header;
      case FrameType::kAbort:
        return header.length <= kMaxAbortReason ? std::optional(header) : std::nullopt;
      case FrameType::kGoodbye:
      case FrameType::kPing:
        return header.length == 0 ? std::optional(header) : std::nullopt;
    }
    return std::nullopt;
  }
};

}  // namespace entrain::transport
