#include "entrain/planner/colocated.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "entrain/planner/rank_orders.h"
#include "entrain/planner/shares.h"

namespace entrain::planner {
namespace {

using strategy::Cell;
using strategy::Shape;

// A rank's speed, link and memory.
std::tuple<double, double, double> kind_of_rank(const Estimator& estimator, int rank) {
  return {estimator.speed(rank), estimator.link(estimator.host_of(rank)), estimator.memory(rank)};
}

Shape all_layers_on(const Estimator& estimator, const std::vector<int>& ranks, int rounds) {
  Shape shape = strategy::data_parallel(estimator.layers(), ranks);
  std::vector<double> speeds;
  for (const int r : ranks) speeds.push_back(estimator.speed(r));
  give_even_shares(shape.cells[0], estimator.examples(), estimator.times(1).both(0, estimator.layers()),
                   speeds, std::vector<double>(speeds.size()));
  shape.micro_batches = rounds * shape.cells[0].replicas();
  return shape;
}

}  // namespace

std::vector<Shape> whole_models(const Estimator& estimator, const std::vector<std::vector<int>>& orders) {
  std::set<std::vector<int>> sets;
  std::set<std::tuple<double, double, double>> kinds;
  for (const auto& order : orders) {
    std::vector<int> ranks, own;
    for (size_t i = 0; i < order.size(); ++i) {
      ranks.push_back(order[i]);
      own.push_back(order[i]);
      if (kinds.insert(kind_of_rank(estimator, order[i])).second) sets.insert({order[i]});
      if (i + 1 < order.size() && estimator.host_of(order[i + 1]) == estimator.host_of(order[i])) continue;
      for (auto set : {ranks, own}) {
        std::sort(set.begin(), set.end());
        sets.insert(std::move(set));
      }
      own.clear();
    }
  }
  std::vector<Shape> shapes;
  for (const auto& set : sets) {
    for (const int rounds : {1, 2, 4, 8, 16}) {
      Shape shape = all_layers_on(estimator, set, rounds);
      if (shape.micro_batches <= estimator.examples()) shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

Shape around_one_owner(const Estimator& estimator, const std::vector<int>& ranks, int owner, int head,
                       int tail, int micro_batches) {
  const PassTimes& one = estimator.times(1);
  const int layers = estimator.layers();
  Shape shape{{}, 0, "1f1b", pipeline::Remat::kNever};
  Cell middle{head, tail, ranks};
  std::vector<double> speeds, busy;
  const double own = one.both(0, head) + one.both(tail, layers);
  for (const int r : ranks) {
    speeds.push_back(estimator.speed(r));
    busy.push_back(r == owner ? static_cast<double>(estimator.examples()) * own / estimator.speed(r) : 0);
  }
  give_even_shares(middle, estimator.examples(), one.both(head, tail), speeds, busy);
  if (head > 0) shape.cells.push_back({0, head, {owner}});
  shape.cells.push_back(std::move(middle));
  if (tail < layers) shape.cells.push_back({tail, layers, {owner}});
  shape.micro_batches = std::max(micro_batches, shape.most_replicas());
  return shape;
}

std::vector<Shape> co_located(const Estimator& estimator, const std::vector<std::vector<int>>& orders,
                              const std::vector<int>& micro_batches) {
  std::vector<Shape> shapes;
  const int layers = estimator.layers();
  for (const auto& order : orders) {
    for (const int width : cell_widths(estimator, static_cast<int>(order.size()))) {
      if (width < 2) continue;
      const std::vector<int> ranks(order.begin(), order.begin() + width);
      std::set<std::tuple<double, double, double>> kinds;
      for (const int owner : ranks) {
        if (!kinds.insert(kind_of_rank(estimator, owner)).second) continue;
        for (const int m : micro_batches) {
          if (m < width || m > estimator.examples()) continue;
          for (int cut = 1; cut < layers; ++cut) {
            shapes.push_back(around_one_owner(estimator, ranks, owner, 0, cut, m));
            shapes.push_back(around_one_owner(estimator, ranks, owner, cut, layers, m));
          }
        }
      }
    }
  }
  return shapes;
}

}  // namespace entrain::planner
