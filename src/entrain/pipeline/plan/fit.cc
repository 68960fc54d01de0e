#include "entrain/pipeline/plan/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/pipeline/plan/partition.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/pipeline/plan/timeline.h"

namespace entrain::pipeline {
namespace {

void check_request(const FitRequest& request) {
  if (request.layers.empty()) bad_input("fit: the model has no layers");
  if (request.devices.empty()) bad_input("fit: no devices: must be at least 1");
  if (request.batch < 1) bad_input("fit: batch {}: must be at least 1", request.batch);
  if (request.profiled_batch < 1)
    bad_input("fit: profiled batch {}: must be at least 1", request.profiled_batch);
  if (request.optimizer_slots < 0)
    bad_input("fit: {} optimizer slots: must not be negative", request.optimizer_slots);
  if (request.pipeline < 0 || request.pipeline > static_cast<int>(request.devices.size())) {
    bad_input("fit: a pipeline of {} devices: must be in 1..{}", request.pipeline, request.devices.size());
  }
  if (request.chunks < 1) bad_input("fit: {} cells a device: must be at least 1", request.chunks);
  for (size_t k = 0; k < request.devices.size(); ++k) {
    const Device& device = request.devices[k];
    if (!(device.speed > 0)) bad_input("fit: speed of device {} is {}: must be above 0", k, device.speed);
    if (device.memory_bytes < 0) {
      bad_input("fit: memory of device {} is {}: must be above 0, or 0 for no limit", k, device.memory_bytes);
    }
  }
}

int64_t limit_of(const Device& device) {
  // Half the range: sums with a shortfall must not overflow.
  return device.memory_bytes > 0 ? device.memory_bytes : std::numeric_limits<int64_t>::max() / 2;
}

std::vector<double> speeds(const FitRequest& request, int devices, int chunks) {
  std::vector<double> speed;
  for (int c = 0; c < devices * chunks; ++c) speed.push_back(request.devices[c % devices].speed);
  return speed;
}

// The model at one number of micro-batches, with the bytes of any range of layers at hand.
class Scaled {
 public:
  Scaled(const FitRequest& request, int micro_batches) : request_(request) {
    const int largest = (request.batch + micro_batches - 1) / micro_batches;
    time_scale_ = static_cast<double>(request.batch) / micro_batches / request.profiled_batch;
    byte_scale_ = static_cast<double>(largest) / request.profiled_batch;
    for (const LayerCost& layer : request.layers) {
      parameters_.push_back(parameters_.back() + layer.parameter_bytes);
      internals_.push_back(internals_.back() + scaled(layer.internal_bytes));
    }
  }

  int64_t parameters(int first, int last) const {
    return parameters_[last + 1] - parameters_[first] + from_outside(request_.ties, first, last);
  }
  // Skips that come from outside are as much inputs as the flow, and held as long.
  int64_t internal(int first, int last) const {
    return internals_[last + 1] - internals_[first] + skips_into(first, last);
  }
  int64_t input(int first, int last) const {
    return scaled(first == 0 ? request_.input_bytes : request_.layers[first - 1].output_bytes) +
           skips_into(first, last);
  }

  CellCost cell(int first, int last) const {
    CellCost cost;
    for (int i = first; i <= last; ++i) {
      cost.forward_s += request_.layers[i].forward_s * time_scale_;
      cost.backward_s += request_.layers[i].backward_s * time_scale_;
    }
    cost.forward_s += request_.overhead_s;
    cost.backward_s += request_.overhead_s;
    cost.recompute_s = cost.forward_s;
    cost.parameter_bytes = parameters(first, last);
    cost.internal_bytes = internal(first, last);
    cost.input_bytes = input(first, last);
    cost.boundary_bytes = scaled(request_.layers[last].output_bytes);
    return cost;
  }

 private:
  static int64_t from_outside(const std::vector<Need>& needs, int first, int last) {
    int64_t bytes = 0;
    for (const Need& need : needs) {
      if (need.from < first && need.to >= first && need.to <= last) bytes += need.bytes;
    }
    return bytes;
  }
  int64_t skips_into(int first, int last) const { return scaled(from_outside(request_.skips, first, last)); }
  int64_t scaled(int64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) * byte_scale_);
  }

  const FitRequest& request_;
  double time_scale_ = 1;                  // micro-batches differ by an example: their mean counts for time,
  double byte_scale_ = 1;                  // their largest for memory
  std::vector<int64_t> parameters_ = {0};  // prefix sums by layer
  std::vector<int64_t> internals_ = {0};
};

// What the partitioner balances: a layer's share of a pass there and back.
std::vector<double> layer_times(const FitRequest& request, Remat remat) {
  std::vector<double> times;
  for (const LayerCost& layer : request.layers) {
    times.push_back(layer.forward_s * (remat == Remat::kNever ? 1 : 2) + layer.backward_s);
  }
  return times;
}

