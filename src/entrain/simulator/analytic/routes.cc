#include "entrain/simulator/analytic/routes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace entrain::simulator {
namespace {

struct Leg {
  collective::Transfer transfer;
  double share;
  double messages = 1;
};

void sort_gates_by_sender(Route& route) {
  for (size_t g = 0; g < route.gates.size(); ++g) route.gates_by_sender.push_back(static_cast<int>(g));
  std::stable_sort(route.gates_by_sender.begin(), route.gates_by_sender.end(),
                   [&](int a, int b) { return route.gates[a].rank < route.gates[b].rank; });
  for (size_t i = 0; i < route.gates_by_sender.size(); ++i) {
    const int rank = route.gates[route.gates_by_sender[i]].rank;
    if (!route.senders.empty() && route.senders.back() == rank) continue;
    route.senders.push_back(rank);
    route.first_gate.push_back(static_cast<int>(i));
  }
  route.first_gate.push_back(static_cast<int>(route.gates.size()));
}

// A rank sends in a round what it has after all that came to it in earlier ones (schedule.h). `owners`: who
// has a part of the message, ascending.
Route compile(const std::vector<Leg>& legs, int chunks, const std::vector<int>& owners) {
  Route route;
  route.chunks = std::max(1, chunks);
  using Place = std::pair<int, int>;                              // chunk, rank
  std::map<std::tuple<int, int, int>, std::vector<size_t>> sent;  // by chunk, rank, round
  std::map<Place, std::vector<int>> came;                         // rounds
  std::map<Place, std::vector<std::pair<int, int>>> gates_at;     // (round, gate)
  std::map<Place, int> deepest;                                   // of what has come there
  std::vector<std::pair<int, int>> arrivals;                      // by hop: chunk and round
  for (size_t i = 0; i < legs.size(); ++i) {
    const auto& t = legs[i].transfer;
    sent[{t.chunk, t.from, t.round}].push_back(i);
    came[{t.chunk, t.to}].push_back(t.round);
    int& depth = deepest[{t.chunk, t.to}];
    depth = std::max(depth, 1 + deepest[{t.chunk, t.from}]);
    route.depth = std::max(route.depth, depth);
  }
  for (const auto& [key, members] : sent) {
    const auto& [chunk, rank, round] = key;
    const auto& rounds = came[{chunk, rank}];
    const auto needs =
        std::count_if(rounds.begin(), rounds.end(), [r = round](int before) { return before < r; });
    gates_at[{chunk, rank}].emplace_back(round, static_cast<int>(route.gates.size()));
    route.gates.push_back({rank, static_cast<int>(needs), static_cast<int>(route.hops.size()),
                           static_cast<int>(members.size()),
                           std::binary_search(owners.begin(), owners.end(), rank)});
    for (const size_t i : members) {
      const auto& t = legs[i].transfer;
      route.hops.push_back({t.from, t.to, legs[i].share, t.reduce, 0, 0, legs[i].messages});
      arrivals.emplace_back(t.chunk, t.round);
    }
  }
  for (size_t h = 0; h < route.hops.size(); ++h) {
    Hop& hop = route.hops[h];
    hop.opens = static_cast<int>(route.opens.size());
    for (const auto& [round, gate] : gates_at[{arrivals[h].first, hop.to}]) {
      if (round > arrivals[h].second) route.opens.push_back(gate);
    }
    hop.opens_count = static_cast<int>(route.opens.size()) - hop.opens;
  }
  sort_gates_by_sender(route);
  return route;
}

Route dense(const plan::Message& message) {
  const collective::Schedule& schedule = *message.schedule;
  std::vector<Leg> legs;
  for (size_t i = 0; i < schedule.transfers.size(); ++i) {
    const double times = schedule.times.empty() ? 1 : schedule.times[i];
    legs.push_back({schedule.transfers[i], times, times});
  }
  Route route = compile(legs, schedule.chunks, *message.ranks);
  if (!schedule.times.empty()) {
    route.hidden_rounds = schedule.hidden_rounds;
    route.depth = schedule.rounds() + schedule.hidden_rounds;
  }
  return route;
}

}  // namespace

// Bytes are those of one worker's rows; a server answers each with the rows of all.
Route Routes::sparse(const plan::Message& message) const {
  const std::vector<int>& workers = *message.ranks;
  std::vector<Leg> legs;
  const bool server = message.exchange == plan::Exchange::kSparseServer;
  const size_t n = workers.size();
  for (size_t i = 0; !server && n > static_cast<size_t>(most_exact_) && i < n; ++i) {
    const auto others = static_cast<double>(n - 1);
    legs.push_back({{0, workers[i], workers[(i + n / 2) % n], 0, true}, others, others});
  }
  if (!legs.empty()) return compile(legs, 1, workers);
  for (const int worker : workers) {
    if (server) {
      if (worker != message.root) legs.push_back({{0, worker, message.root, 0, true}, 1});
      continue;
    }
    for (const int other : workers) {
      if (other != worker) legs.push_back({{0, worker, other, 0, true}, 1});
    }
  }
  if (server) {
    for (const int worker : workers) {
      if (worker == message.root) continue;
      legs.push_back({{1, message.root, worker, 0, true}, static_cast<double>(workers.size())});
    }
  }
  return compile(legs, 1, workers);
}

std::span<const int> Route::gates_of(int rank) const {
  const auto at = std::lower_bound(senders.begin(), senders.end(), rank);
  if (at == senders.end() || *at != rank) return {};
  const auto i = static_cast<size_t>(at - senders.begin());
  return {gates_by_sender.data() + first_gate[i], gates_by_sender.data() + first_gate[i + 1]};
}

const Route* Routes::straight(int from, int to) const {
  {
    const std::shared_lock lock(mutex_);
    const auto found = straight_.find({from, to});
    if (found != straight_.end()) return found->second.get();
  }
  Route route = compile({{{0, from, to, 0, false}, 1}}, 1, {from});
  const std::unique_lock lock(mutex_);
  auto& kept = straight_[{from, to}];
  if (!kept) kept = std::make_unique<Route>(std::move(route));
  return kept.get();
}

Routes::Found Routes::find(const plan::Message& message) const {
  const bool scheduled = message.scheduled();
  const double bytes = plan::wire_bytes(message, graph_);
  const std::pair<int, const void*> root{
      message.exchange == plan::Exchange::kSparseServer ? message.root : -1, message.ranks.get()};
  {
    const std::shared_lock lock(mutex_);
    if (scheduled) {
      const auto found = by_schedule_.find(message.schedule.get());
      if (found != by_schedule_.end()) return {found->second.get(), bytes};
    } else {
      const auto found = by_root_.find(root);
      if (found != by_root_.end()) return {found->second.get(), bytes};
    }
  }
  Route route = scheduled ? dense(message) : sparse(message);
  const std::unique_lock lock(mutex_);
  auto& kept = scheduled ? by_schedule_[message.schedule.get()] : by_root_[root];
  if (!kept) {
    route.number = static_cast<int>(by_schedule_.size() + by_root_.size()) - 1;
    kept = std::make_unique<Route>(std::move(route));
  }
  return {kept.get(), bytes};
}

}  // namespace entrain::simulator
