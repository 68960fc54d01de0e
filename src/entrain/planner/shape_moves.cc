#include "entrain/planner/shape_moves.h"

#include <algorithm>
#include <set>

#include "entrain/base/error.h"
#include "entrain/pipeline/plan/remat.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/planner/shares.h"

namespace entrain::planner {
namespace {

using strategy::Cell;
using strategy::Shape;

// Not std::uniform_int_distribution, whose numbers differ among libraries.
size_t below(Rng& rng, size_t count) { return static_cast<size_t>(rng() % count); }

bool has_rank(const Cell& cell, int rank) {
  return std::find(cell.ranks.begin(), cell.ranks.end(), rank) != cell.ranks.end();
}

class Change {
 public:
  Change(const Estimator& estimator, Shape& shape, Rng& rng)
      : estimator_(estimator), shape_(shape), rng_(rng) {}

  // False: it does not suit the shape.
  bool move_cut() {
    if (shape_.cells.size() < 2) return false;
    const size_t c = below(rng_, shape_.cells.size() - 1);
    Cell &left = shape_.cells[c], &right = shape_.cells[c + 1];
    const int by = below(rng_, 3) == 0 ? 2 : 1;
    left.end += below(rng_, 2) == 0 ? by : -by;
    if (left.end <= left.begin || left.end >= right.end) return false;
    right.begin = left.end;
    balance_all();
    return true;
  }

  bool split() {
    const size_t c = below(rng_, shape_.cells.size());
    Cell& left = shape_.cells[c];
    if (left.end - left.begin < 2) return false;
    Cell right = left;
    left.end = right.begin = left.begin + 1 + static_cast<int>(below(rng_, left.end - left.begin - 1));
    const size_t kind = left.replicas() > 1 ? below(rng_, 3) : 3;
    if (kind == 0) {
      const auto half = static_cast<std::ptrdiff_t>(left.ranks.size() / 2);
      right.ranks.assign(left.ranks.begin() + half, left.ranks.end());
      left.ranks.resize(half);
    } else {
      Cell& smaller = kind == 1 ? left : right;
      smaller.ranks = {kind == 3 ? any_worker() : left.ranks[below(rng_, left.ranks.size())]};
    }
    left.shares.clear();
    right.shares.clear();
    shape_.cells.insert(shape_.cells.begin() + static_cast<std::ptrdiff_t>(c) + 1, std::move(right));
    balance_all();
    return true;
  }

  bool merge() {
    if (shape_.cells.size() < 2) return false;
    const size_t c = below(rng_, shape_.cells.size() - 1);
    Cell &left = shape_.cells[c], &right = shape_.cells[c + 1];
    const size_t kind = below(rng_, 3);
    if (kind == 0) {
      for (const int r : right.ranks) {
        if (!has_rank(left, r)) left.ranks.push_back(r);
      }
      std::sort(left.ranks.begin(), left.ranks.end());
    } else if (kind == 1) {
      left.ranks = right.ranks;
    }
    left.shares.clear();
    left.end = right.end;
    shape_.cells.erase(shape_.cells.begin() + static_cast<std::ptrdiff_t>(c) + 1);
    balance_all();
    return true;
  }

  bool add_rank() {
    const size_t c = below(rng_, shape_.cells.size());
    const int rank = any_worker();
    if (has_rank(shape_.cells[c], rank)) return false;
    shape_.cells[c].ranks.push_back(rank);
    balance_all();
    return true;
  }

  bool remove_rank() {
    Cell& cell = any_cell();
    if (cell.replicas() < 2) return false;
    cell.ranks.erase(cell.ranks.begin() + static_cast<std::ptrdiff_t>(below(rng_, cell.ranks.size())));
    balance_all();
    return true;
  }

  bool exchange_rank() {
    Cell& cell = any_cell();
    const int rank = any_worker();
    if (has_rank(cell, rank)) return false;
    cell.ranks[below(rng_, cell.ranks.size())] = rank;
    balance_all();
    return true;
  }

  // In all cells, so that what lies on one rank stays together.
  bool swap_ranks() {
    const int a = any_worker(), b = any_worker();
    if (a == b) return false;
    for (Cell& cell : shape_.cells) {
      for (int& rank : cell.ranks) rank = rank == a ? b : rank == b ? a : rank;
    }
    balance_all();
    return true;
  }