MinMaxOptions within_memory(const FitRequest& request, const Pipeline& choice, const Scaled& model) {
  MinMaxOptions options;
  options.speed = speeds(request, choice.devices, 1);
  options.memory = [&](int first, int last, int cell) {
    return model.parameters(first, last) * (2 + request.optimizer_slots) +
           activation_formula(choice.schedule, choice.devices, cell, choice.micro_batches, choice.remat,
                              model.input(first, last), model.internal(first, last));
  };
  for (int k = 0; k < choice.devices; ++k) options.memory_limit.push_back(limit_of(request.devices[k]));
  return options;
}

std::vector<int> micro_batch_candidates(const FitRequest& request) {
  std::vector<int> candidates = request.micro_batches;
  for (const int m : candidates) {
    if (m < 1 || m > request.batch) {
      bad_input("fit: {} micro-batches: must be in 1..{}, the batch size", m, request.batch);
    }
  }
  if (candidates.empty()) {
    for (int64_t m = 1; m < request.batch; m *= 2) candidates.push_back(static_cast<int>(m));
    candidates.push_back(request.batch);
  }
  return candidates;
}

// The fastest balance of each (devices, chunks, remat or not) without regard to memory. Micro-batches
// scale all costs alike, so one serves for all of them.
class FastestBalances {
 public:
  explicit FastestBalances(const FitRequest& request) : request_(request) {}

  const std::vector<int>& get(const Pipeline& choice) {
    auto& balance = known_[{choice.devices, choice.chunks, choice.remat == Remat::kNever}];
    if (balance.empty()) {
      MinMaxOptions options;
      options.speed = speeds(request_, choice.devices, choice.chunks);
      balance = min_max(layer_times(request_, choice.remat), choice.devices * choice.chunks, options).balance;
    }
    return balance;
  }

 private:
  const FitRequest& request_;
  std::map<std::tuple<int, int, bool>, std::vector<int>> known_;
};

// The fastest plan of `choice` (without a balance yet) that exceeds no limit by more than `extra_bytes`;
// none if there is none.
std::optional<FitPlan> best_plan(const FitRequest& request, Pipeline choice, int64_t extra_bytes,
                                 FastestBalances* fastest) {
  const bool given = !request.balance.empty();
  const Scaled model(request, choice.micro_batches);
  choice.balance = given ? request.balance : fastest->get(choice);
  FitPlan plan = predict(request, choice);
  if (plan.shortfall_bytes == 0) return plan;
  if (given || choice.chunks > 1)
    return plan.shortfall_bytes <= extra_bytes ? std::optional(plan) : std::nullopt;
  const auto limits = within_memory(request, choice, model);
  const int layers = static_cast<int>(request.layers.size());
  if (!can_fit(layers, choice.devices, limits, extra_bytes)) return std::nullopt;
  choice.balance = min_max(layer_times(request, choice.remat), choice.devices, limits).balance;
  return predict(request, choice);
}

// All that is to be tried, without balances; fewest devices first.
std::vector<Pipeline> choices(const FitRequest& request) {
  const int layers = static_cast<int>(request.layers.size());
  const auto candidates = micro_batch_candidates(request);
  std::vector<Pipeline> all;
  const int most = request.pipeline > 0 ? request.pipeline : static_cast<int>(request.devices.size());
  for (int devices = std::max(1, request.pipeline); devices <= most; ++devices) {
    for (const int micro_batches : candidates) {
      for (const std::string& schedule : request.schedules) {
        const int chunks = schedule == "interleaved" ? request.chunks : 1;
        if (devices * chunks > layers) continue;
        if (!request.balance.empty() && devices * chunks != static_cast<int>(request.balance.size()))
          continue;
        for (const Remat remat : request.remats) {
          if (remat == Remat::kExceptLast && micro_batches == 1) continue;  // the same as never
          all.push_back({devices, micro_batches, schedule, chunks, remat});
        }
      }
    }
  }
  return all;
}

// The plan that falls short by the least, where none fits. The most frugal come last in `all` and are
// tried first, so that most of the others fail the cheap test of beating them.
std::optional<FitPlan> nearest_plan(const FitRequest& request, const std::vector<Pipeline>& all,
                                    FastestBalances* fastest) {
  std::optional<FitPlan> nearest;
  for (auto choice = all.rbegin(); choice != all.rend(); ++choice) {
    const int64_t extra_bytes =
        nearest ? nearest->shortfall_bytes - 1 : std::numeric_limits<int64_t>::max() / 4;
    if (auto plan = best_plan(request, *choice, extra_bytes, fastest)) nearest = std::move(plan);
  }
  return nearest;
}

bool smaller(const FitPlan& a, const FitPlan& b) {
  return std::tuple(a.choice.devices, a.choice.micro_batches, a.step_s) <
         std::tuple(b.choice.devices, b.choice.micro_batches, b.step_s);
}

