// What `entrain what-if` found: as a table with two conclusions, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "entrain/tuner/what_if/what_if.h"

namespace entrain::app {

struct WhatIfReport {
  std::string model, cluster;
  std::string calibration;  // where it is from, in words
  tuner::WhatIf found;
};

// "from 4 hosts on 1 Gbit/s, 32 examples per update: links of 10 Gbit/s give 1.9x, 8 hosts 1.1x: faster links
// are the better buy". Speed-ups per step of an axis; prices are not known. Empty: neither was varied
// upwards.
std::string better_buy(const tuner::WhatIf& found);

// Where using more than one of several hosts is slower: "one host alone is best on 100 Mbit/s with 2 to 4
// hosts".
std::string where_one_host_is_best(const tuner::WhatIf& found);

std::string to_text(const WhatIfReport& report);
nlohmann::json to_json(const WhatIfReport& report);

}  // namespace entrain::app
