#include "entrain/planner/cell_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "entrain/planner/shares.h"

namespace entrain::planner {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

}  // namespace

CellProgram::CellProgram(const Estimator& estimator, const std::vector<int>& order,
                         const std::vector<int>& widths, int micro_batches, bool recompute)
    : estimator_(estimator),
      order_(order),
      micro_batches_(micro_batches),
      layers_(estimator.layers()),
      ranks_(static_cast<int>(order.size())),
      size_((estimator.examples() + micro_batches - 1) / micro_batches),
      recompute_(recompute),
      places_(order.size()) {
  double slowest = kImpossible;
  for (const int r : order) {
    fastest_ = std::max(fastest_, estimator.speed(r));
    slowest = std::min(slowest, estimator.speed(r));
  }
  for (int k = 0; k < ranks_; ++k) {
    for (const int w : widths) {
      if (k + w > ranks_ || w > micro_batches) break;
      double speeds = 0, least = kImpossible, memory = kImpossible, link = kImpossible;
      std::set<int> hosts;
      for (int i = k; i < k + w; ++i) {
        const int r = order[i];
        hosts.insert(estimator.host_of(r));
        speeds += estimator.speed(r);
        least = std::min(least, estimator.speed(r));
        link = std::min(link, estimator.link(estimator.host_of(r)));
        if (estimator.memory(r) > 0) memory = std::min(memory, estimator.memory(r));
      }
      const double even = static_cast<double>(micro_batches) / w;
      const bool joins =
          hosts.size() == 1 && k + w < ranks_ && estimator.host_of(order[k + w]) == *hosts.begin();
      places_[k].push_back({w, speeds / w, memory, link, static_cast<int>(hosts.size()),
                            least * w == speeds ? std::ceil(even) : even, joins});
    }
  }
  const PassTimes& time = estimator.times(size_);
  most_rest_ =
      (micro_batches - 1) * (time.both(0, layers_) + (recompute ? time.forward(0, layers_) : 0)) / slowest;
  double slowest_link = kImpossible;
  std::set<int> hosts;
  for (const int r : order) {
    hosts.insert(estimator.host_of(r));
    slowest_link = std::min(slowest_link, estimator.link(estimator.host_of(r)));
  }
  if (hosts.size() > 1) {
    most_late_ = 2 * estimator.bytes().gradients(0, layers_) / slowest_link +
                 layers_ * estimator.overheads().transfer_s;
  }
  steps_.resize(static_cast<size_t>(ranks_ + 1) * (layers_ + 1));
}

void CellProgram::fill(double rest, double late, double limit) {
  const PassTimes& time = estimator_.times(size_);
  const LayerBytes& bytes = estimator_.bytes();
  const Overheads& overheads = estimator_.overheads();
  const auto size = static_cast<double>(size_);
  const double slots = 2 + estimator_.limits().optimizer_slots;
  for (Step& step : steps_) step = {kImpossible, 0, 0};
  const auto row = [&](int ranks) { return steps_.data() + static_cast<size_t>(ranks) * (layers_ + 1); };
  row(0)[layers_].seconds = 0;
  for (int k = 0; k < ranks_; ++k) {
    const Step* behind = row(k);
    if (k > 0 &&
        std::all_of(behind, behind + layers_, [](const Step& s) { return s.seconds == kImpossible; })) {
      continue;
    }
    for (const Place& place : places_[k]) {
      Step* here = row(k + place.width);
      const double flying = std::min<double>(std::ceil(static_cast<double>(k + place.width) / place.width),
                                             std::ceil(static_cast<double>(micro_batches_) / place.width));
      const double sync_s = 2.0 * (place.hosts - 1) / place.hosts / place.link;
      for (int j = layers_ - 1; j >= 0; --j) {
        const bool far = j > 0 && !place.joins_upstream;
        const double transfer = far ? size * bytes.crossing(j) / place.link + overheads.transfer_s : 0;
        if (micro_batches_ * transfer / place.hosts - transfer > rest) continue;
        double exposed = 0, sums = 0;
        for (int i = j + 1; i <= layers_; ++i) {
          const double forward = time.forward(j, i);
          const double pass =
              (forward + time.backward(j, i) + (recompute_ ? forward : 0)) / place.mean_speed +
              2 * overheads.pass_s;
          if ((place.rounds - 1) * pass > rest) break;
          const double kept = size * bytes.kept(j, i);
          const double stored = recompute_ ? flying * size * bytes.crossing(j) + kept : flying * kept;
          if (slots * bytes.parameters(j, i) + stored > place.memory) break;
          if (place.hosts > 1) {
            sums += bytes.gradients(i - 1, i) > 0 ? overheads.transfer_s : 0;
            exposed =
                std::max(exposed, sync_s * bytes.gradients(j, i) + sums - time.both(0, i - 1) / fastest_);
            if (exposed > late) break;
          }
          const double seconds = behind[i].seconds + pass + 2 * transfer;
          if (seconds < here[j].seconds && seconds + rest + late < limit) here[j] = {seconds, i, place.width};
        }
      }
    }
  }
}

std::vector<CellProgram::Choice> CellProgram::best(double rest, double late, const std::vector<int>& counts,
                                                   double limit) {
  fill(rest, late, limit);
  std::vector<Choice> choices;
  for (const int count : counts) {
    if (count > ranks_) continue;
    const Step& whole = steps_[static_cast<size_t>(count) * (layers_ + 1)];
    if (whole.seconds != kImpossible) choices.push_back(trace(count, whole.seconds + rest + late));
  }
  return choices;
}

CellProgram::Choice CellProgram::trace(int ranks, double seconds) const {
  Choice choice{
      seconds, {{}, micro_batches_, "1f1b", recompute_ ? pipeline::Remat::kAlways : pipeline::Remat::kNever}};
  for (int layer = 0; layer < layers_;) {
    const Step& step = steps_[static_cast<size_t>(ranks) * (layers_ + 1) + layer];
    strategy::Cell cell{layer, step.end, {}};
    std::vector<double> speeds;
    for (int i = ranks - step.width; i < ranks; ++i) {
      cell.ranks.push_back(order_[i]);
      speeds.push_back(estimator_.speed(order_[i]));
    }
    give_even_shares(cell, estimator_.examples(), estimator_.times(1).both(layer, step.end), speeds,
                     std::vector<double>(speeds.size()));
    choice.shape.cells.push_back(std::move(cell));
    layer = step.end;
    ranks -= step.width;
  }
  return choice;
}

}  // namespace entrain::planner
