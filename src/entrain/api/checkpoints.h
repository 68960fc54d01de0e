// Checkpoints of a handle: everything that a job needs to go on as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace entrain {

// A handle of distribute(), train_apart() or pipelined(). Both methods are for Checkpoints, and collective
// over the workers.
class Handle {
 public:
  virtual ~Handle() = default;
  // After `step` steps, into `folder`; the newest `keep` stay.
  virtual void save(const std::filesystem::path& folder, int keep, int64_t step) = 0;
  // From the newest file there; the steps done, or nothing when there is none.
  virtual std::optional<int64_t> resume(const std::filesystem::path& folder) = 0;
};

// One handle's files in a folder that every rank can read. Each file appears when all of it is on the disk,
// and older ones go only after that. All workers make the same calls.
//
//   entrain::Checkpoints checkpoints("run");
//   for (int64_t step = checkpoints.resume(*trainer); step < 1000; ++step) {
//     ...
//     if (step % 100 == 99) checkpoints.save(step + 1, *trainer);
//   }
//
// In it are parameters, buffers, the optimizer's state, what a rule that trains apart remembers, and each
// rank's random numbers. Which examples come next is the program's business: the step is what it knows.
class Checkpoints {
 public:
  // Touches nothing yet. Requires: keep >= 1.
  explicit Checkpoints(std::filesystem::path folder, int keep = 2);

  // After `step` steps. Returns when the file is durable. Throws Error when it cannot be written, and
  // InputError when the folder holds a later step: that is another run's.
  void save(int64_t step, Handle& handle) const;

  // From the newest checkpoint: the steps done; 0 when there is none. Throws InputError naming the variable
  // when it is of another model or optimizer, or the ranks see different files; then nothing has changed. A
  // damaged file is skipped with a warning.
  int64_t resume(Handle& handle) const;

 private:
  std::filesystem::path folder_;
  int keep_;
};

}  // namespace entrain
