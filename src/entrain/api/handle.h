// What all handles have in common: their state can be saved and brought back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace entrain {

// A handle of distribute(), train_apart() or pipelined(). Both methods are for Checkpoints, and collective over
// the workers.
class Handle {
 public:
  virtual ~Handle() = default;
  // After `step` steps, into `folder`; the newest `keep` stay.
  virtual void save(const std::filesystem::path& folder, int keep, int64_t step) = 0;
  // From the newest file there; the steps done, or nothing when there is none.
  virtual std::optional<int64_t> resume(const std::filesystem::path& folder) = 0;
};

}  // namespace entrain
