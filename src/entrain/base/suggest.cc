#include "entrain/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace entrain {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  std::string found;
  size_t fewest = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& each : known) {
    const size_t far = each.starts_with(name) && name.size() > 1 ? 0 : edits(name, each);
    if (far >= fewest) continue;
    fewest = far;
    found = each;
  }
  return found;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

}  // namespace entrain
