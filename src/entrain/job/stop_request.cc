#include "entrain/job/stop_request.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <exception>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/transport/control_tags.h"

namespace entrain::job {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr int kLeaves = 0;  // in place of a signal: this rank says no more

// One byte.
void post_to_rank_0(transport::Transport& transport, int signal) {
  const auto message = std::make_shared<const std::byte>(static_cast<std::byte>(signal));
  transport.post_send(0, transport::tags::kStopRequest, {{message.get(), 1}}, {-1}, [message](auto) {});
}

}  // namespace

// Filled on the transport's thread, perhaps after the StopRequest is gone.
struct StopRequest::Heard : std::enable_shared_from_this<Heard> {
  explicit Heard(int ranks) : ranks_left(ranks) {}

  // From any rank, and again until all have left: the transport names what a lost rank was needed for, which
  // is never this.
  void listen(transport::Transport& transport) {
    if (ranks_left == 0) return;
    transport.post_recv(transport::kAnyPeer, transport::tags::kStopRequest, {},
                        {Deadline::never(), "a request to stop"},
                        [self = shared_from_this(), &transport](transport::Result result) {
                          if (result.error) return;  // the job has failed, or nobody is left
                          const transport::ConstBytes message = result.payload.bytes();
                          if (!message.empty()) self->take(result.peer, std::to_integer<int>(message[0]));
                          self->listen(transport);
                        });
  }
  void take(int rank, int number) {
    if (number == kLeaves) {
      --ranks_left;
      return;
    }
    int none = 0;
    if (!signal.compare_exchange_strong(none, number) || own_told()) return;
    log_warn("rank {} was told to end by signal {} ({}): the job ends after the step under way", rank, number,
             strsignal(number));
  }

  std::function<bool()> own_told;  // whether rank 0 was told so, too
  std::atomic<int> signal = 0;
  int ranks_left;
};

StopRequest::StopRequest(const Context& context, std::function<int()> told)
    : transport_(context.transport),
      told_(std::move(told)),
      heard_(std::make_shared<Heard>(context.world() - 1)) {
  heard_->own_told = [told = told_] { return told() != 0; };
  if (context.rank() == 0) {
    heard_->listen(*transport_);
  } else {
    thread_ = std::thread([this] { watch(); });
  }
}

// After a failure rank 0 knows more than this.
StopRequest::~StopRequest() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (std::uncaught_exceptions() == 0) post_to_rank_0(*transport_, kLeaves);
}

int StopRequest::signal() const {
  const int own = told_();
  return own != 0 ? own : heard_->signal.load();
}

void StopRequest::watch() {
  pthread_setname_np(pthread_self(), "entrain-stop");
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (const int signal = told_(); signal != 0) return post_to_rank_0(*transport_, signal);
    changed_.wait_for(lock, kLookEvery);
  }
}

}  // namespace entrain::job
