#include "entrain/pipeline/plan/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

// Forwards and backwards of one device, each in their own order.
struct Passes {
  std::vector<Work> forwards;
  std::vector<Work> backwards;
};

// `ahead` forwards, then a forward and a backward in turn, then the backwards left.
std::vector<Work> one_forward_one_backward(const Passes& passes, int ahead) {
  const int count = static_cast<int>(passes.forwards.size());
  ahead = std::min(ahead, count);
  std::vector<Work> work(passes.forwards.begin(), passes.forwards.begin() + ahead);
  for (int i = 0; i < count; ++i) {
    if (ahead + i < count) work.push_back(passes.forwards[ahead + i]);
    work.push_back(passes.backwards[i]);
  }
  return work;
}

// First micro-batch of each group, and M at the end: max(1, M/K) groups that differ by at most one.
std::vector<int> group_bounds(int devices, int micro_batches) {
  const int groups = std::max(1, micro_batches / devices);
  std::vector<int> bounds;
  for (int g = 0; g <= groups; ++g) {
    bounds.push_back(g * (micro_batches / groups) + std::min(g, micro_batches % groups));
  }
  return bounds;
}

// A group goes through all of the device's cells before the next group starts.
Passes grouped_passes(int device, int devices, int chunks, const std::vector<int>& bounds) {
  Passes passes;
  for (size_t g = 0; g + 1 < bounds.size(); ++g) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = bounds[g]; m < bounds[g + 1]; ++m) {
        passes.forwards.push_back({Kind::kForward, chunk * devices + device, m});
        passes.backwards.push_back({Kind::kBackward, (chunks - 1 - chunk) * devices + device, m});
      }
    }
  }
  return passes;
}

std::vector<Work> fill_drain(int device, int micro_batches) {
  std::vector<Work> work;
  for (int m = 0; m < micro_batches; ++m) work.push_back({Kind::kForward, device, m});
  for (int m = micro_batches - 1; m >= 0; --m) work.push_back({Kind::kBackward, device, m});
  return work;
}

void check_arguments(const std::string& name, int devices, int micro_batches, int chunks) {
  const auto names = schedule_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    bad_input("schedule '{}': must be one of {}", name, fmt::join(names, ", "));
  }
  if (devices < 1) bad_input("schedule {}: {} devices: must be at least 1", name, devices);
  if (micro_batches < 1) bad_input("schedule {}: {} micro-batches: must be at least 1", name, micro_batches);
  if (chunks < 1) bad_input("schedule {}: {} cells a device: must be at least 1", name, chunks);
  if (chunks > 1 && name != "interleaved") {
    bad_input("schedule {}: {} cells a device: must be 1; only 'interleaved' allows more", name, chunks);
  }
}

// Index of a pass in a table of all.
size_t index_of(const Schedule& s, const Work& w) {
  return (static_cast<size_t>(w.kind == Kind::kBackward) * s.cells + w.cell) * s.micro_batches +
         w.micro_batch;
}

}  // namespace

std::vector<std::string> schedule_names() { return {"gpipe", "1f1b", "interleaved"}; }

Schedule make_schedule(const std::string& name, int devices, int micro_batches, int chunks) {
  check_arguments(name, devices, micro_batches, chunks);
  Schedule schedule{name, devices, devices * chunks, micro_batches, {}};
  const std::vector<int> bounds = group_bounds(devices, micro_batches);
  const int largest_group = bounds[1];
  for (int k = 0; k < devices; ++k) {
    if (name == "gpipe") {
      schedule.work.push_back(fill_drain(k, micro_batches));
    } else {
      const int to_end = devices - k - 1;
      const int ahead = chunks == 1 ? to_end : 2 * to_end + (chunks - 1) * largest_group;
      schedule.work.push_back(one_forward_one_backward(grouped_passes(k, devices, chunks, bounds), ahead));
    }
  }
  return schedule;
}

