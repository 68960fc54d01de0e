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

// Whether this process is a rank that entrain itself started, and so has checked what can be checked before.
bool started_by_entrain();

}  // namespace entrain::app
