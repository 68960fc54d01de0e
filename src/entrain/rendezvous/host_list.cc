#include "entrain/rendezvous/host_list.h"

#include <charconv>

#include "entrain/base/error.h"

namespace entrain::rendezvous {
namespace {

constexpr size_t kMostHosts = 1 << 20;  // a range like [0-999999999] is a mistake

// A host list being read from left to right.
class ListReader {
 public:
  ListReader(std::string_view text, std::string_view field) : text_(text), field_(field) {}

  [[noreturn]] void bad(std::string_view what) const {
    bad_input("{} is \"{}\": {} at character {}; a list of hosts looks like node[01-03,7],other", field_,
              text_, what, at_ + 1);
  }
  bool at_end() const { return at_ == text_.size(); }
  char next() const { return at_end() ? '\0' : text_[at_]; }
  void skip() { ++at_; }

  // Up to one of `stops`, or the end.
  std::string_view until(std::string_view stops) {
    const size_t begin = at_;
    while (!at_end() && stops.find(next()) == std::string_view::npos) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  size_t number(std::string_view digits) const {
    size_t value = 0;
    const auto [rest, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || code != std::errc() || rest != digits.data() + digits.size()) bad("no number");
    return value;
  }

 private:
  std::string_view text_;
  std::string_view field_;
  size_t at_ = 0;
};

// "01-03,7]" -> 01, 02, 03, 7. The width of a range's first number is that of all its numbers.
std::vector<std::string> read_bracket(ListReader& in) {
  std::vector<std::string> numbers;
  while (true) {
    const std::string_view low = in.until("-,]");
    const size_t first = in.number(low);
    size_t last = first;
    if (in.next() == '-') {
      in.skip();
      last = in.number(in.until(",]"));
    }
    if (last < first || last - first > kMostHosts) in.bad("a range that does not go upwards, or too far");
    for (size_t n = first; n <= last; ++n) numbers.push_back(fmt::format("{:0{}}", n, low.size()));
    const char stop = in.next();
    if (stop == '\0') in.bad("no closing bracket");
    in.skip();
    if (stop == ']') return numbers;
  }
}

// One entry, up to a comma outside of brackets: every way to fill its brackets.
std::vector<std::string> read_entry(ListReader& in) {
  std::vector<std::string> names = {""};
  while (!in.at_end() && in.next() != ',') {
    const std::string_view plain = in.until("[],");
    if (in.next() == ']') in.bad("a closing bracket without an opening one");
    std::vector<std::string> endings = {""};
    if (in.next() == '[') {
      in.skip();
      endings = read_bracket(in);
    }
    if (names.size() * endings.size() > kMostHosts) in.bad("too many hosts");
    std::vector<std::string> longer;
    for (const auto& name : names) {
      for (const auto& ending : endings) longer.push_back(fmt::format("{}{}{}", name, plain, ending));
    }
    names = std::move(longer);
  }
  if (names.front().empty()) in.bad("an empty name");
  return names;
}

}  // namespace

std::vector<std::string> parse_host_list(std::string_view text, std::string_view field) {
  ListReader in(text, field);
  std::vector<std::string> hosts;
  while (true) {
    for (auto& name : read_entry(in)) hosts.push_back(std::move(name));
    if (in.at_end()) return hosts;
    in.skip();
  }
}

}  // namespace entrain::rendezvous
