// AutoDist's fields of a parameter server, `sync` and `staleness`, as one setting of the whole job.
//
//   sync true,  staleness 0        gradients meet every step
//   sync true,  staleness s > 0    bounded staleness: the optimizer async-ps with staleness s
//   sync false, staleness 0        asynchronous:      the optimizer async-ps
#pragma once

#include <cstdint>
#include <optional>

#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

// What the optimizer's `staleness` is to be for the strategy: unset when gradients meet every step, -1 when
// there is no bound. Throws InputError naming a variable when variables differ in it, for an update is then
// neither, and for fields that contradict each other or that asynchronous servers do not have.
std::optional<int64_t> staleness_of(const Strategy& strategy);

}  // namespace entrain::strategy
