// Verbs that run on every rank of a job: started by hand, they start the ranks; in a rank, they do the work.
#pragma once

#include <functional>
#include <string>

#include "entrain/trainer/context.h"

namespace entrain::app {

// In a rank (of any launcher, see transport/launch_environment.h) or a cluster of one rank: joins and runs
// `work`. Else starts one copy of this very command a rank and waits for them. Returns the exit code.
// `cluster` empty: where the launcher put the ranks, or one rank here. `essential_rank`: see JobOptions.
int run_on_ranks(const std::string& cluster, double timeout_s, const std::function<int(Context&)>& work,
                 int essential_rank = -1);

// Whether run_on_ranks() started this process, and so has checked what can be checked before. Not for a rank
// that somebody started by hand.
bool started_by_entrain();

// The exit code after the orderly end that `signal` asked for; 0: none did. A rank leaves it to its launcher.
int code_after(int signal);

}  // namespace entrain::app