  bool reorder() {
    Cell& cell = any_cell();
    if (cell.replicas() < 2) return false;
    const size_t i = below(rng_, cell.ranks.size()), j = below(rng_, cell.ranks.size());
    std::swap(cell.ranks[i], cell.ranks[j]);
    if (!cell.shares.empty()) std::swap(cell.shares[i], cell.shares[j]);
    return i != j;
  }

  bool change_shares() {
    const size_t c = below(rng_, shape_.cells.size());
    Cell& cell = shape_.cells[c];
    if (cell.replicas() < 2) return false;
    const size_t kind = below(rng_, 4);
    if (kind == 0) {
      rebalance(estimator_, shape_, c);
    } else if (kind == 1) {
      cell.shares.clear();
    } else {
      if (cell.shares.empty()) cell.shares.assign(cell.ranks.size(), 1.0 / cell.replicas());
      const double part = (kind == 2 ? 1.0 : 4.0) / static_cast<double>(estimator_.examples());
      const size_t from = below(rng_, cell.ranks.size()), to = below(rng_, cell.ranks.size());
      if (from == to || cell.shares[from] - part < 0.5 / static_cast<double>(estimator_.examples()))
        return false;
      cell.shares[from] -= part;
      cell.shares[to] += part;
    }
    return true;
  }

  bool change_micro_batches() {
    const int now = shape_.micro_batches_or_default();
    const int choices[] = {
        2 * now, now / 2, now + 1, now - 1, now + shape_.most_replicas(), now - shape_.most_replicas()};
    shape_.micro_batches = choices[below(rng_, 6)];
    return true;
  }

  bool change_remat() {
    shape_.remat = static_cast<pipeline::Remat>(below(rng_, pipeline::remat_names().size()));
    return true;
  }

  bool change_schedule() {
    const auto names = pipeline::schedule_names();
    shape_.schedule = names[below(rng_, names.size())];
    return shape_.cells.size() > 1;
  }

 private:
  Cell& any_cell() { return shape_.cells[below(rng_, shape_.cells.size())]; }
  int any_worker() {
    const auto workers = estimator_.cluster().worker_ranks();
    return workers[below(rng_, workers.size())];
  }
  void balance_all() {
    for (size_t c = 0; c < shape_.cells.size(); ++c) rebalance(estimator_, shape_, c);
  }

  const Estimator& estimator_;
  Shape& shape_;
  Rng& rng_;
};

constexpr bool (Change::*kChanges[])() = {&Change::move_cut,
                                          &Change::move_cut,
                                          &Change::split,
                                          &Change::split,
                                          &Change::merge,
                                          &Change::add_rank,
                                          &Change::remove_rank,
                                          &Change::exchange_rank,
                                          &Change::swap_ranks,
                                          &Change::reorder,
                                          &Change::change_shares,
                                          &Change::change_shares,
                                          &Change::change_micro_batches,
                                          &Change::change_micro_batches,
                                          &Change::change_remat,
                                          &Change::change_schedule};

}  // namespace

void rebalance(const Estimator& estimator, Shape& shape, size_t index) {
  const PassTimes& one = estimator.times(1);
  const auto examples = static_cast<double>(estimator.examples());
  Cell& cell = shape.cells[index];
  cell.shares.clear();
  if (cell.replicas() == 1) return;
  std::vector<double> speeds, busy(cell.ranks.size());
  for (const int r : cell.ranks) speeds.push_back(estimator.speed(r));
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const Cell& other = shape.cells[c];
    for (int r = 0; c != index && r < other.replicas(); ++r) {
      const auto at = std::find(cell.ranks.begin(), cell.ranks.end(), other.ranks[r]);
      if (at == cell.ranks.end()) continue;
      busy[at - cell.ranks.begin()] +=
          examples * other.share(r) * one.both(other.begin, other.end) / estimator.speed(other.ranks[r]);
    }
  }
  give_even_shares(cell, estimator.examples(), one.both(cell.begin, cell.end), speeds, busy);
}

std::optional<Shape> change(const Estimator& estimator, const Shape& shape, Rng& rng) {
  Shape changed = shape;
  Change draw(estimator, changed, rng);
  if (!(draw.*kChanges[below(rng, std::size(kChanges))])()) return std::nullopt;
  changed.micro_batches = std::max(changed.micro_batches_or_default(), changed.most_replicas());
  try {
    strategy::validate(changed, estimator.layers(), estimator.cluster(), estimator.examples());
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (changed == shape) return std::nullopt;
  return changed;
}

}  // namespace entrain::planner
