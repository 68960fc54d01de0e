// --vary: what `entrain what-if` varies, as text.
#pragma once

#include <string>
#include <vector>

#include "entrain/tuner/what_if/setting.h"

namespace entrain::app {

// "link=100mbit,1gbit", "hosts=1..16", "batch=16,32,64". A range of more than 4 numbers goes in powers of 2
// from its first to its last: 1..16 is 1,2,4,8,16. None at all: kDefaultVary. Throws InputError naming field
// and value.
tuner::Axes axes_of(const std::vector<std::string>& vary);

inline constexpr const char* kDefaultVary = "link=100mbit,1gbit,10gbit hosts=1..16";

}  // namespace entrain::app