std::vector<Pass> passes_of(const Schedule& schedule, int device, Remat remat) {
  std::vector<Pass> passes;
  for (const Work& work : schedule.work.at(static_cast<size_t>(device))) {
    passes.push_back({work, recomputes(remat, work.micro_batch, schedule.micro_batches)});
  }
  return passes;
}

std::vector<Work> needs(const Schedule& schedule, const Work& work) {
  std::vector<Work> before;
  if (work.kind == Kind::kForward) {
    if (work.cell > 0) before.push_back({Kind::kForward, work.cell - 1, work.micro_batch});
  } else {
    before.push_back({Kind::kForward, work.cell, work.micro_batch});
    if (work.cell + 1 < schedule.cells) {
      before.push_back({Kind::kBackward, work.cell + 1, work.micro_batch});
    }
  }
  return before;
}

std::vector<std::vector<int>> begin_slots(const Schedule& schedule) {
  std::vector<std::vector<int>> begins(schedule.devices);
  std::vector<int> ended(2 * static_cast<size_t>(schedule.cells) * schedule.micro_batches, -1);
  for (bool moved = true; moved;) {
    moved = false;
    for (int k = 0; k < schedule.devices; ++k) {
      while (begins[k].size() < schedule.work[k].size()) {
        const Work& work = schedule.work[k][begins[k].size()];
        int begin = begins[k].empty() ? 0 : begins[k].back() + 1;
        bool ready = true;
        for (const Work& before : needs(schedule, work)) {
          const int end = ended[index_of(schedule, before)];
          ready = ready && end >= 0;
          begin = std::max(begin, end);
        }
        if (!ready) break;
        begins[k].push_back(begin);
        ended[index_of(schedule, work)] = begin + 1;
        moved = true;
      }
    }
  }
  for (int k = 0; k < schedule.devices; ++k) {
    if (begins[k].size() < schedule.work[k].size()) {
      fail("schedule {}: device {} waits for ever before its work {}", schedule.name, k, begins[k].size());
    }
  }
  return begins;
}

std::string draw(const Schedule& schedule) {
  const auto begins = begin_slots(schedule);
  size_t slots = 0;
  for (const auto& row : begins) slots = std::max<size_t>(slots, row.empty() ? 0 : row.back() + 1);
  std::vector<std::vector<std::string>> table(schedule.devices, std::vector<std::string>(slots));
  size_t width = 0;
  for (int k = 0; k < schedule.devices; ++k) {
    for (size_t i = 0; i < begins[k].size(); ++i) {
      const Work& work = schedule.work[k][i];
      std::string& text = table[k][begins[k][i]];
      text = fmt::format("{}{}", work.kind == Kind::kForward ? 'F' : 'B', work.micro_batch);
      if (schedule.cells > schedule.devices) text += fmt::format("/{}", work.cell);
      width = std::max(width, text.size());
    }
  }
  std::string picture;
  for (int k = 0; k < schedule.devices; ++k) {
    picture += fmt::format("device {} |", k);
    for (const auto& text : table[k]) {
      const size_t used = text.size();
      picture += " " + text + std::string(width - used, used == 0 ? '.' : ' ');
    }
    picture.erase(picture.find_last_not_of(' ') + 1);
    picture += '\n';
  }
  return picture;
}

double bubble_share(const Schedule& schedule) {
  int slots = 0;
  size_t busy = 0;
  for (const auto& row : begin_slots(schedule)) {
    slots = std::max(slots, row.back() + 1);
    busy += row.size();
  }
  return 1 - static_cast<double>(busy) / (static_cast<double>(slots) * schedule.devices);
}

int peak_in_flight(const Schedule& schedule, int cell) {
  int now = 0, peak = 0;
  for (const Work& work : schedule.work[schedule.device_of(cell)]) {
    if (work.cell != cell) continue;
    now += work.kind == Kind::kForward ? 1 : -1;
    peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace entrain::pipeline
