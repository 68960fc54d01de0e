// Pairs receives with messages of the same (sender, tag), whichever comes first.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "entrain/transport/posted.h"

namespace entrain::transport {

// The messages of one (sender, tag) are matched in the order of their arrival, receives in the
// order they were posted. A tag rarely holds more than a few of either, so a tag's list is
// searched from its front. Not thread-safe: its owner locks.
template <typename Arrival>
class MatchTable {
 public:
  // A message has come: the receive it belongs to, else the message is kept as `arrival()`.
  template <typename MakeArrival>
  std::optional<PostedRecv> arrive(int peer, Tag tag, MakeArrival arrival) {
    Slot& slot = slots_[tag];
    for (auto it = slot.recvs.begin(); it != slot.recvs.end(); ++it) {
      if (it->peer != peer && it->peer != kAnyPeer) continue;
      PostedRecv recv = std::move(*it);
      slot.recvs.erase(it);
      forget_if_empty(tag, slot);
      return recv;
    }
    slot.arrivals.emplace_back(peer, arrival());
    return std::nullopt;
  }

  // A receive is posted: its message if that has come (`recv` is then untouched), else `recv` is kept.
  std::optional<std::pair<int, Arrival>> post(PostedRecv& recv) {
    Slot& slot = slots_[recv.tag];
    for (auto it = slot.arrivals.begin(); it != slot.arrivals.end(); ++it) {
      if (recv.peer != it->first && recv.peer != kAnyPeer) continue;
      std::pair<int, Arrival> arrival = std::move(*it);
      slot.arrivals.erase(it);
      forget_if_empty(recv.tag, slot);
      return arrival;
    }
    slot.recvs.push_back(std::move(recv));
    return std::nullopt;
  }

  template <typename Visit>
  void for_each_recv(Visit visit) {
    for (auto& [tag, slot] : slots_) {
      for (PostedRecv& recv : slot.recvs) visit(recv);
    }
  }
  template <typename Visit>
  void for_each_arrival(Visit visit) {
    for (auto& [tag, slot] : slots_) {
      for (auto& [peer, arrival] : slot.arrivals) visit(peer, arrival);
    }
  }

  // The longest-waiting receive that `accept` accepts, or null.
  template <typename Accept>
  const PostedRecv* oldest_recv(Accept accept) {
    const PostedRecv* oldest = nullptr;
    for_each_recv([&](PostedRecv& recv) {
      if (accept(recv) && (!oldest || recv.since < oldest->since)) oldest = &recv;
    });
    return oldest;
  }

  // Takes out the receives that `accept` accepts.
  template <typename Accept>
  std::vector<PostedRecv> take_recvs(Accept accept) {
    std::vector<PostedRecv> taken;
    for (auto& [tag, slot] : slots_) {
      std::erase_if(slot.recvs, [&](PostedRecv& recv) {
        const bool takes = accept(recv);
        if (takes) taken.push_back(std::move(recv));
        return takes;
      });
    }
    forget_empty();
    return taken;
  }
  // Throws away the messages, by sender, that `accept` accepts.
  template <typename Accept>
  void erase_arrivals(Accept accept) {
    for (auto& [tag, slot] : slots_) {
      std::erase_if(slot.arrivals, [&](auto& each) { return accept(each.first, each.second); });
    }
    forget_empty();
  }

  void clear() { slots_.clear(); }
  void clear_recvs() {
    for (auto& [tag, slot] : slots_) slot.recvs.clear();
  }

 private:
  struct Slot {
    std::deque<PostedRecv> recvs;
    std::deque<std::pair<int, Arrival>> arrivals;
  };
  void forget_if_empty(Tag tag, const Slot& slot) {
    if (slot.recvs.empty() && slot.arrivals.empty()) slots_.erase(tag);
  }
  void forget_empty() {
    std::erase_if(slots_,
                  [](const auto& each) { return each.second.recvs.empty() && each.second.arrivals.empty(); });
  }
  std::unordered_map<Tag, Slot> slots_;
};

}  // namespace entrain::transport
