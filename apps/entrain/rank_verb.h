// Verbs that run on every rank of a job: started by hand, they start the ranks; in a rank, they do the work.
#pragma once

#include <functional>
#include <string>

#include "entrain/job/context.h"
#include "launcher/remote.h"

namespace entrain::app {

// In a rank (of any launcher, see rendezvous/launch_environment.h) or a cluster of one rank here: joins and
// runs `work`. Else starts one copy of this very command per rank and waits for them. Returns the exit code.
// `cluster` empty: where the launcher put the ranks, or one rank here. `essential_rank`, `restarts`: see
// JobOptions.
int run_on_ranks(const std::string& cluster, double timeout_s, const RemoteOptions& remote,
                 const std::function<int(job::Context&)>& work, int essential_rank = -1, int restarts = 0);

// In a rank of a job that was started again after a rank was lost.
bool is_restarted();

// What can be checked before ranks train is checked where the files are: by the process that starts the ranks
// if rank 0 will run on its host, and by ranks that such a process has not checked for: those on other hosts,
// and those that another launcher or a person has started. The files that the job writes are rank 0's.
bool checks_input(const std::string& cluster);
bool checks_output(const std::string& cluster);

// In a rank: from now on SIGINT (Ctrl-C), SIGTERM and SIGHUP (unless ignored, as by nohup) ask for an orderly
// end of the job: Context::stop. Every rank calls it. Rank 0, the last to end, then exits with 128 + signal.
void end_on_signals(job::Context& context);

}  // namespace entrain::app
