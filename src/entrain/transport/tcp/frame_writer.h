// The frames a connection is writing: chosen, in order, no longer to be overtaken.
#pragma once

#include <deque>
#include <optional>

#include "entrain/net/channel.h"
#include "entrain/transport/posted.h"
#include "entrain/transport/tcp/frame.h"
#include "entrain/transport/tcp/span_cursor.h"

namespace entrain::transport {

// A frame to send: a posted message, or a control frame that owns its text.
struct OutFrame {
  FrameHeader header;
  std::vector<ConstBytes> data;
  std::optional<Posted> op;  // none: a control frame
  std::string text;          // a control frame's payload
};

// Used by one thread.
class FrameWriter {
 public:
  void push(OutFrame frame);

  bool empty() const { return frames_.empty(); }
  size_t bytes_left() const { return bytes_left_; }

  struct Outcome {
    size_t bytes = 0;
    bool blocked = false;  // the socket takes no more for now
    int error = 0;
  };
  // One call of the channel, at most `limit` bytes. Frames that were finished are appended to `finished`.
  Outcome write(net::Channel& channel, size_t limit, std::vector<OutFrame>& finished);

  // Gives back every frame of which nothing has been written yet. One that is half written must be
  // completed (the peer counts on its length) or the connection closed.
  std::vector<OutFrame> take_untouched();
  std::vector<OutFrame> take_all();

  template <typename Visit>
  void for_each_op(Visit visit) const {
    for (const Active& active : frames_) {
      if (active.frame.op) visit(*active.frame.op);
    }
  }

 private:
  struct Active {
    OutFrame frame;
    FrameHeader::Wire wire;
    SpanCursor<ConstBytes> cursor;
    bool touched = false;
  };
  std::deque<Active> frames_;  // a deque: cursors point into `wire` and `text`, which must not move
  size_t bytes_left_ = 0;
};

}  // namespace entrain::transport
