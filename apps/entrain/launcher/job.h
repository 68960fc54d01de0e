// Starts the ranks of a job, here, in a lab or over ssh, and sees them to their end.
#pragma once

#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "launcher/remote.h"

namespace entrain::app {

struct JobOptions {
  // The only rank that the job cannot do without, e.g. the one that keeps what asynchronous workers share;
  // -1: it needs all. Another rank that fails is a line on stderr, and the others go on; when this one has
  // ended, the job has, with its exit code.
  int essential_rank = -1;
  double timeout_s = 120;   // deadline of one operation of the ranks (ENTRAIN_TIMEOUT)
  double grace_s = 3;       // after a failure: how long the other ranks may take to end
  bool own_program = true;  // false: any program, which user-space shaping does not reach
  // A job that ends because a rank is lost (killed, cut off, silent) is started again, up to so many times,
  // with ENTRAIN_RESTART=1, 2, ...: the ranks are to go on from where they saved.
  int restarts = 0;
  RemoteOptions remote;  // for clusters of real hosts
};

// Runs `argv` once per rank, with what the rank must know in ENTRAIN_*, and in RANK, WORLD_SIZE, LOCAL_RANK,
// MASTER_ADDR, MASTER_PORT for PyTorch: `local:` on loopback, `lab:` inside the emulated hosts, on real hosts
// over ssh (ranks of this host directly). Rank 0's stdout is ours, the others' goes to stderr; a failure that
// several ranks tell is shown once. Returns the exit code: 0, or after a failure 2 when a rank (the essential
// one, if any) exited with 2 (bad input), else 1; 128 + signal when we, or rank 0, were told to end. No
// process of the job is left when it returns, and none when we are killed. Call it before any effect: a lab
// may run the program again from its start (see lab::Lab::create).
//
// The ranks meet at rank 0's host: at a server of this process when that is this host, at a port that the
// system chooses; else rank 0 serves (ENTRAIN_SERVE), at a port drawn at random below those that systems hand
// out.
int run_job(const cluster::Cluster& cluster, const std::vector<std::string>& argv,
            const JobOptions& options = {});

}  // namespace entrain::app
