// What a rank knows of its job. Passed in everywhere; there are no globals.
#pragma once

#include <memory>
#include <string>

#include "entrain/cluster/cluster.h"
#include "entrain/rendezvous/job_environment.h"
#include "entrain/rendezvous/server.h"
#include "entrain/transport/transport.h"

namespace entrain::job {

class StopRequest;

struct Context {
  Context() = default;
  Context(Context&&) = default;
  Context& operator=(Context&&) = default;
  ~Context();  // on rank 0: those who serve() are told that training is over

  rendezvous::JobEnvironment job;
  cluster::Cluster cluster;
  std::unique_ptr<rendezvous::Server> rendezvous;  // in the rank that was told to serve it
  std::shared_ptr<transport::Transport> transport;
  std::shared_ptr<StopRequest> stop;  // none: nothing ends the job early (stop_request.h)
  int handles = 0;                    // made so far: each has an id, the same on all ranks
  bool apart = false;                 // a handle of train_apart() lives: there can be one
  bool servers_wait = true;           // for orders of rank 0, where hosts only serve

  int rank() const { return job.rank; }
  int world() const { return job.world; }
  // False on a rank that only serves parameters: it calls serve() instead of training.
  bool trains() const { return cluster.is_worker(job.rank); }
  void check_trains() const;  // throws InputError unless it trains
  int workers() const { return cluster.workers(); }
  // The signal that has told this rank, at rank 0: any rank, to end; 0: none.
  int stop_signal() const;
};

// Joins the job that `entrain launch`, torchrun, mpirun or srun describes in this process's environment
// (rendezvous/launch_environment.h; ENTRAIN_RANK, ENTRAIN_WORLD, ENTRAIN_RENDEZVOUS, ENTRAIN_TOKEN by hand);
// a job of one rank when there is none. On hosts of one's own one rank, usually 0, gets ENTRAIN_SERVE=1 and
// runs the rendezvous at ENTRAIN_RENDEZVOUS. Rank 0 logs which launcher was found, if not
// entrain's own.
// `cluster`: shorthand or path; empty: ENTRAIN_CLUSTER, else the hosts that the launcher put the ranks on
// (links of 1 Gbit/s: probe them), all on this one when it does not say. A launcher that has started ranks
// over ssh has sent them the cluster (cluster/environment.h): it counts then, and no file is read. Throws
// InputError for a bad environment, Error or PeerError when ranks are missing after the job's timeout.
Context init(const std::string& cluster = "");

}  // namespace entrain::job
