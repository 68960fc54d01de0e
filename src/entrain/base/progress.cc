#include "entrain/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "entrain/base/units.h"

namespace entrain {
namespace {

constexpr int kWidestBar = 24, kNarrowestBar = 6;
constexpr int kUnknownColumns = 80;  // of a terminal that does not say

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUnknownColumns;
}

// Of UTF-8 text, all of whose characters are one column wide.
int columns_of(const std::string& text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cut_to(const std::string& text, int columns) {
  if (columns_of(text) <= columns) return text;
  const int kept = columns > 6 ? columns - 3 : std::max(columns, 0);
  size_t end = 0;
  for (int seen = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts && seen++ == kept) break;
  }
  return text.substr(0, end) + (columns > 6 ? "..." : "");
}

std::string bar(double share, int width) {
  const int filled = std::clamp(static_cast<int>(share * width), 0, width);
  return fmt::format(" [{}{}]", std::string(filled, '#'), std::string(width - filled, '.'));
}

}  // namespace

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

const char* before_stderr_line() { return stderr_is_terminal() ? "\r\033[K" : ""; }

std::string detail::format_rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.0f}M it/s", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.0f}k it/s", per_second / 1e3);
  if (per_second >= 100) return fmt::format("{:.0f} it/s", per_second);
  if (per_second >= 10) return fmt::format("{:.1f} it/s", per_second);
  if (per_second >= 1) return fmt::format("{:.2f} it/s", per_second);
  return format_seconds(1 / per_second) + "/it";
}

std::string detail::format_eta(double seconds) {
  const double whole = std::max(1.0, std::round(seconds));
  return whole < 60 ? fmt::format("{:.0f} s", whole) : format_seconds(whole);
}

std::string detail::progress_line(const ProgressState& s, int columns) {
  std::string head = fmt::format("{} {}", s.label, s.done);
  if (s.total > 0) head += fmt::format("/{}", s.total);
  const bool ended = s.total > 0 && s.done >= s.total;
  const std::string rate = s.rate > 0 ? fmt::format(" {}", format_rate(s.rate)) : "";
  std::string left;
  if (ended) {
    left = fmt::format(" in {}", format_eta(s.elapsed));
  } else if (s.rate > 0 && s.total > 0) {
    left = fmt::format(" ETA {}", format_eta(static_cast<double>(s.total - s.done) / s.rate));
  }
  const std::string note = s.note.empty() ? "" : fmt::format("  {}", s.note);
  if (columns <= 0) return head + rate + left + note;
  const int room = columns - columns_of(head + rate + left + note) - 3;  // for " []"
  if (s.total > 0 && room >= kNarrowestBar) {
    const double share = static_cast<double>(s.done) / static_cast<double>(s.total);
    return head + bar(share, std::min(room, kWidestBar)) + rate + left + note;
  }
  const std::string all = head + rate + left + note;
  return columns_of(all) <= columns ? all : cut_to(head + left + note, columns);
}

Progress::Progress(std::string label, int64_t total, bool enabled)
    : label_(std::move(label)), total_(total), enabled_(enabled), terminal_(stderr_is_terminal()) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputc('\n', stderr);
}

void Progress::update(int64_t done, const std::string& note) {
  if (!enabled_) return;
  const auto now = Clock::now();
  const Seconds interval(terminal_ ? 0.1 : 5.0);
  if (done != total_ && drawn_ && now - last_ < interval) return;
  if (!drawn_) {
    first_ = now;
    first_done_ = done;
  }
  last_ = now;
  drawn_ = true;
  const double since_first = Seconds(now - first_).count();
  const double rate =
      done > first_done_ && since_first > 0 ? static_cast<double>(done - first_done_) / since_first : 0;
  const detail::ProgressState state{label_, done, total_, rate, seconds_since(start_), note};
  // A line that fills the last column makes some terminals wrap.
  const std::string text = detail::progress_line(state, terminal_ ? std::max(terminal_columns() - 1, 1) : 0);
  std::fputs(fmt::format("{}{}{}", before_stderr_line(), text, terminal_ ? "" : "\n").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace entrain
