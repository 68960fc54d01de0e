#include "launcher/transcript.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <regex>

namespace entrain::app {
namespace {

constexpr std::string_view kFailure = "entrain: ";
// How the C++ runtime ends a program of the user's that lets an exception through.
constexpr std::string_view kTerminate = "terminate called after throwing";
constexpr std::array kFailures = {kFailure, kTerminate, std::string_view("  what():  ")};

bool tells_failure(std::string_view line) {
  return std::ranges::any_of(kFailures, [&](std::string_view each) { return line.starts_with(each); });
}

bool may_become_failure(std::string_view beginning) {
  return std::ranges::any_of(
      kFailures, [&](std::string_view each) { return each.starts_with(beginning.substr(0, each.size())); });
}

std::string ranks_text(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

std::string failure_in(const std::string& line, int rank, const std::string& address) {
  if (!tells_failure(line)) return "";
  std::string text = std::regex_replace(line, std::regex(fmt::format(R"(\brank {}\b)", rank)), "rank #");
  for (size_t at; !address.empty() && (at = text.find(address)) != std::string::npos;) {
    text = text.substr(0, at) + '#' + text.substr(at + address.size());
  }
  text = std::regex_replace(text, std::regex(R"(^entrain: rank [0-9#]+ ended the job: )"), "entrain: ");
  text = text.substr(0, text.find(" while rank "));
  text = std::regex_replace(text, std::regex(R"( is cut off \(.*\)$)"), " closed the connection");  // a reset
  text = text.substr(0, text.find(": rank # gave up"));
  text = text.substr(0, text.find(": rank # has waited"));
  text = std::regex_replace(text, std::regex(R"( \([^() ]*:\d+\))"), "");  // " (10.0.0.3:41234)"
  return std::regex_replace(text, std::regex(R"(\b[0-9.]+ s\b)"), "# s");
}

Transcript::Transcript(std::vector<Rank> ranks, Write write, bool terminal)
    : ranks_(std::move(ranks)), write_(std::move(write)), terminal_(terminal), channels_(2 * ranks_.size()) {
  for (size_t i = 0; i < channels_.size(); ++i) channels_[i].reached = !ranks_[i / 2].over_ssh;
}

void Transcript::add(int rank, Stream stream, std::string_view bytes) {
  Channel& c = channel(rank, stream);
  if (rank == 0 && stream == Stream::kOutput && c.reached) return write_(1, bytes);
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    c.line += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    std::string line;
    line.swap(c.line);
    take_line(rank, stream, line);
    if (rank == 0 && stream == Stream::kOutput && c.reached && !bytes.empty()) return write_(1, bytes);
  }
  constexpr size_t kLongest = 1 << 16;  // what draws progress may end no line for hours
  if (c.line.size() > kLongest) {
    std::string line;
    line.swap(c.line);
    take_line(rank, stream, line);
  }
  if (terminal_ && rank == 0 && c.reached && stream == Stream::kErrors) pass_beginning(c);
}

void Transcript::pass_beginning(Channel& c) {
  if (c.line.empty() || (!c.passing && may_become_failure(c.line))) return;
  write_(2, c.line);
  c.line.clear();
  c.passing = open_ = true;
}

void Transcript::take_line(int rank, Stream stream, const std::string& line) {
  Channel& c = channel(rank, stream);
  if (!c.reached) {
    c.reached = line.ends_with(kReached);
    if (!c.reached && stream == Stream::kErrors) c.before += line + "\n";
    // What a login shell greets with is no result.
    if (!c.reached && stream == Stream::kOutput) show(ranks_[rank].prefix + line);
    return;
  }
  if (c.passing) {
    write_(2, line + "\n");
    c.passing = open_ = false;
  } else if (tells_failure(line)) {
    told_.insert(rank);
    tell_failure(rank, line, rank == 0 && !ranks_[0].over_ssh ? "" : ranks_[rank].prefix);
  } else {
    show(rank == 0 ? line : ranks_[rank].prefix + line);
  }
}

void Transcript::fail(int rank, const std::string& text) {
  const size_t failure = tell_failure(rank, std::string(kFailure) + text, "");
  known_.try_emplace(fmt::format("entrain: rank {} closed the connection", rank), failure);
}

void Transcript::note(const std::string& text) { show(std::string(kFailure) + text); }

size_t Transcript::tell_failure(int rank, const std::string& line, const std::string& prefix) {
  const auto [found, first] =
      known_.try_emplace(failure_in(line, rank, ranks_[rank].address), failures_.size());
  if (first) {
    failures_.push_back({rank, {}, line.starts_with(kTerminate)});
    show(prefix + line);
  } else if (rank != failures_[found->second].first) {
    failures_[found->second].others.insert(rank);
  }
  return found->second;
}

void Transcript::show(const std::string& line) {
  write_(2, (open_ ? "\n" : "") + line + "\n");
  open_ = false;
  if (!channels_.empty()) channel(0, Stream::kErrors).passing = false;
}

void Transcript::end(int rank) {
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    Channel& c = channel(rank, stream);
    if (c.line.empty()) continue;
    std::string line;
    line.swap(c.line);
    take_line(rank, stream, line);
  }
}

void Transcript::close() {
  for (const Failure& failure : failures_) {
    if (failure.others.empty() || failure.silent) continue;
    show(fmt::format("entrain: the same from {}{}", ranks_text(failure.others),
                     failures_.size() == 1 ? "" : fmt::format(" as from rank {}", failure.first)));
  }
  failures_.clear();
  known_.clear();
}

std::optional<std::string> Transcript::unreached(int rank) const {
  const Channel& c = channel(rank, Stream::kErrors);
  if (c.reached) return std::nullopt;
  return c.before + c.line;
}

}  // namespace entrain::app
