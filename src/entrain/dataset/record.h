// One line of a data set: a domain (without its trials) or a trial. See dataset.h for the form.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

struct TrialLine {
  std::string domain;
  Trial trial;
};
using Record = std::variant<Domain, TrialLine>;

// Without the line's end.
std::string line_of(const Domain& domain);
std::string line_of(const std::string& domain, const Trial& trial);

// Throws InputError naming the field, its value and what is allowed; `line` in words ("FILE:LINE") is the
// caller's to add.
Record parse_line(std::string_view line);

// A line that was cut off in the middle is not.
bool is_whole(std::string_view line);

std::string_view name_of(Status status);  // "ok", "failed", "deadline"

}  // namespace entrain::dataset
