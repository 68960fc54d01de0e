// What a rank does that only serves parameters.
#pragma once

#include "entrain/trainer/context.h"

namespace entrain {

// Serves until rank 0's training ends. Throws PeerError when another rank fails.
void serve(Context& context);

}  // namespace entrain
