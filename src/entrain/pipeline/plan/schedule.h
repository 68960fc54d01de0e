// Schedules: which device runs which pass of which micro-batch, in which order.
//
// K devices, M micro-batches, V cells a device ("chunks"; 1 unless interleaved). The model is cut
// into K*V cells; cell c lives on device c % K. A schedule is a pure function of (K, M, V). It gives
// an order only: a device starts its next work as soon as what it needs has arrived.
//
// In the pictures F2 is the forward of micro-batch 2 and B2 its backward, one slot each; F2/5 is that
// of cell 5 where a device has several cells. The bubble is the idle share of all devices' slots.
//
// gpipe (fill-drain): all forwards, then all backwards, last micro-batch first. K = 3, M = 4:
//
//   device 0 | F0 F1 F2 F3 .. .. .. .. B3 B2 B1 B0
//   device 1 | .. F0 F1 F2 F3 .. .. B3 B2 B1 B0 ..
//   device 2 | .. .. F0 F1 F2 F3 B3 B2 B1 B0 .. ..
//
//   bubble (K-1)/(M+K-1); in flight (forward done, backward not): M on every device.
//
// 1f1b (PipeDream-flush): device k runs K-k-1 forwards ahead, then one forward, one backward in turn.
// K = 3, M = 4:
//
//   device 0 | F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3
//   device 1 | .. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..
//   device 2 | .. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..
//
//   the same bubble (K-1)/(M+K-1); in flight min(M, K-k) on device k.
//
// interleaved (1F1B with V cells a device): micro-batches go in groups of S (K <= S < 2K); a device
// takes a group through its first cell, then its second, and so on. It runs 2(K-k-1) + (V-1)S forwards
// ahead, then one forward, one backward in turn. K = 2, V = 2, M = 2:
//
//   device 0 | F0/0 F1/0 F0/2 F1/2 .... B0/2 .... B1/2 B0/0 B1/0
//   device 1 | .... F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 B0/1 B1/1 ....
//
//   bubble (K-1)/(V*M+K-1) if M >= K, else 1 - V*M/(V*K+M-1);
//   in flight min(V*M, 2(K-k-1) + (V-1)S + 1) passes on device k, all its cells together.
//   Megatron-LM's order needs K to divide M (then S = K). Here the M/K groups (rounded down) differ by
//   at most one micro-batch and none is smaller than K, so nothing waits and every M is allowed; S is
//   the largest. V = 1 is 1f1b.
#pragma once

#include <string>
#include <vector>

#include "entrain/pipeline/plan/remat.h"

namespace entrain::pipeline {

enum class Kind { kForward, kBackward };

struct Work {
  Kind kind;
  int cell;
  int micro_batch;

  bool operator==(const Work&) const = default;
};

// A work as a device runs it.
struct Pass {
  Work work;
  bool recompute = false;  // a backward runs its forward again first; of that forward only inputs are kept

  bool operator==(const Pass&) const = default;
};

struct Schedule {
  std::string name;
  int devices = 0;
  int cells = 0;
  int micro_batches = 0;
  std::vector<std::vector<Work>> work;  // by device, in the order it runs

  int device_of(int cell) const { return cell % devices; }
};

std::vector<std::string> schedule_names();

// Requires devices, micro_batches, chunks >= 1; chunks > 1 only for "interleaved". Otherwise, and for an
// unknown name, InputError.
Schedule make_schedule(const std::string& name, int devices, int micro_batches, int chunks = 1);

// What a device runs.
std::vector<Pass> passes_of(const Schedule& schedule, int device, Remat remat);

// What must be done before `work`: forward of the cell before it; or forward of its own cell and
// backward of the cell after it.
std::vector<Work> needs(const Schedule& schedule, const Work& work);

// Slot in which each work of `schedule.work` begins, every pass lasting one. Throws Error for an
// order that deadlocks (none that make_schedule gives).
std::vector<std::vector<int>> begin_slots(const Schedule& schedule);

// The pictures above, one line a device.
std::string draw(const Schedule& schedule);

// Share of the devices' slots that is idle, counted in the picture.
double bubble_share(const Schedule& schedule);

// Most passes of `cell` that are in flight at once.
int peak_in_flight(const Schedule& schedule, int cell);

}  // namespace entrain::pipeline
