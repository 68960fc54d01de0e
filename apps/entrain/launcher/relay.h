// Carries what the ranks of a job write to our stdout and stderr, through a Transcript.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "entrain/base/process.h"
#include "launcher/transcript.h"

namespace entrain::app {

// Usage: attach() all ranks, start(), then started() each; finish() each rank that has ended; stop().
class Relay {
 public:
  explicit Relay(std::vector<Transcript::Rank> ranks);
  ~Relay();  // stop()
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Redirects what `process`, the rank, writes. A rank 0 that runs here keeps our stdout, and where our
  // stderr is a terminal, its stderr is one, too.
  void attach(int rank, ProcessOptions& process);
  // All ranks are attached: reading begins.
  void start();
  // The rank's process runs and has its ends of the pipes: ours are closed.
  void started(int rank);
  // Returns when ssh has reached the rank's host, or given up.
  void wait_until_reached(int rank);
  // Returns when all that the rank wrote is shown, or soon after: a process that it left may still write.
  void finish(int rank);
  void fail(int rank, const std::string& text);  // these four as Transcript's
  void note(const std::string& text);
  bool told(int rank);
  std::optional<std::string> unreached(int rank);
  // Shows what is left, and sums up.
  void stop();

 private:
  struct Source {
    int rank;
    Transcript::Stream stream;
    OwnedFd fd;
    bool terminal = false;
  };

  int open_pipe(int rank, Transcript::Stream stream);  // returns the end to write to
  int open_terminal(int rank);                         // -1: it cannot be had
  void run();
  bool read_some(Source& source);  // false: no more will come

  std::vector<std::vector<OwnedFd>> given_;  // each rank's ends, until started()
  OwnedFd wakeup_;
  std::thread thread_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Transcript transcript_;
  std::vector<Source> sources_;
  std::vector<int> open_;  // sources of each rank that may still write
  bool stopping_ = false;
};

}  // namespace entrain::app
