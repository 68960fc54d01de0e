#include "entrain/collective/executor.h"

#include <algorithm>
#include <unordered_map>

#include "entrain/base/error.h"
#include "entrain/collective/cast.h"

namespace entrain::collective {

using Kind = Program::Kind;

Program compile(const Schedule& schedule, int rank) {
  if (!schedule.times.empty()) fail("a condensed schedule cannot run: it is there to be priced");
  Program program;
  program.chunks.resize(schedule.chunks);
  std::unordered_map<int, int> sent_to, received_from;  // transfers so far, by peer
  // Within a round a rank sends what it had before the round: sends come before receives.
  std::vector<const Transfer*> ordered;
  for (const Transfer& t : schedule.transfers) ordered.push_back(&t);
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Transfer* a, const Transfer* b) {
    return std::pair(a->round, a->from != rank) < std::pair(b->round, b->from != rank);
  });
  for (const Transfer* t : ordered) {
    auto& chunk = program.chunks[t->chunk];
    if (t->from == rank) chunk.push_back({Kind::kSend, t->to, sent_to[t->to]++});
    if (t->to == rank) {
      chunk.push_back({t->reduce ? Kind::kAdd : Kind::kCopy, t->from, received_from[t->from]++});
    }
  }
  return program;
}

size_t segment_size(size_t bytes, size_t chunks, size_t least) {
  if (chunks > 1) return kLargestSegment;
  constexpr size_t kAligned = 64;  // whole elements of any type
  return std::clamp((bytes / 4 + kAligned - 1) / kAligned * kAligned, least, kLargestSegment);
}

Run::Run(const Program& program, Buffer buffer, RunOptions options, transport::Transport& transport,
         EventLoop& loop, std::function<void(std::exception_ptr)> done)
    : program_(program),
      buffer_(std::move(buffer)),
      options_(std::move(options)),
      transport_(transport),
      loop_(loop),
      done_(std::move(done)) {
  const int64_t width = size_of(options_.type);
  const auto elements = static_cast<int64_t>(buffer_.size()) / width;
  const int chunks = static_cast<int>(program_.chunks.size());
  if (options_.segment_bytes == 0) {
    options_.segment_bytes = segment_size(buffer_.size(), program_.chunks.size());
  }
  // Segment by segment across chunks, so that every chunk starts early.
  for (size_t index = 0, added = 1; added > 0; ++index) {
    added = 0;
    for (int c = 0; c < chunks; ++c) {
      const auto [first, last] = chunk_range(elements, chunks, c);
      const size_t begin = static_cast<size_t>(first * width) + index * options_.segment_bytes;
      const auto end = static_cast<size_t>(last * width);
      if (begin >= end || program_.chunks[c].empty()) continue;
      Segment segment{
          begin, std::min(end, begin + options_.segment_bytes), c, static_cast<int>(index), 0, {}, {}, {}};
      segment.arrived.resize(program_.chunks[c].size());
      segment.here.resize(program_.chunks[c].size());
      segments_.push_back(std::move(segment));
      outstanding_ += program_.chunks[c].size();
      ++added;
    }
  }
}

void Run::start() {
  ++outstanding_;  // holds the run open until everything is posted
  for (size_t s = 0; s < segments_.size(); ++s) post_receives(s);
  for (size_t s = 0; s < segments_.size(); ++s) advance(s);
  finish_one(nullptr);
}

transport::Tag Run::tag(const Segment& segment, const Program::Event& event) const {
  return options_.tag | static_cast<transport::Tag>(event.number) << 16 |
         static_cast<transport::Tag>(segment.index);
}

void Run::post_receives(size_t s) {
  const Segment& segment = segments_[s];
  const auto& events = program_.chunks[segment.chunk];
  for (size_t e = 0; e < events.size(); ++e) {
    if (events[e].kind == Kind::kSend) continue;
    // A result overwrites only what this rank has sent on before: nobody could have made
    // it otherwise. So it may go straight to its place. Sums wait for their turn.
    std::vector<transport::Bytes> into;
    if (events[e].kind == Kind::kCopy && !options_.wire) into = buffer_.slice(segment.begin, segment.end);
    ++posted_;
    transport_.post_recv(
        events[e].peer, tag(segment, events[e]), std::move(into), {options_.deadline, options_.what},
        [self = shared_from_this(), s, e](transport::Result result) {
          auto shared = std::make_shared<transport::Result>(std::move(result));
          self->loop_.post([self, s, e, shared] { self->received(s, e, std::move(*shared)); });
        });
  }
}

