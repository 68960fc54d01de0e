#include "entrain/plan/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <set>
#include <tuple>

#include "entrain/pipeline/plan/remat.h"

namespace entrain::plan {
namespace {

using pipeline::Kind;
using pipeline::Pass;
using pipeline::Work;
using strategy::Shape;

size_t rank_count(const Shape& shape) { return static_cast<size_t>(shape.ranks().back()) + 1; }

// Each cell and replica keeps its last micro-batch with "except-last".
class Recomputed {
 public:
  Recomputed(const Shape& shape, const Assignment& assignment) : remat_(shape.remat) {
    for (int c = 0; c < assignment.cells(); ++c) {
      auto& last = last_.emplace_back(shape.cells[static_cast<size_t>(c)].ranks.size());
      const auto& replicas = assignment.replica_of[static_cast<size_t>(c)];
      for (int m = 0; m < assignment.count(); ++m)
        last[static_cast<size_t>(replicas[static_cast<size_t>(m)])] = m;
      replica_of_.push_back(replicas);
    }
  }
  bool operator()(const Work& work) const {
    if (remat_ != pipeline::Remat::kExceptLast) return remat_ == pipeline::Remat::kAlways;
    const auto c = static_cast<size_t>(work.cell);
    return last_[c][static_cast<size_t>(replica_of_[c][static_cast<size_t>(work.micro_batch)])] !=
           work.micro_batch;
  }

 private:
  pipeline::Remat remat_;
  std::vector<std::vector<int>> last_;        // by cell and replica
  std::vector<std::vector<int>> replica_of_;  // by cell and micro-batch
};

// The ranks of a row, if every micro-batch goes through the same row of ranks from cell to cell, cell c on
// device c % K: K, or 0.
int devices_of_rows(const Shape& shape, const Assignment& assignment) {
  const auto& cells = shape.cells;
  for (const auto& replicas : assignment.replica_of) {
    if (replicas != assignment.replica_of.front()) return 0;
  }
  size_t devices = 1;
  while (devices < cells.size() && cells[devices].ranks != cells[0].ranks) ++devices;
  if (cells.size() % devices != 0 || (cells.size() > devices && shape.schedule != "interleaved")) return 0;
  std::set<int> seen;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (cells[c].replicas() != cells[0].replicas() || cells[c].ranks != cells[c % devices].ranks) return 0;
    if (c >= devices) continue;
    for (const int rank : cells[c].ranks) {
      if (!seen.insert(rank).second) return 0;
    }
  }
  return static_cast<int>(devices);
}

std::vector<std::vector<Pass>> by_rows(const Shape& shape, const Assignment& assignment, int devices) {
  const Recomputed recomputed(shape, assignment);
  std::vector<std::vector<Pass>> passes(rank_count(shape));
  const int chunks = static_cast<int>(shape.cells.size()) / devices;
  for (int r = 0; r < shape.cells[0].replicas(); ++r) {
    const auto own = assignment.of_replica(0, r);
    const auto schedule =
        pipeline::make_schedule(shape.schedule, devices, static_cast<int>(own.size()), chunks);
    for (size_t d = 0; d < schedule.work.size(); ++d) {
      auto& list = passes[static_cast<size_t>(shape.cells[d].ranks[static_cast<size_t>(r)])];
      for (Work work : schedule.work[d]) {
        work.micro_batch = own[static_cast<size_t>(work.micro_batch)];
        list.push_back({work, recomputed(work)});
      }
    }
  }
  return passes;
}

// List scheduling, as the header says.
class ListScheduler {
 public:
  ListScheduler(const Shape& shape, const Assignment& assignment)
      : assignment_(assignment),
        recomputed_(shape, assignment),
        drains_(shape.schedule == "gpipe"),
        ranks_(rank_count(shape)) {
    double behind = 0;  // replicas of this cell and those after it
    for (size_t c = shape.cells.size(); c-- > 0;) {
      const double replicas = shape.cells[c].replicas();
      behind += replicas;
      limits_.insert(limits_.begin(), static_cast<int>(std::ceil(behind / replicas - 1e-9)));
      in_flight_.emplace_back();
    }
    for (size_t c = 0; c < shape.cells.size(); ++c) {
      in_flight_[c].assign(shape.cells[c].ranks.size(), 0);
      for (int m = 0; m < assignment.count(); ++m) {
        ++ranks_[rank_of(static_cast<int>(c), m)].forwards_left;
        if (c == 0) ready({Kind::kForward, 0, m});
      }
    }
  }

