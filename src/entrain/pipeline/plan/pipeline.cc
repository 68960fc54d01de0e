#include "entrain/pipeline/plan/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/limits.h"
#include "entrain/pipeline/plan/schedule.h"

namespace entrain::pipeline {
namespace {

constexpr int kMaxChunks = 1 << 10, kMaxLayers = 1 << 20;

void pipeline_one_of(const char* field, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  bad_input("pipeline: {} is '{}', allowed: {}", field, value, fmt::join(allowed, ", "));
}

void pipeline_between_one_and(int most, const char* field, int value) {
  if (value < 1) bad_input("pipeline: {} is {}, allowed: 1 or more", field, value);
  if (value > most) bad_input("pipeline: {} is {}, allowed: up to {}", field, value, most);
}

}  // namespace

void validate(const Pipeline& p) {
  pipeline_between_one_and(kMaxRanks, "devices", p.devices);
  pipeline_between_one_and(kMaxMicroBatches, "micro-batches", p.micro_batches);
  pipeline_between_one_and(kMaxChunks, "chunks", p.chunks);
  pipeline_one_of("schedule", p.schedule, schedule_names());
  pipeline_one_of("cells", p.cells, {"auto", "threads", "ranks"});
  if (p.chunks > 1 && p.schedule != "interleaved") {
    bad_input("pipeline: chunks is {}, allowed: 1 with the schedule {}", p.chunks, p.schedule);
  }
  for (const int layers : p.balance) pipeline_between_one_and(kMaxLayers, "balance", layers);
  const auto cells = static_cast<size_t>(p.devices) * static_cast<size_t>(p.chunks);
  if (!p.balance.empty() && p.balance.size() != cells) {
    bad_input("pipeline: balance {} has {} cells, allowed: {} (devices x chunks)", fmt::join(p.balance, ","),
              p.balance.size(), cells);
  }
}

}  // namespace entrain::pipeline
