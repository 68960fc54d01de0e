#include "entrain/plan/assignment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "entrain/base/near_equal.h"

namespace entrain::plan {
namespace {

using strategy::Cell;

// `total` things by the replicas' shares, to the nearest one: at least `least[r]` for replica r. Requires:
// the sum of `least` is at most `total`.
std::vector<int64_t> apportion(const Cell& cell, int64_t total, const std::vector<int64_t>& least) {
  const auto exact = [&](size_t r) { return cell.share(static_cast<int>(r)) * static_cast<double>(total); };
  std::vector<int64_t> parts;
  for (size_t r = 0; r < least.size(); ++r) {
    parts.push_back(std::max(least[r], static_cast<int64_t>(std::floor(exact(r) + 1e-9))));
  }
  const auto missing = [&](size_t r) { return exact(r) - static_cast<double>(parts[r]); };
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (; left > 0; --left) {
    size_t most = 0;
    for (size_t r = 1; r < parts.size(); ++r) {
      if (missing(r) > missing(most) + 1e-9) most = r;
    }
    ++parts[most];
  }
  for (; left < 0; ++left) {  // some got more than their shares, to have the least
    size_t most = parts.size();
    for (size_t r = 0; r < parts.size(); ++r) {
      if (parts[r] > least[r] && (most == parts.size() || missing(r) < missing(most) - 1e-9)) most = r;
    }
    --parts[most];
  }
  return parts;
}

std::vector<int64_t> micro_batches_of(const Cell& cell, int count) {
  return apportion(cell, count, std::vector<int64_t>(cell.ranks.size(), 1));
}

// Fills micro_batches, and returns the anchor's replica for each.
std::vector<int> cut(const Cell& anchor, int count, int64_t examples,
                     std::vector<MicroBatch>& micro_batches) {
  struct Piece {
    double place;
    int replica;
    int64_t examples;
  };
  const auto pieces_of = micro_batches_of(anchor, count);
  const auto examples_of = apportion(anchor, examples, pieces_of);
  std::vector<Piece> pieces;
  for (int r = 0; r < anchor.replicas(); ++r) {
    const int64_t n = pieces_of[static_cast<size_t>(r)], all = examples_of[static_cast<size_t>(r)];
    for (int64_t i = 0; i < n; ++i) {
      pieces.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(n), r,
                        spread_begin(all, n, i + 1) - spread_begin(all, n, i)});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.place < b.place; });
  std::vector<int> replicas;
  int64_t begin = 0;
  for (const Piece& piece : pieces) {
    micro_batches.push_back({begin, piece.examples});
    replicas.push_back(piece.replica);
    begin += piece.examples;
  }
  return replicas;
}

bool same_shares(const Cell& a, const Cell& b) {
  if (a.replicas() != b.replicas()) return false;
  for (int r = 0; r < a.replicas(); ++r) {
    if (std::abs(a.share(r) - b.share(r)) > 1e-9) return false;
  }
  return true;
}

std::vector<int> spread(const Cell& cell, const std::vector<MicroBatch>& micro_batches) {
  auto left = micro_batches_of(cell, static_cast<int>(micro_batches.size()));
  std::vector<double> load(cell.ranks.size());
  std::vector<int> replicas;
  for (const MicroBatch& m : micro_batches) {
    const auto after = [&](size_t r) {
      return (load[r] + static_cast<double>(m.count)) / cell.share(static_cast<int>(r));
    };
    size_t best = load.size();
    for (size_t r = 0; r < load.size(); ++r) {
      if (left[r] > 0 && (best == load.size() || after(r) < after(best) - 1e-9)) best = r;
    }
    --left[best];
    load[best] += static_cast<double>(m.count);
    replicas.push_back(static_cast<int>(best));
  }
  return replicas;
}

}  // namespace

std::vector<int> Assignment::of_replica(int cell, int replica) const {
  const auto& replicas = replica_of[static_cast<size_t>(cell)];
  std::vector<int> result;
  for (int m = 0; m < count(); ++m) {
    if (replicas[static_cast<size_t>(m)] == replica) result.push_back(m);
  }
  return result;
}

Assignment assign(const strategy::Shape& shape, int64_t examples) {
  Assignment result;
  result.examples = examples;
  const auto anchor = std::find_if(shape.cells.begin(), shape.cells.end(), [&](const Cell& cell) {
    return cell.replicas() == shape.most_replicas();
  });
  const auto anchored = cut(*anchor, shape.micro_batches_or_default(), examples, result.micro_batches);
  for (const Cell& cell : shape.cells) {
    result.replica_of.push_back(same_shares(cell, *anchor) ? anchored : spread(cell, result.micro_batches));
    std::vector<int> ranks;
    for (const int r : result.replica_of.back()) ranks.push_back(cell.ranks[static_cast<size_t>(r)]);
    result.rank_of.push_back(std::move(ranks));
  }
  return result;
}

}  // namespace entrain::plan
