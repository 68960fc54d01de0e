// Logging goes to stderr, never to stdout: stdout belongs to the result (`--json`).
#pragma once

#include <spdlog/spdlog.h>

namespace entrain {

// Called once by main() and by `init`. `rank` < 0: a process without a rank.
// Level from ENTRAIN_LOG (trace, debug, info, warn, error), default info; ranks other
// than 0 default to warn, so that one job prints one story.
void init_logging(int rank);

}  // namespace entrain
