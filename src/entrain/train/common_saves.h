// Checkpoints of workers that train apart. Each worker writes files of its own, and a job can only go on from
// files that belong together: those that were written under one number.
//
//   synchronous rules    the number is the step, which every worker comes to
//   asynchronous rules   rank 0 announces a number (its own step); each worker saves before its next step,
//                        wherever it is. A message that was on its way then is lost, as any may be.
//
//   rank 0 ── announce n ──▶ others ── saved n ──▶ rank 0: all members have ── complete n ──▶ others
//
// A save's members are all workers, under asynchronous rules those that rank 0 had not lost when it began;
// rank 0's file names them. The save is complete when all of them have written theirs. Only then are older
// files removed, all but the complete save before it: so a job that is killed at any moment, or one damaged
// file, leaves a save that is whole everywhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/context.h"
#include "entrain/optim/vector_message.h"

namespace entrain::train {

// One worker's side, on one thread. The transport outlives it.
class CommonSaves {
 public:
  struct Order {
    int64_t number;
    bool last;  // rank 0 has ended: no other follows
  };

  // `folder`: of this worker's files. `complete`: the save that the job has gone on from, in the same folder.
  CommonSaves(job::Context& context, std::filesystem::path folder, std::optional<int64_t> complete);
  ~CommonSaves();

  // Rank 0: a save begins. `tell`: the others save under the number of rank 0, as asynchronous rules do.
  // Returns the members, to be stored in rank 0's file.
  std::vector<int> begin(int64_t number, bool tell, bool last);

  // Other ranks under asynchronous rules: the newest order that has not been given out yet.
  std::optional<Order> take_order();
  // The same, waiting for it; nullopt: the deadline has passed. Throws PeerError when rank 0 is lost.
  std::optional<Order> wait_for_order(Deadline deadline);

  // Writes the file, and tells rank 0. Removes nothing.
  void save(const checkpoint::CheckpointInfo& info, const torch::nn::Module& module,
            const torch::optim::Optimizer& optimizer);

  // The file of that save has turned out to be useless: nobody is to resume from it.
  void set_aside(int64_t number);

  // Between two steps: what has become complete, and what may go.
  void tidy();

  // After this worker's last save, before it tells rank 0 that it has ended.
  void leave();
  // At the end; rank 0: after it has heard of every worker that is left. The others wait for rank 0.
  void finish();

 private:
  struct Heard;
  void give_up_silent_rank_0(std::string_view awaited);
  std::vector<int64_t> newly_complete();  // rank 0
  void completed(int64_t number);         // rank 0
  void remove_before(int64_t number, std::optional<int64_t> former);

  job::Context& context_;
  const std::vector<int> others_;
  const std::filesystem::path folder_;
  std::optional<int64_t> complete_;           // rank 0: the newest
  std::map<int64_t, std::set<int>> members_;  // rank 0: of saves that are not complete
  std::shared_ptr<Heard> heard_;
  std::unique_ptr<optim::Inbox> inbox_;
};

// Rank 0's file says who the members are. None in it: all workers.
void put_members(checkpoint::CheckpointInfo& info, const std::vector<int>& members);
std::vector<int> members_of(const checkpoint::CheckpointInfo& info);

struct ResumePoint {
  int64_t number = 0;
  std::vector<int> without;  // workers that were lost before that save: they have no file of it
};

// Collective over the workers. `own`: the readable checkpoints of this one, newest first. The newest save
// that is whole at all workers; `members_only`: at all its members that this job still has. Throws InputError
// naming what each worker has when there is none.
ResumePoint agree_on_save(job::Context& context, const std::vector<checkpoint::CheckpointInfo>& own,
                          bool members_only, const std::filesystem::path& folder);

}  // namespace entrain::train
