#include "entrain/simulator/analytic/flows.h"

#include <algorithm>
#include <limits>

namespace entrain::simulator {
namespace {

constexpr double kBurstRate = 2.5e9;  // bytes per second past a full bucket
constexpr double kInstant = 1e-11;    // seconds: what is due by then is due now, for now + less may be now
constexpr double kNever = std::numeric_limits<double>::infinity();

// The most important flow of a queue, as it moves.
struct Moving {
  int flow = -1;
  double left = 0;    // share of the message that is still to move
  double rate = 0;    // share per second
  double weight = 0;  // share per second at one byte per second on its busiest stream
};

// Kept between calls: a search makes millions of them.
struct Scratch {
  std::vector<std::vector<std::pair<int, int>>> waiting;  // by queue: heap of (priority, flow), best on top
  std::vector<double> left;                               // by flow
  std::vector<Moving> moving;                             // queues that have something to move
  std::vector<int> place;                                 // by queue: index into moving or -1
  std::vector<double> use;                                // by (moving, resource): of the whole message
  std::vector<double> free, slope;
  std::vector<double> bucket;   // by resource: bytes of a burst that are left
  std::vector<char> bursting;   // by resource: until its bucket is empty
  std::vector<double> surplus;  // by resource: rate at which the bucket fills; negative: empties
  std::vector<int> order;
  std::vector<char> fixed;
};

void share(Scratch& s, const Resources& resources) {
  const size_t n = s.moving.size(), r_count = resources.capacity.size();
  s.free = resources.capacity;
  for (size_t r = 0; r < r_count; ++r) {
    if (s.bursting[r]) s.free[r] = kBurstRate;
  }
  s.slope.assign(r_count, 0.0);
  s.fixed.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t r = 0; r < r_count; ++r) s.slope[r] += s.use[i * r_count + r] * s.moving[i].weight;
  }
  double level = 0;
  for (size_t fixed = 0; fixed < n;) {
    double next = kNever;
    size_t bottleneck = r_count;
    for (size_t r = 0; r < r_count; ++r) {
      if (s.slope[r] <= 1e-30) continue;
      const double at = level + std::max(0.0, s.free[r]) / s.slope[r];
      if (at < next) next = at, bottleneck = r;
    }
    if (bottleneck == r_count) {  // those left use nothing
      for (size_t i = 0; i < n; ++i) {
        if (!s.fixed[i]) s.moving[i].rate = 1e12;
      }
      break;
    }
    for (size_t r = 0; r < r_count; ++r) s.free[r] -= (next - level) * s.slope[r];
    level = next;
    for (size_t i = 0; i < n; ++i) {
      const double* use = &s.use[i * r_count];
      if (s.fixed[i] || use[bottleneck] <= 0) continue;
      s.fixed[i] = 1;
      ++fixed;
      s.moving[i].rate = level * s.moving[i].weight;
      for (size_t r = 0; r < r_count; ++r) s.slope[r] -= use[r] * s.moving[i].weight;
    }
    s.slope[bottleneck] = 0;  // whatever rounding left of it
  }
  for (size_t r = 0; r < r_count; ++r) {
    const double offered = s.bursting[r] ? kBurstRate : resources.capacity[r];
    s.surplus[r] = resources.capacity[r] - (offered - s.free[r]);
  }
}

// When a bucket is next empty or full.
double next_turn(const Scratch& s, const Resources& resources) {
  double soonest = kNever;
  for (size_t r = 0; r < s.bucket.size(); ++r) {
    if (s.bursting[r]) {
      if (s.surplus[r] < 0) soonest = std::min(soonest, s.bucket[r] / -s.surplus[r]);
    } else if (s.surplus[r] > 0 && resources.burst[r] > 0) {
      soonest = std::min(soonest, (resources.burst[r] - s.bucket[r]) / s.surplus[r]);
    }
  }
  return soonest;
}

// Time passes; true when a bucket has become empty or full.
bool fill_buckets(Scratch& s, const Resources& resources, double passed) {
  bool turned = false;
  for (size_t r = 0; r < s.bucket.size(); ++r) {
    const double full = resources.burst[r];
    if (full <= 0) continue;
    s.bucket[r] = std::clamp(s.bucket[r] + s.surplus[r] * passed, 0.0, full);
    const char now = s.bursting[r] ? s.bucket[r] > 1e-6 * full : s.bucket[r] >= (1 - 1e-6) * full;
    turned |= now != s.bursting[r];
    s.bursting[r] = now;
  }
  return turned;
}

}  // namespace

