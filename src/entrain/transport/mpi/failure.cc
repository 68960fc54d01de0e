// MpiRank's progress thread: the first failure, deadlines, and how the job ends.
//
// MPI knows no way out of a job that failed: a message that is under way cannot be taken back, and
// MPI_Finalize waits for every rank, for ever if one of them hangs. So:
//   - A failure is told to every peer (ABORT), and every rank goes on receiving, so that what is under way
//   ends.
//     What has not ended after kMpiLinger never will: then MPI is not called any more, for it would touch
//     memory that its owner takes back.
//   - A rank that closes says GOODBYE to every other one, and calls MPI_Finalize once all have said so to it;
//     that cannot hang. After a failure, goodbyes are awaited for kFarewell, and MPI_Finalize is left out
//     when one is missing: the process ends with its error, and the launcher ends the others.
#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {
namespace {

constexpr auto kMpiLinger = std::chrono::milliseconds(1000);
constexpr auto kFarewell = std::chrono::seconds(5);

}  // namespace

// The first failure wins: all that is posted ends with it, and every peer is told.
void MpiRank::fail(std::exception_ptr error) {
  if (failed_) return;
  failed_ = true;
  linger_ = Clock::now() + kMpiLinger;
  std::vector<Done> doomed;
  const auto doom = [&](Posted& op) { doomed.push_back(std::move(op.done)); };
  {
    std::lock_guard lock(mutex_);
    error_ = error;
    table_.for_each_recv(doom);
    table_.clear();
    for (auto& queue : queues_) {
      for (auto& [priority, out] : queue) doom(*out->op);
      queue.clear();
    }
    for (auto& p : peers_) {
      for (auto& incoming : p->in) {
        if (incoming->direct || !incoming->recv) continue;  // MPI still fills its memory
        doom(*incoming->recv);
        incoming->recv.reset();
      }
    }
  }
  // First those who wait here: telling others may fail, too.
  for (Done& done : doomed) done({.peer = kAnyPeer, .payload = {}, .error = error});
  for (int peer = 0; peer < size(); ++peer) tell(peer, error);
}

// Only what needs this peer ends. What is under way uses memory of ours (see start_send, on_data), and may go
// on. A receive from any peer whose message is cut short waits for another.
void MpiRank::lose(int peer, std::exception_ptr error) {
  Peer& p = *peers_[peer];
  if (p.lost || failed_) return;
  p.lost = true;
  std::vector<Done> doomed;
  std::vector<std::pair<PostedRecv, std::shared_ptr<Incoming>>> others;
  {
    std::lock_guard lock(mutex_);
    gone_[peer] = true;
    lost_[peer] = error;
    for (auto& [priority, out] : queues_[peer]) doomed.push_back(std::move(out->op->done));
    queues_[peer].clear();
    table_.erase_arrivals([&](int sender, const auto& each) { return sender == peer && !each->complete; });
    for (auto& incoming : p.in) {
      if (!incoming->recv || incoming->direct) continue;
      PostedRecv recv = std::move(*incoming->recv);
      incoming->recv.reset();
      if (recv.peer != kAnyPeer) {
        doomed.push_back(std::move(recv.done));
      } else if (auto other = match(recv)) {
        others.emplace_back(std::move(recv), std::move(other));
      }
    }
  }
  for (auto& out : p.out) {
    if (!out->op || out->copy.size() == 0) continue;
    doomed.push_back(std::move(out->op->done));
    out->op.reset();
  }
  tell(peer, error);
  for (Done& done : doomed) done({.peer = peer, .payload = {}, .error = error});
  for (auto& [recv, other] : others) deliver(std::move(recv), *other);
  end_hopeless();
}

// Tells a peer why this rank has failed, or has given that peer up.
void MpiRank::tell(int peer, std::exception_ptr error) {
  Peer& p = *peers_[peer];
  if (peer == rank_ || p.told || p.goodbye_sent) return;
  p.told = true;
  const auto [culprit, reason] = abort_of(error);
  // Sign-extended through the unsigned tag, so that "no rank in particular" survives.
  send_control(peer, {.type = Type::kAbort, .tag = static_cast<Tag>(static_cast<int64_t>(culprit))}, reason);
}

void MpiRank::on_abort(int peer, const Header& header, const std::string& reason) {
  // Where losses are tolerated, whomever that peer blames: it is the one that ends.
  if (tolerant_) {
    return lose(peer,
                std::make_exception_ptr(PeerError(peer, fmt::format("rank {} ended: {}", peer, reason))));
  }
  fail(std::make_exception_ptr(PeerError(static_cast<int>(header.tag), reason)));
}

// The peer closes, and all that it sent has come.
void MpiRank::on_goodbye(int peer) {
  Peer& p = *peers_[peer];
  p.ended = true;
  if (failed_ || p.lost) return;
  if (tolerant_ && !closing_) {
    return lose(peer, std::make_exception_ptr(PeerError(peer, fmt::format("rank {} has ended", peer))));
  }
  {
    std::lock_guard lock(mutex_);
    gone_[peer] = true;
  }
  const std::string need = describe_need(peer);
  if (!need.empty()) fail(gone_error(rank_, peer, need));
}

