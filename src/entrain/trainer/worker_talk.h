// Control messages among the workers only; a rank that just serves takes no part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "entrain/trainer/context.h"

namespace entrain {

std::vector<int> worker_ranks(const cluster::Cluster& cluster);  // ascending; the first is rank 0's

// Everyone's text at rank 0, in the order of worker_ranks(); empty elsewhere. Throws PeerError.
std::vector<std::string> gather_from_workers(Context& context, const std::string& own, transport::Tag tag,
                                             Deadline deadline, std::string_view what);

// Rank 0's text, at every worker. Throws PeerError.
std::string tell_workers(Context& context, const std::string& text, transport::Tag tag, Deadline deadline,
                         std::string_view what);

}  // namespace entrain
