// Executes one rank's side of a schedule over a transport.
//
// Chunks are cut into segments, and each segment goes through its chunk's transfers on its
// own: segment 5 may be in round 0 while segment 0 is in round 3. Thus all links stay busy
// after the first segment's way through the schedule:
//
//   time       ──▶            with 4 segments, a ring's chunk at one rank
//   receive    0 1 2 3
//   add, send    0 1 2 3
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "entrain/base/event_loop.h"
#include "entrain/collective/buffer.h"
#include "entrain/collective/reduce.h"
#include "entrain/collective/schedule.h"
#include "entrain/transport/transport.h"

namespace entrain::collective {

// What one rank does with each chunk, in order.
struct Program {
  enum class Kind { kSend, kAdd, kCopy };
  struct Event {
    Kind kind;
    int peer;
    int number;  // of the transfers between the same two ranks: both sides know the message by it
  };
  std::vector<std::vector<Event>> chunks;
};
Program compile(const Schedule& schedule, int rank);

// Into how large segments a buffer's chunks are cut: not so large that a long one starts late. Where all is
// one chunk, as at a parameter server, into quarters, so that the answer is on its way while the workers
// still send; but not so small that messages cost more than that hides. Several chunks are on their way at
// once as they are.
inline constexpr size_t kLeastSegment = 64 << 10, kLargestSegment = 512 << 10;
size_t segment_size(size_t bytes, size_t chunks, size_t least = kLeastSegment);

struct RunOptions {
  transport::Tag tag = 0;  // of this run; the low 32 bits are the executor's
  Type type = Type::kFloat32;
  std::optional<Type> wire;  // what float32 travels as (cast.h); unset: as it is
  int priority = 0;          // lower goes first
  std::string what;          // named in errors: "all-reduce of fc1.weight"
  size_t segment_bytes = 0;  // 0: segment_size()
  Deadline deadline = Deadline::never();
};

// One run of a program over one buffer. All methods, and the callback, on the loop's thread.
class Run : public std::enable_shared_from_this<Run> {
 public:
  // `done` gets null, or the first error. `program` and the buffer's memory outlive the run.
  Run(const Program& program, Buffer buffer, RunOptions options, transport::Transport& transport,
      EventLoop& loop, std::function<void(std::exception_ptr)> done);
  void start();

  // A rank whose message has not come yet, or -1.
  int waiting_for() const;
  // Whether every operation that it has posted is over: after an error, some may still be to come.
  bool settled() const { return posted_ == 0; }

 private:
  struct Segment {
    size_t begin, end;  // bytes of the buffer
    int chunk;
    int index;                                // within the chunk
    size_t next = 0;                          // first event that is not done
    std::vector<transport::Payload> arrived;  // by event; only sums are kept here, and what is to be decoded
    std::vector<bool> here;                   // by event
    std::shared_ptr<transport::Payload>
        encoded;  // the segment as it travels; null: not made, or changed since
  };

  void post_receives(size_t s);
  void send(Segment& segment, const Program::Event& event);
  bool take_in(Segment& segment, const Program::Event& event, transport::Payload payload);
  size_t wire_size(const Segment& segment) const;
  void advance(size_t s);
  void sent(std::exception_ptr error);
  void received(size_t s, size_t event, transport::Result result);
  void finish_one(std::exception_ptr error);
  transport::Tag tag(const Segment& segment, const Program::Event& event) const;

  const Program& program_;
  Buffer buffer_;
  RunOptions options_;
  transport::Transport& transport_;
  EventLoop& loop_;
  std::function<void(std::exception_ptr)> done_;
  std::vector<Segment> segments_;
  size_t outstanding_ = 0;  // sends and receives that have not completed
  size_t posted_ = 0;       // of those, that the transport has
};

// Runs one schedule and waits. Throws its error.
void execute(const Schedule& schedule, Buffer buffer, RunOptions options, transport::Transport& transport);

}  // namespace entrain::collective