// The operation that has waited longest for this peer, or nothing. Messages that MPI has will still be taken.
std::string MpiRank::describe_need(int peer) {
  std::lock_guard lock(mutex_);
  const PostedRecv* recv = table_.oldest_recv([&](const PostedRecv& each) {
    return each.peer == peer || (each.peer == kAnyPeer && is_gone(kAnyPeer));
  });
  if (recv) return describe_recv(*recv);
  const auto& queue = queues_[peer];
  return queue.empty() ? "" : describe_send(*queue.begin()->second->op);
}

std::exception_ptr MpiRank::blame(int suspect, const std::string& what) const {
  int silent = -1;
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& p = *peers_[peer];
    if (peer == rank_ || p.goodbye_heard || p.lost) continue;
    if (silent < 0 || p.heard.load() < peers_[silent]->heard.load()) silent = peer;
  }
  const double silence = silent < 0 ? 0 : seconds_since(peers_[silent]->heard.load());
  if (silence < kSilence_s) return std::make_exception_ptr(PeerError(suspect, what));
  return std::make_exception_ptr(
      PeerError(silent, fmt::format("rank {} has been silent for {:.0f} s: {}", silent, silence, what)));
}

void MpiRank::for_each_send(const std::function<void(const Posted&)>& visit) {
  for (const auto& queue : queues_) {
    for (const auto& [priority, out] : queue) visit(*out->op);
  }
  for (const auto& p : peers_) {
    for (const auto& out : p->out) {
      if (out->op) visit(*out->op);
    }
  }
}

void MpiRank::for_each_receive(const std::function<void(const Posted&)>& visit) {
  for (const auto& p : peers_) {
    for (const auto& incoming : p->in) {
      if (incoming->recv) visit(*incoming->recv);
    }
  }
}

void MpiRank::begin_close(const std::string& reason) {
  closing_ = true;
  if (!reason.empty()) fail(closed_error(rank_, reason));
  if (failed_) return;
  std::vector<Done> ended;
  {
    std::lock_guard lock(mutex_);
    table_.for_each_recv([&](PostedRecv& recv) { ended.push_back(std::move(recv.done)); });
    table_.clear_recvs();
  }
  for (Done& done : ended) done({.peer = kAnyPeer, .payload = {}, .error = closed_error(rank_, "")});
}

// To each peer when all that was sent to it is out, or nobody there wants it any more.
void MpiRank::say_goodbyes() {
  for (int peer = 0; peer < size(); ++peer) {
    Peer& p = *peers_[peer];
    if (peer == rank_ || p.goodbye_sent) continue;
    if (!failed_ && !p.lost) {
      std::lock_guard lock(mutex_);
      if (!queues_[peer].empty() || !p.out.empty()) continue;
    }
    p.goodbye_sent = true;
    send_control(peer, {.type = Type::kGoodbye}, "");
  }
}

// After a failure: whoever waits for memory that MPI has not given back gets it all the same.
void MpiRank::check_lingering() {
  if (!failed_ || !requests_->usable() || Clock::now() < linger_) return;
  for (const auto& p : peers_) {
    for (const auto& out : p->out) {
      if (out->op) return abandon_mpi();
    }
    for (const auto& incoming : p->in) {
      if (incoming->recv) return abandon_mpi();
    }
  }
}

void MpiRank::abandon_mpi() {
  requests_->abandon();
  std::vector<Done> doomed;
  for (auto& p : peers_) {
    for (auto& out : p->out) {
      if (out->op) doomed.push_back(std::move(out->op->done));
      out->op.reset();
    }
    for (auto& incoming : p->in) {
      if (incoming->recv) doomed.push_back(std::move(incoming->recv->done));
      incoming->recv.reset();
    }
  }
  for (Done& done : doomed) done({.peer = kAnyPeer, .payload = {}, .error = error_});
}

bool MpiRank::finished() {
  if (!closing_) return false;
  if (!requests_->usable()) return true;
  bool all = true, all_but_lost = true;
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& p = *peers_[peer];
    if (peer == rank_ || (p.goodbye_heard && p.goodbye_sent && p.out.empty() && p.in.empty())) continue;
    all = false;
    if (!p.lost) all_but_lost = false;
  }
  all_said_goodbye_ = all;
  if (all) return true;
  if (!failed_ && !all_but_lost) return false;  // the others may work as long as they like
  if (farewell_ == Clock::time_point::max()) farewell_ = Clock::now() + kFarewell;
  return Clock::now() >= farewell_;
}

void MpiRank::finish_mpi() {
  if (all_said_goodbye_) {
    requests_->finish();
  } else {
    log_warn("rank {} leaves without MPI_Finalize, which could hang: not every rank has answered", rank_);
  }
}

}  // namespace entrain::transport
