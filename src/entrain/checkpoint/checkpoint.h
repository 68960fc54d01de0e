// Checkpoints: everything that a job needs to continue as if it had never stopped, on the CPU bit for bit. (A
// GPU's random numbers and what a compressor's error feedback holds are not in them.)
//
// One file each, FOLDER/checkpoint-00000100.safetensors (100: the step), in the format of safetensors.h:
//   model.NAME         parameters and buffers
//   optimizer. ...     see optimizer_state.h
//   rng.RANK           each rank's random numbers (see rng_state.h)
//   rule. ...          what a distributed optimizer remembers (centre, leaders, counters)
//   metadata           format, format_version, step, data_position, world, model, seed, strategy, optimizer,
//   and checksums
// A file appears under its name only when all of it is on the disk, and an older one goes only after that:
// whenever the process or the machine stops, the newest file is complete.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "entrain/checkpoint/rng_state.h"  // IWYU pragma: export

namespace entrain::checkpoint {

struct CheckpointInfo {
  int64_t step = 0;           // steps done; asynchronous rules: by rank 0 (see common_saves.h)
  int64_t data_position = 0;  // batches that each worker has consumed; asynchronous rules: this one
  int world = 1;
  std::string model;
  uint64_t seed = 0;
  std::string strategy;            // its id
  std::vector<torch::Tensor> rng;  // by rank; uint8, or undefined for a rank without (a server)
  std::vector<std::pair<std::string, torch::Tensor>> rule =
      {};  // the distributed optimizer's, if there is one
};

// The checkpoints of one job. Only one process at a time may save to a folder, any number may load.
// Not thread-safe.
class Checkpoints {
 public:
  // Touches nothing yet; save() creates the folder. Requires: keep >= 1.
  explicit Checkpoints(std::filesystem::path folder, int keep = 2);

  // The newest step there is, readable or not.
  std::optional<int64_t> newest_step() const;

  // Returns when the checkpoint is durable; then removes all but the newest `keep` and what dead processes
  // left half written. Throws Error when it cannot be written (the earlier ones stay), and InputError for an
  // optimizer that cannot be stored, or when the folder holds a later step than info.step: that is another
  // run's, never to be overwritten. (A damaged later one does not count, and is removed.)
  void save(const CheckpointInfo& info, const torch::nn::Module& module,
            const torch::optim::Optimizer& optimizer);

  // Loads the newest one (of those up to step `at_most`) into `module` and `optimizer`, which must be made as
  // those that were saved. A damaged file is skipped with a warning that names it. The random numbers are
  // returned, not set. nullopt: there is none. Throws Error when none is readable, InputError naming the
  // variable and both shapes when it is of another model or optimizer; then nothing has changed.
  std::optional<CheckpointInfo> load_newest(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                            int64_t at_most = INT64_MAX);

  // What all readable ones say, newest first. A damaged file is skipped with a warning that names it. Throws
  // InputError for one of another program or format.
  std::vector<CheckpointInfo> readable() const;

  // Renames that of `step`, if there is one, so that nobody resumes from it: its parameters have turned out
  // to give a loss that is not finite. Returns the new path.
  std::optional<std::filesystem::path> set_aside(int64_t step) const;

  // Forgets those after `step`: the job goes on from there.
  void remove_after(int64_t step);
  // Removes those before `step` that are not in `kept`.
  void remove_before(int64_t step, const std::set<int64_t>& kept) const;

 private:
  std::vector<int64_t> steps() const;  // newest first
  std::filesystem::path path_of(int64_t step) const;
  void refuse_later_steps(int64_t now);
  void remove_old(int64_t newest) const;
  void remove_leftovers() const;

  std::filesystem::path folder_;
  int keep_;
  std::set<int64_t> damaged_;  // of a step, found so by an earlier look
};

}  // namespace entrain::checkpoint
