// What a worker that trains apart writes down while it runs; apart.h lists the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "entrain/base/event_file.h"
#include "entrain/base/files.h"
#include "entrain/optim/distributed_optimizer.h"
#include "entrain/train/train.h"

namespace entrain::train {

// Each line is flushed: what was written survives a kill. Without a folder nothing is.
class ApartRecords {
 public:
  ApartRecords(const std::filesystem::path& folder, int rank, const strategy::Optimizer& settings);

  void step(int64_t step, double wall_s, double loss, const optim::Journal& journal, uint64_t bytes_sent);
  void test(const Test& test);  // rank 0

 private:
  void leaders(const optim::Journal& journal);

  std::optional<LineLog> steps_, tests_, leaders_;
  std::optional<EventFile> events_;
  size_t leaders_written_ = 0;
};

}  // namespace entrain::train
