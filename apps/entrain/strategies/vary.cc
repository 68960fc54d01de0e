#include "strategies/vary.h"

#include <algorithm>
#include <charconv>

#include "entrain/base/error.h"
#include "entrain/base/units.h"

namespace entrain::app {
namespace {

constexpr int64_t kMostHosts = 1024, kMostExamples = 1 << 30;
constexpr int64_t kAllOfRange = 4;  // numbers: longer ranges go in powers of 2

std::vector<std::string> separated(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == by) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

int64_t whole_number(const std::string& text, const std::string& field, const std::string& given,
                     int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most) {
    bad_input("--vary {}: \"{}\", allowed: whole numbers from 1 to {}, as in {}=1,2,4 or {}=1..16", field,
              given, most, field, field);
  }
  return number;
}

// "4", "1..16".
std::vector<int64_t> numbers_of(const std::string& text, const std::string& field, int64_t most) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {whole_number(text, field, text, most)};
  const int64_t first = whole_number(text.substr(0, dots), field, text, most);
  const int64_t last = whole_number(text.substr(dots + 2), field, text, most);
  if (last < first) bad_input("--vary {}: \"{}\", allowed: the smaller number first", field, text);
  const bool all = last - first < kAllOfRange;
  std::vector<int64_t> numbers;
  for (int64_t n = first; n < last; n = all ? n + 1 : 2 * n) numbers.push_back(n);
  numbers.push_back(last);
  return numbers;
}

double gbit_of(const std::string& text) { return parse_rate("--vary link", text) / (1e9 / 8); }

template <typename T>
void sort_and_unite(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void add_axis(const std::string& text, tuner::Axes& axes) {
  const size_t sign = text.find('=');
  const std::string field = text.substr(0, sign);
  if (sign == std::string::npos || (field != "link" && field != "hosts" && field != "batch")) {
    bad_input("--vary is \"{}\", allowed: link=1gbit,10gbit, hosts=1..16, batch=32,64", text);
  }
  for (const std::string& value : separated(text.substr(sign + 1), ',')) {
    if (field == "link") {
      axes.link_gbit.push_back(gbit_of(value));
    } else if (field == "hosts") {
      for (const int64_t n : numbers_of(value, field, kMostHosts)) axes.hosts.push_back(static_cast<int>(n));
    } else {
      for (const int64_t n : numbers_of(value, field, kMostExamples)) axes.examples.push_back(n);
    }
  }
}

}  // namespace

tuner::Axes axes_of(const std::vector<std::string>& vary) {
  tuner::Axes axes;
  if (vary.empty()) {
    for (const std::string& text : separated(kDefaultVary, ' ')) add_axis(text, axes);
  }
  for (const std::string& text : vary) add_axis(text, axes);
  sort_and_unite(axes.link_gbit);
  sort_and_unite(axes.hosts);
  sort_and_unite(axes.examples);
  return axes;
}

}  // namespace entrain::app
