#include "entrain/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "entrain/base/units.h"

namespace entrain {

Progress::Progress(std::string label, int64_t total, bool enabled)
    : label_(std::move(label)), total_(total), enabled_(enabled), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputc('\n', stderr);
}

std::string Progress::line(int64_t done, const std::string& note) const {
  const double elapsed = seconds_since(start_);
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 0;
  std::string text = fmt::format("{} {}", label_, done);
  if (total_ > 0) text += fmt::format("/{}", total_);
  if (terminal_ && total_ > 0) {
    constexpr int kWidth = 24;
    const int filled = static_cast<int>(share * kWidth);
    text += fmt::format(" [{}{}]", std::string(filled, '#'), std::string(kWidth - filled, '.'));
  }
  text += fmt::format(" {:.2f} it/s", rate);
  if (rate > 0 && total_ > 0)
    text += fmt::format(" ETA {}", format_seconds(static_cast<double>(total_ - done) / rate));
  return note.empty() ? text : text + "  " + note;
}

void Progress::update(int64_t done, const std::string& note) {
  if (!enabled_) return;
  const auto now = Clock::now();
  const Seconds interval(terminal_ ? 0.1 : 5.0);
  if (done != total_ && drawn_ && now - last_ < interval) return;
  last_ = now;
  drawn_ = true;
  const std::string text = line(done, note);
  std::fputs(terminal_ ? ("\r\033[K" + text).c_str() : (text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace entrain
