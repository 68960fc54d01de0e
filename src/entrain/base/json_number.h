// Numbers of JSON documents. JSON has no infinity and no NaN: nlohmann writes null for them, and throws when
// null is read as a number. Whoever reads a number that was measured reads it with this.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

namespace entrain {

// `value` as a number; null is NaN.
inline double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace entrain
