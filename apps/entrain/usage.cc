#include "usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace entrain::app {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
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

// The flag of `app` that `name` is a beginning of, or the one with the fewest typos; empty: none is near.
std::string nearest(const CLI::App& app, const std::string& name) {
  std::string found;
  size_t fewest = std::max<size_t>(1, name.size() / 3) + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      const size_t far = known.starts_with(name) && name.size() > 1 ? 0 : edits(name, known);
      if (far >= fewest) continue;
      fewest = far;
      found = known;
    }
  }
  return found;
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' ? word.size() > 2 : std::isalpha(word[1]) != 0);
}

// Of `app` or of the verb of it that was chosen; empty: none.
std::string unknown_flag(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!is_flag(word)) continue;
    const std::string flag = word.substr(0, word.find('='));
    const std::string meant = flag.starts_with("--") ? nearest(app, flag.substr(2)) : "";
    return fmt::format("unknown flag {}{}", flag,
                       meant.empty() ? "" : fmt::format("; did you mean --{}?", meant));
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (std::string found = unknown_flag(*verb); !found.empty()) return found;
  }
  return "";
}

// "train", "dataset stats"
std::string verb_of(const CLI::App& app) {
  std::string name;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string unknown = unknown_flag(app);
  return fmt::format("{} (see entrain{} --help)", unknown.empty() ? error.what() : unknown, verb_of(app));
}

}  // namespace entrain::app
