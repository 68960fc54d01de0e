// metrics.jsonl: a line per step and per test of a run. Flushed line by line, so that it survives a kill.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "entrain/base/files.h"
#include "entrain/train/train.h"

namespace entrain::train {

class Metrics {
 public:
  // Folder and file are made with the first line. On other ranks than 0, or without a folder, nothing is
  // written.
  Metrics(const job::Context& context, std::filesystem::path folder);

  // `more`: fields of one kind of training.
  void step(int64_t step, double loss, double seconds, const nlohmann::json& more);
  void test(const Test& test);

 private:
  void append(const nlohmann::json& line);

  std::filesystem::path folder_;
  std::optional<LineLog> lines_;
};

}  // namespace entrain::train
