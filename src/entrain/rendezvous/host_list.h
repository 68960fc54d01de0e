// Slurm's way to write lists of hosts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace entrain::rendezvous {

// "node[01-03,7],other" -> node01, node02, node03, node7, other. Leading zeros of a range are kept;
// a name may hold several brackets ("rack[1-2]n[1-2]", the last one turning fastest).
// Throws InputError naming `field` and what is wrong.
std::vector<std::string> parse_host_list(std::string_view text, std::string_view field);

}  // namespace entrain::rendezvous
