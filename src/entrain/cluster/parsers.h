// The ways to write a cluster, and the check that each ends with. Internal to this module.
#pragma once

#include <string>
#include <string_view>

#include "entrain/base/limits.h"  // IWYU pragma: export
#include "entrain/cluster/cluster.h"

namespace entrain::cluster {

bool is_shorthand(std::string_view text);                 // starts with "local:" or "lab:"
Cluster cluster_from_shorthand(const std::string& text);  // throws InputError
Cluster cluster_from_hostfile(const std::string& content, const std::string& origin);

// Throws InputError "ORIGIN: ..." unless the cluster is usable: 1 to kMaxRanks ranks, distinct
// addresses, positive bandwidths and speeds, a first host that trains (rank 0 lives there).
void check(const Cluster& cluster, const std::string& origin);

// Throws InputError where the text of a cluster is longer than any: YAML takes hundreds of bytes for a
// letter.
void check_length(const std::string& text, const std::string& origin);

// "ORIGIN: FIELD is VALUE, allowed: ..." unless text is a whole number in [low, high].
int parse_int(std::string_view text, int low, int high, const std::string& what);
double parse_positive(std::string_view text, const std::string& what);
double parse_not_negative(std::string_view text, const std::string& what);

}  // namespace entrain::cluster
