// A cluster in environment variables: how a launcher tells it to ranks on hosts that may not have its file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"

namespace entrain::cluster {

// "ENTRAIN_CLUSTER_TEXT=...", and as many more as are needed ("ENTRAIN_CLUSTER_TEXT_1=..."): Linux takes at
// most 128 KiB per variable. Throws InputError when all of them are too large.
std::vector<std::string> to_environment(const Cluster& cluster);

// The cluster that this process's environment holds, or nothing. Throws InputError.
std::optional<Cluster> from_environment();

}  // namespace entrain::cluster
