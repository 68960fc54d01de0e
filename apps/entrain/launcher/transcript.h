// What is shown of what the ranks of a job write: result, log lines, and each failure once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace entrain::app {

// The first line that a rank started over ssh writes to each of its streams (see remote.h): what came before
// is ssh's or the login shell's.
inline constexpr std::string_view kReached = "entrain-rank-reached";

// Rank 0's stdout is the result and goes to stdout as it comes. All else goes to stderr in whole lines, those
// of other ranks with their prefix; but on a terminal rank 0 may draw progress: its stderr goes there as it
// comes.
//
// When a rank dies, or an input is wrong, all ranks say so. A line that reports a failure ("entrain: ...") is
// shown once; ranks that report the same are summed up at the end. Not thread-safe.
class Transcript {
 public:
  struct Rank {
    std::string prefix;        // "[rank 2 @ 10.0.0.3] ", or nothing
    bool over_ssh = false;     // its streams begin with kReached
    std::string address = {};  // of its host
  };
  enum class Stream { kOutput, kErrors };
  using Write = std::function<void(int fd, std::string_view text)>;  // fd: 1 or 2

  Transcript(std::vector<Rank> ranks, Write write, bool terminal = false);

  void add(int rank, Stream stream, std::string_view bytes);
  // The end of a rank that reports nothing itself, as the launcher saw it (without "entrain: "). Ranks that
  // report a lost connection to it report the same.
  void fail(int rank, const std::string& text);
  // A line of the launcher's.
  void note(const std::string& text);
  // The rank has ended: its last lines may lack their end.
  void end(int rank);
  // All have ended.
  void close();

  // Whether the rank has reported a failure itself.
  bool told(int rank) const { return told_.contains(rank); }
  // What ssh said of a rank that it never reached; nothing when it was reached.
  std::optional<std::string> unreached(int rank) const;

 private:
  struct Channel {
    std::string line;      // so far
    bool reached = true;   // kReached has come
    bool passing = false;  // the beginning of the line is already shown
    std::string before;    // stderr before kReached
  };
  struct Failure {
    int first = 0;  // rank
    std::set<int> others;
    bool silent = false;  // not worth summing up
  };

  Channel& channel(int rank, Stream stream) {
    return channels_[2 * rank + (stream == Stream::kErrors ? 1 : 0)];
  }
  const Channel& channel(int rank, Stream stream) const {
    return channels_[2 * rank + (stream == Stream::kErrors ? 1 : 0)];
  }
  void take_line(int rank, Stream stream, const std::string& line);
  void pass_beginning(Channel& channel);
  size_t tell_failure(int rank, const std::string& line, const std::string& prefix);  // which of failures_
  void show(const std::string& line);  // on stderr, as a line of its own

  std::vector<Rank> ranks_;
  Write write_;
  bool terminal_;
  std::vector<Channel> channels_;  // two per rank
  bool open_ = false;              // stderr is in the middle of rank 0's line
  std::set<int> told_;
  std::vector<Failure> failures_;        // in the order in which they were shown
  std::map<std::string, size_t> known_;  // by what failure_in() makes of a line
};

// The failure that `line` of `rank` tells, without what differs from rank to rank: who tells it, on which
// host, what it was doing, ports, how long it waited. Empty: it tells none.
std::string failure_in(const std::string& line, int rank, const std::string& address = "");

}  // namespace entrain::app