std::string describe_choice(const Pipeline& c) {
  return fmt::format("{} device{}, {} micro-batch{}, {}, remat {}, balance {}", c.devices,
                     c.devices == 1 ? "" : "s", c.micro_batches, c.micro_batches == 1 ? "" : "es", c.schedule,
                     remat_name(c.remat), fmt::join(c.balance, ","));
}

void check_choice(const FitRequest& request, const Pipeline& choice) {
  const int layers = static_cast<int>(request.layers.size());
  if (choice.devices < 1 || choice.devices > static_cast<int>(request.devices.size())) {
    bad_input("pipeline: {} devices: must be in 1..{}", choice.devices, request.devices.size());
  }
  if (choice.micro_batches < 1 || choice.micro_batches > request.batch) {
    bad_input("pipeline: {} micro-batches: must be in 1..{}, the batch size", choice.micro_batches,
              request.batch);
  }
  const bool positive =
      std::all_of(choice.balance.begin(), choice.balance.end(), [](int n) { return n > 0; });
  const int64_t sum = std::accumulate(choice.balance.begin(), choice.balance.end(), int64_t{0});
  if (static_cast<int>(choice.balance.size()) != choice.devices * choice.chunks || !positive ||
      sum != layers) {
    bad_input("pipeline: balance {}: must be {} numbers from 1 that sum to {} layers",
              fmt::join(choice.balance, ","), choice.devices * choice.chunks, layers);
  }
}

}  // namespace

FitPlan predict(const FitRequest& request, const Pipeline& choice) {
  check_request(request);
  const auto schedule = make_schedule(choice.schedule, choice.devices, choice.micro_batches, choice.chunks);
  check_choice(request, choice);
  const Scaled model(request, choice.micro_batches);
  std::vector<CellCost> cells;
  int first = 0;
  for (const int layers : choice.balance) {
    cells.push_back(model.cell(first, first + layers - 1));
    first += layers;
  }
  TimelineOptions options;
  options.remat = choice.remat;
  options.speed = speeds(request, choice.devices, 1);
  options.link_s_per_byte = request.link_s_per_byte;
  options.link_latency_s = request.link_latency_s;
  const Timeline timeline = run_schedule(schedule, cells, options);

  FitPlan plan;
  plan.choice = choice;
  plan.step_s = timeline.makespan_s;
  plan.bubble_share = timeline.bubble_share();
  plan.imbalance_share = timeline.imbalance_share();
  plan.transfer_share = timeline.makespan_s > 0 ? timeline.transfer_s / timeline.makespan_s : 0;
  plan.memory = peak_memory(schedule, cells, choice.remat, request.optimizer_slots);
  for (int k = 0; k < choice.devices; ++k) {
    const int64_t excess = plan.memory[k].total() - limit_of(request.devices[k]);
    if (excess > plan.shortfall_bytes) {
      plan.shortfall_bytes = excess;
      plan.shortfall_device = k;
    }
  }
  return plan;
}

Fit fit(const FitRequest& request) {
  check_request(request);
  const std::vector<Pipeline> all = choices(request);
  FastestBalances fastest(request);
  Fit result;
  for (const Pipeline& choice : all) {
    if (auto plan = best_plan(request, choice, 0, &fastest)) result.plans.push_back(std::move(*plan));
  }
  if (result.plans.empty()) result.nearest = nearest_plan(request, all, &fastest);
  std::stable_sort(result.plans.begin(), result.plans.end(), smaller);
  for (size_t i = 0; i < result.plans.size(); ++i) {
    if (result.plans[i].step_s < result.plans[result.fastest].step_s) result.fastest = i;
  }
  return result;
}

std::string describe(const FitPlan& plan) {
  int64_t peak = 0;
  for (const DeviceMemory& memory : plan.memory) peak = std::max(peak, memory.total());
  return fmt::format(
      "{}: {} a step, bubble {:.0f}%, imbalance {:.0f}%, transfer {:.0f}%, peak memory {} a device",
      describe_choice(plan.choice), format_seconds(plan.step_s), 100 * plan.bubble_share,
      100 * plan.imbalance_share, 100 * plan.transfer_share, format_bytes(static_cast<double>(peak)));
}

std::string describe(const Fit& result) {
  if (!result.plans.empty()) {
    return fmt::format("smallest: {}\nfastest:  {}\n", describe(result.plans.front()),
                       describe(result.plans[result.fastest]));
  }
  if (!result.nearest) return "does not fit: nothing to try\n";
  return fmt::format("does not fit: by {} on device {}, even with {}\n",
                     format_bytes(static_cast<double>(result.nearest->shortfall_bytes)),
                     result.nearest->shortfall_device, describe_choice(result.nearest->choice));
}

}  // namespace entrain::pipeline
