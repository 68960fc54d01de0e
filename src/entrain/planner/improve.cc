#include "entrain/planner/improve.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "entrain/planner/shape_moves.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::Shape;

class LocalSearch {
 public:
  LocalSearch(const Estimator& estimator, const simulator::Simulator& judge, const SyncOf& sync_of,
              const ImproveOptions& options)
      : estimator_(estimator), judge_(judge), sync_of_(sync_of), options_(options), rng_(options.seed) {}

  std::vector<Improved> run(const std::vector<Shape>& starts) {
    std::vector<Shape> fresh;
    for (const Shape& start : starts) add_new(start, fresh);
    score(fresh);
    for (int idle = 0; idle < options_.patience && left() > 0 && !best_.empty();) {
      const double before = best_.front().score;
      const std::vector<Shape> batch = next_batch();
      if (batch.empty()) break;
      score(batch);
      idle = best_.front().score < before ? 0 : idle + 1;
    }
    return best_;
  }

 private:
  int left() const { return options_.evaluations - evaluated_; }

  void add_new(const Shape& shape, std::vector<Shape>& fresh) {
    if (!seen_.insert(strategy::to_text(shape)).second) return;
    if (estimator_.of(shape).fits()) fresh.push_back(shape);
  }

  std::vector<Shape> next_batch() {
    constexpr int kDrawsPerPlace = 12;
    const auto wanted = static_cast<size_t>(std::min(options_.batch, left()));
    std::vector<Shape> drawn;
    for (size_t i = 0; i < kDrawsPerPlace * wanted && drawn.size() < 4 * wanted; ++i) {
      // The better half of the beam twice as often.
      size_t parent = static_cast<size_t>(rng_() % best_.size());
      if (rng_() % 2 == 0) parent /= 2;
      Shape shape = best_[parent].shape;
      for (size_t changes = rng_() % 4 == 0 ? 2 : 1; changes > 0; --changes) {
        if (auto changed = change(estimator_, shape, rng_)) shape = std::move(*changed);
      }
      add_new(shape, drawn);
    }
    if (drawn.size() <= wanted) return drawn;
    std::vector<Shape> batch(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(wanted / 2));
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = batch.size(); i < drawn.size(); ++i)
      order.emplace_back(estimator_.of(drawn[i]).seconds, i);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; batch.size() < wanted; ++i) batch.push_back(drawn[order[i].second]);
    for (size_t i = wanted - wanted / 2; i < order.size(); ++i) {
      seen_.erase(strategy::to_text(drawn[order[i].second]));  // it may come again
    }
    return batch;
  }

  void score(const std::vector<Shape>& shapes) {
    const auto batch = static_cast<size_t>(std::max(options_.batch, 1));
    for (size_t begin = 0; begin < shapes.size() && left() > 0; begin += batch) {
      const size_t end = std::min({begin + batch, shapes.size(), begin + static_cast<size_t>(left())});
      std::vector<strategy::Strategy> strategies;
      for (size_t i = begin; i < end; ++i) {
        strategies.push_back(sync_of_(shapes[i]));
        strategies.back().shape = shapes[i];
      }
      const std::vector<double> scores = judge_.score(strategies);
      evaluated_ += static_cast<int>(end - begin);
      for (size_t i = begin; i < end; ++i) {
        if (std::isfinite(scores[i - begin])) best_.push_back({shapes[i], scores[i - begin]});
      }
    }
    std::stable_sort(best_.begin(), best_.end(),
                     [](const Improved& a, const Improved& b) { return a.score < b.score; });
    if (best_.size() > static_cast<size_t>(options_.beam)) best_.resize(static_cast<size_t>(options_.beam));
  }

  const Estimator& estimator_;
  const simulator::Simulator& judge_;
  const SyncOf& sync_of_;
  ImproveOptions options_;
  Rng rng_;
  int evaluated_ = 0;
  std::vector<Improved> best_;  // best first
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::vector<Improved> improve(const Estimator& estimator, const std::vector<Shape>& starts,
                              const simulator::Simulator& judge, const SyncOf& sync_of,
                              const ImproveOptions& options) {
  return LocalSearch(estimator, judge, sync_of, options).run(starts);
}

}  // namespace entrain::planner
