// What a rank does that only serves parameters.
#pragma once

#include "entrain/job/context.h"

namespace entrain::parallel {

// Serves all handles of the workers, one after the other or side by side, until rank 0's Context is gone or
// end_serving() was called there. Throws PeerError when another rank fails.
void serve(job::Context& context);

}  // namespace entrain::parallel
