// Verbs that run on every rank of a job: started by hand, they start the ranks; in a rank, they do the work.
#pragma once

#include <functional>
#include <string>

#include "entrain/trainer/context.h"

namespace entrain::app {

// In a rank (ENTRAIN_RANK is set) or a cluster of one rank: joins and runs `work`. Else starts one
// copy of this very command a rank and waits for them. Returns the exit code. `essential_rank`: see
// JobOptions.
int run_on_ranks(const std::string& cluster, double timeout_s, const std::function<int(Context&)>& work,
                 int essential_rank = -1);

}  // namespace entrain::app
