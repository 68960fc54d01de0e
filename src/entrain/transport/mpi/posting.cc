// MpiRank as its users see it: made, posting from any thread, unmade.
#include "entrain/base/error.h"
#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {

MpiRank::MpiRank(int rank, int world, std::unique_ptr<Requests> requests)
    // After a receive an answer is likely, and a long sleep the wrong way to await it.
    : ThreadedRank(rank, world, Wake::kForEveryReceive),
      queues_(static_cast<size_t>(world)),
      requests_(std::move(requests)) {
  for (int i = 0; i < world; ++i) peers_.push_back(std::make_unique<Peer>());
  std::promise<void> started;
  thread_ = std::thread([&] { run(started); });
  own_thread_ = thread_.get_id();
  try {
    started.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

MpiRank::~MpiRank() {
  // A rank that is unwinding has not finished its work: its peers must not take it for an orderly end.
  close(std::uncaught_exceptions() > 0 ? "it failed" : "");
}

void MpiRank::post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) {
  check_peer(*this, peer, false);
  auto out = std::make_shared<Outgoing>();
  out->peer = peer;
  out->header = {Type::kData, tag, total_size(data)};
  out->data = std::move(data);
  out->op = Posted{peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  std::unique_lock lock(mutex_);
  if (refuse(lock, out->op->done)) return;
  watch(options.deadline);
  if (gone_[peer] && end_send(lock, *out->op)) return;
  queues_[peer].emplace(options.priority, std::move(out));
  dirty_.push_back(peer);
  wake(lock);
}

}  // namespace entrain::transport