void run_flows(std::vector<Flow>& flows, int queues, const Resources& resources) {
  thread_local Scratch s;
  const size_t r_count = resources.capacity.size();
  s.waiting.resize(std::max(s.waiting.size(), static_cast<size_t>(queues)));
  for (auto& heap : s.waiting) heap.clear();
  s.place.assign(static_cast<size_t>(queues), -1);
  s.left.assign(flows.size(), 1.0);
  s.moving.clear();
  s.use.clear();
  s.bucket = resources.burst;
  s.surplus.assign(r_count, 0.0);
  s.bursting.assign(r_count, 0);
  for (size_t r = 0; r < r_count; ++r) s.bursting[r] = resources.burst[r] > 0;
  s.order.resize(flows.size());
  for (size_t i = 0; i < flows.size(); ++i) s.order[i] = static_cast<int>(i);
  std::sort(s.order.begin(), s.order.end(), [&](int a, int b) {
    return flows[a].ready != flows[b].ready ? flows[a].ready < flows[b].ready : a < b;
  });

  const auto put = [&](size_t place, int f) {
    const Flow& flow = flows[f];
    const Demand& d = *flow.demand;
    double* use = &s.use[place * r_count];
    for (size_t r = 0; r < r_count; ++r) use[r] = d.fixed[r] + d.per_byte[r] * flow.bytes;
    if (flow.packing > 0) {
      for (size_t h = 0; h < resources.hosts; ++h) {
        use[resources.engine(static_cast<int>(h))] += flow.packing * resources.workers[h];
      }
    }
    s.moving[place] = {f, s.left[f], 0, 1 / std::max(1.0, d.stream * flow.bytes)};
  };
  double now = 0;
  const auto arrive = [&](int f) {
    auto& heap = s.waiting[flows[f].queue];
    heap.emplace_back(-flows[f].priority, -f);
    std::push_heap(heap.begin(), heap.end());
    const int top = -heap.front().second;
    int& place = s.place[flows[f].queue];
    if (place < 0) {
      place = static_cast<int>(s.moving.size());
      s.moving.emplace_back();
      s.use.resize(s.use.size() + r_count);
    } else if (top == s.moving[place].flow) {
      return false;
    } else {
      s.left[s.moving[place].flow] = s.moving[place].left;
    }
    if (s.left[top] == 1.0) flows[top].begun = now;
    put(static_cast<size_t>(place), top);
    return true;
  };
  const auto complete = [&](size_t place) {
    const int f = s.moving[place].flow;
    const int queue = flows[f].queue;
    flows[f].ended = now;
    auto& heap = s.waiting[queue];
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    if (!heap.empty()) {
      const int next = -heap.front().second;
      if (s.left[next] == 1.0) flows[next].begun = now;
      put(place, next);
      return;
    }
    s.place[queue] = -1;
    const size_t last = s.moving.size() - 1;
    if (place != last) {
      s.moving[place] = s.moving[last];
      std::copy_n(&s.use[last * r_count], r_count, &s.use[place * r_count]);
      s.place[flows[s.moving[place].flow].queue] = static_cast<int>(place);
    }
    s.moving.pop_back();
    s.use.resize(last * r_count);
  };

  size_t next = 0;
  bool changed = false;
  while (next < flows.size() || !s.moving.empty()) {
    if (changed) share(s, resources);
    double until = next < flows.size() ? flows[s.order[next]].ready : kNever;
    for (const Moving& m : s.moving) until = std::min(until, now + m.left / m.rate);
    until = std::min(until, now + next_turn(s, resources));
    const double passed = std::max(0.0, until - now);
    changed = fill_buckets(s, resources, passed);
    for (Moving& m : s.moving) m.left -= std::min(m.left, passed * m.rate);
    now = until;
    for (size_t i = s.moving.size(); i-- > 0;) {
      if (s.moving[i].left <= s.moving[i].rate * kInstant) complete(i), changed = true;
    }
    while (next < flows.size() && flows[s.order[next]].ready <= now) changed |= arrive(s.order[next++]);
  }
}

}  // namespace entrain::simulator