void Run::sent(std::exception_ptr error) {
  --posted_;
  finish_one(std::move(error));
}

void Run::received(size_t s, size_t event, transport::Result result) {
  --posted_;
  if (!result.error) {
    Segment& segment = segments_[s];
    segment.arrived[event] = std::move(result.payload);
    segment.here[event] = true;
    advance(s);
  }
  finish_one(result.error);
}

size_t Run::wire_size(const Segment& segment) const {
  const size_t bytes = segment.end - segment.begin;
  if (!options_.wire) return bytes;
  return bytes / static_cast<size_t>(size_of(options_.type)) * static_cast<size_t>(size_of(*options_.wire));
}

// Goes through the segment's events in order as far as they can be done.
void Run::advance(size_t s) {
  Segment& segment = segments_[s];
  const auto& events = program_.chunks[segment.chunk];
  for (; segment.next < events.size(); ++segment.next) {
    const Program::Event& event = events[segment.next];
    if (event.kind == Kind::kSend) {
      send(segment, event);
      continue;
    }
    if (!segment.here[segment.next]) return;
    if (!take_in(segment, event, std::move(segment.arrived[segment.next]))) return;
  }
}

void Run::send(Segment& segment, const Program::Event& event) {
  std::vector<transport::ConstBytes> data;
  if (!options_.wire) {
    data = buffer_.const_slice(segment.begin, segment.end);
  } else {
    if (!segment.encoded) {
      segment.encoded = std::make_shared<transport::Payload>(wire_size(segment));
      const auto values = buffer_.slice(segment.begin, segment.end);
      count_saturated(encode(*options_.wire, values, segment.encoded->bytes().data()), options_.what);
    }
    data = {segment.encoded->bytes()};
  }
  ++posted_;
  transport_.post_send(event.peer, tag(segment, event), std::move(data),
                       {options_.priority, options_.deadline, options_.what},
                       [self = shared_from_this(), kept = segment.encoded](transport::Result result) {
                         self->loop_.post([self, error = result.error] { self->sent(error); });
                       });
}

// What a peer sent, into the buffer. False: it cannot be; the job has been given up.
bool Run::take_in(Segment& segment, const Program::Event& event, transport::Payload payload) {
  if (event.kind == Kind::kCopy && !options_.wire) return true;  // it is there
  if (payload.size() != wire_size(segment)) {
    transport_.give_up(
        event.peer,
        fmt::format("rank {} sent {} bytes where rank {} expects {}: {}; the ranks "
                    "run different jobs",
                    event.peer, payload.size(), transport_.rank(), wire_size(segment), options_.what));
    return false;
  }
  const auto into = buffer_.slice(segment.begin, segment.end);
  if (!options_.wire) {
    add(options_.type, into, payload.bytes());
  } else if (event.kind == Kind::kAdd) {
    decode_add(*options_.wire, payload.bytes(), into);
    segment.encoded = nullptr;
  } else {
    decode(*options_.wire, payload.bytes(), into);
    segment.encoded = std::make_shared<transport::Payload>(std::move(payload));  // may be passed on as it is
  }
  return true;
}

void Run::finish_one(std::exception_ptr error) {
  if (!done_) return;
  if (!error && --outstanding_ > 0) return;
  const auto done = std::move(done_);
  done_ = nullptr;
  done(error);
}

int Run::waiting_for() const {
  for (const Segment& segment : segments_) {
    const auto& events = program_.chunks[segment.chunk];
    if (segment.next < events.size()) return events[segment.next].peer;
  }
  return -1;
}

void execute(const Schedule& schedule, Buffer buffer, RunOptions options, transport::Transport& transport) {
  const Program program = compile(schedule, transport.rank());
  EventLoop loop;
  bool finished = false;
  std::exception_ptr error;
  const auto run = std::make_shared<Run>(program, std::move(buffer), std::move(options), transport, loop,
                                         [&](std::exception_ptr result) {
                                           finished = true;
                                           error = result;
                                         });
  loop.post([&] { run->start(); });
  while (!finished || !run->settled()) loop.run_some(Deadline::never());
  if (error) std::rethrow_exception(error);
}

}  // namespace entrain::collective
