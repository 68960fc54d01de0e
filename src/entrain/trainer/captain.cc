#include "entrain/trainer/captain.h"

#include <atomic>
#include <utility>

namespace entrain {
namespace {

constexpr transport::Tag kWordTag = transport::kControlTags + 11;

std::atomic<bool> stop_requested{false};

// Lives as long as the send.
std::string_view text_of(Word word) { return word == Word::kStop ? "s" : word == Word::kChange ? "c" : "g"; }

}  // namespace

void request_stop() { stop_requested = true; }
bool stop_was_requested() { return stop_requested; }

Word Captain::word(bool change, bool stop, bool last) {
  if (context_.rank() != 0) {
    if (!std::exchange(started_, true)) return Word::kGo;
    const auto payload =
        transport::recv(*context_.transport, 0, kWordTag, {Deadline::never(), "the word to go on"});
    return static_cast<Word>(transport::as_text(payload.bytes()).at(0));
  }
  const Word now = next_;
  if (now == Word::kStop || last) return now;
  next_ = stop_requested || stop ? Word::kStop : change ? Word::kChange : Word::kGo;
  for (int rank = 1; rank < context_.world(); ++rank) {
    if (!context_.cluster.is_worker(rank)) continue;
    context_.transport->post_send(rank, kWordTag, {transport::as_bytes(text_of(next_))}, {-1}, [](auto) {});
  }
  return now;
}

}  // namespace entrain
