// A collective as data: who sends which chunk to whom, in which order, and whether the
// receiver adds or overwrites. The executor runs it, the simulator prices it.
//
// A message of B bytes is cut into `chunks` parts. A transfer of chunk c in round k starts
// at its sender as soon as every transfer of c into that sender in an earlier round has
// arrived: rounds order the transfers of one chunk, they are no barrier between chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace entrain::collective {

struct Transfer {
  int round;
  int from;
  int to;
  int chunk;
  bool reduce;  // add to the receiver's chunk, else overwrite it
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

struct Schedule {
  std::string name;
  int ranks = 0;                    // ranks are 0..ranks-1; not each takes part
  int chunks = 0;                   // near equal parts of the message; see chunk_range
  std::vector<Transfer> transfers;  // sorted by round
  // Of condensed schedules (condensed.h), which are priced and never run. By transfer: how many chunks it
  // stands for, one after the other. And how many rounds of the exact schedule these transfers do not show.
  std::vector<int> times = {};
  int hidden_rounds = 0;

  int rounds() const { return transfers.empty() ? 0 : transfers.back().round + 1; }
};

// Elements [begin, end) of chunk `c` when `elements` are cut into `chunks` near equal parts
// (the first elements % chunks parts hold one more).
struct Range {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end - begin; }
};
Range chunk_range(int64_t elements, int chunks, int c);

// Bytes that `rank` sends and receives when a message of `elements` x `element_size` runs.
struct Traffic {
  int64_t sent = 0;
  int64_t received = 0;
};
std::vector<Traffic> traffic(const Schedule& schedule, int64_t elements, int64_t element_size);

}  // namespace entrain::collective
