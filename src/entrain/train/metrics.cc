#include "entrain/train/metrics.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace entrain::train {

Metrics::Metrics(const job::Context& context, std::filesystem::path folder)
    : folder_(context.rank() == 0 ? std::move(folder) : "") {}

void Metrics::append(const nlohmann::json& line) {
  if (folder_.empty()) return;
  if (!lines_) {
    std::filesystem::create_directories(folder_);
    lines_.emplace(folder_ / "metrics.jsonl");
  }
  lines_->append(line.dump());
}

void Metrics::step(int64_t step, double loss, double seconds, const nlohmann::json& more) {
  nlohmann::json line = {{"step", step}, {"loss", loss}, {"step_time_s", seconds}};
  line.update(more);
  append(line);
}

void Metrics::test(const Test& test) {
  append(
      {{"step", test.step}, {"wall_s", test.wall_s}, {"test_loss", test.loss}, {"test_error", test.error}});
}

}  // namespace entrain::train
