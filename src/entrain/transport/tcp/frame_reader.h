// Turns a connection's byte stream into frames, reading payloads straight into their place.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "entrain/net/channel.h"
#include "entrain/transport/tcp/frame.h"
#include "entrain/transport/tcp/span_cursor.h"

namespace entrain::transport {

// Used by one thread.
class FrameReader {
 public:
  // Told of each frame: where its payload goes (pieces of `length` bytes in all), and its end.
  class Handler {
   public:
    virtual std::vector<Bytes> on_header(const FrameHeader& header) = 0;
    virtual void on_frame() = 0;

   protected:
    ~Handler() = default;
  };

  enum class Status { kOpen, kEnd, kFailed, kNonsense };
  struct Outcome {
    Status status = Status::kOpen;
    size_t bytes = 0;
    bool more = false;  // the call was filled: more is probably waiting
    int error = 0;      // errno of kFailed
  };

  // One call of the channel, at most `limit` bytes.
  Outcome read(net::Channel& channel, size_t limit, Handler& handler);

  // From now on everything is thrown away: the memory given so far is no longer ours.
  void discard();

  bool in_payload() const { return in_payload_; }

 private:
  // Small enough that copying out of it costs little, large enough for many small frames per call.
  static constexpr size_t kStaging = 16384;

  bool parse(Handler& handler);

  std::unique_ptr<std::byte[]> staging_{new std::byte[kStaging]};
  size_t begin_ = 0, end_ = 0;  // staged and not yet parsed
  SpanCursor<Bytes> payload_;
  bool in_payload_ = false;
  bool discarding_ = false;
};

}  // namespace entrain::transport
