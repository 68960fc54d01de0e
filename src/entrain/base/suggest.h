// Which known name a mistyped one was meant to be.
#pragma once

#include <string>
#include <vector>

namespace entrain {

// The known name that `name` is a beginning of (from 2 letters on), else the one with the fewest typos
// (letters added, left out, replaced or swapped), at most a third of its letters. Empty: none is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

// "; did you mean vgg16?", or nothing where no known name is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace entrain
