// Ranks as threads of one process: most tests, and `local` jobs of one rank.
#pragma once

#include <memory>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::transport {

// `world` connected transports; give one to each thread.
std::vector<std::unique_ptr<Transport>> make_inproc(int world);

}  // namespace entrain::transport