  std::vector<std::vector<Pass>> run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) start(rank, 0);
    while (!running_.empty()) {
      const int now = running_.top().end;
      std::set<size_t> touched;
      while (!running_.empty() && running_.top().end == now) {
        const Running ended = running_.top();
        running_.pop();
        ranks_[ended.rank].busy = false;
        touched.insert(ended.rank);
        finish(ended.work, touched);
      }
      for (const size_t rank : touched) start(rank, now);
    }
    std::vector<std::vector<Pass>> passes;
    for (auto& rank : ranks_) passes.push_back(std::move(rank.passes));
    return passes;
  }

 private:
  static constexpr int kForwardSlots = 1, kBackwardSlots = 2;
  struct Rank {
    std::set<std::pair<int, int>> forwards;   // ready: (-cell, micro-batch), the deepest first
    std::set<std::pair<int, int>> backwards;  // (micro-batch, cell)
    int forwards_left = 0;
    bool busy = false;
    std::vector<Pass> passes;
  };
  struct Running {
    int end;
    size_t rank;
    Work work;
    bool operator>(const Running& other) const {
      return std::tie(end, rank) > std::tie(other.end, other.rank);
    }
  };

  size_t rank_of(int cell, int m) const {
    return static_cast<size_t>(assignment_.rank_of[static_cast<size_t>(cell)][static_cast<size_t>(m)]);
  }
  int& in_flight(const Work& work) {
    const auto c = static_cast<size_t>(work.cell);
    return in_flight_[c]
                     [static_cast<size_t>(assignment_.replica_of[c][static_cast<size_t>(work.micro_batch)])];
  }

  void ready(const Work& work) {
    Rank& rank = ranks_[rank_of(work.cell, work.micro_batch)];
    if (work.kind == Kind::kForward) {
      rank.forwards.insert({-work.cell, work.micro_batch});
    } else {
      rank.backwards.insert({drains_ ? -work.micro_batch : work.micro_batch, work.cell});
    }
  }

  void finish(const Work& work, std::set<size_t>& touched) {
    const int last = assignment_.cells() - 1;
    const auto open = [&](const Work& next) {
      ready(next);
      touched.insert(rank_of(next.cell, next.micro_batch));
    };
    if (work.kind == Kind::kBackward) {
      --in_flight(work);
      if (work.cell > 0) open({Kind::kBackward, work.cell - 1, work.micro_batch});
    } else if (work.cell < last) {
      open({Kind::kForward, work.cell + 1, work.micro_batch});
    } else {
      open({Kind::kBackward, last, work.micro_batch});
    }
  }

  // The best pass that this rank may begin; takes it out.
  bool choose(Rank& rank, Work& chosen) {
    const bool backward = !rank.backwards.empty() && (!drains_ || rank.forwards_left == 0);
    if (backward) {
      const auto [m, cell] = *rank.backwards.begin();
      rank.backwards.erase(rank.backwards.begin());
      chosen = {Kind::kBackward, cell, drains_ ? -m : m};
      return true;
    }
    for (auto it = rank.forwards.begin(); it != rank.forwards.end(); ++it) {
      const Work work{Kind::kForward, -it->first, it->second};
      if (!drains_ && in_flight(work) >= limits_[static_cast<size_t>(work.cell)]) continue;
      rank.forwards.erase(it);
      --rank.forwards_left;
      ++in_flight(work);
      chosen = work;
      return true;
    }
    return false;
  }

  void start(size_t number, int now) {
    Rank& rank = ranks_[number];
    Work work{};
    if (rank.busy || !choose(rank, work)) return;
    rank.busy = true;
    rank.passes.push_back({work, recomputed_(work)});
    running_.push({now + (work.kind == Kind::kForward ? kForwardSlots : kBackwardSlots), number, work});
  }

  const Assignment& assignment_;
  Recomputed recomputed_;
  bool drains_;
  std::vector<int> limits_;                  // by cell
  std::vector<std::vector<int>> in_flight_;  // by cell and replica
  std::vector<Rank> ranks_;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
};

}  // namespace

std::vector<std::vector<Pass>> make_passes(const Shape& shape, const Assignment& assignment) {
  const int devices = devices_of_rows(shape, assignment);
  if (devices > 0) return by_rows(shape, assignment, devices);
  return ListScheduler(shape, assignment).run();
}

std::string draw(const std::vector<std::vector<Pass>>& passes) {
  std::string picture;
  for (size_t rank = 0; rank < passes.size(); ++rank) {
    picture += fmt::format("rank {} |", rank);
    for (const Pass& pass : passes[rank]) {
      const char kind = pass.work.kind == Kind::kForward ? 'F' : pass.recompute ? 'R' : 'B';
      picture += fmt::format(" {}{}/{}", kind, pass.work.micro_batch, pass.work.cell);
    }
    picture += '\n';
  }
  return picture;
}

}  // namespace entrain::plan
