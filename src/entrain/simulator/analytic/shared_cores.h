// Ranks that compute at the same time on C cores: each gets its fair part (processor sharing).
//
//   n ranks compute: each advances at min(1, C / n) seconds per second.
//
// All advance alike, so one virtual clock V does for all: a rank that begins `work` seconds at V ends when
// the clock shows V + work, and only the soonest end has to be known.
#pragma once

#include <limits>
#include <vector>

namespace entrain::simulator {

class SharedCores {
 public:
  // `cores` <= 0: as many as ranks compute.
  void reset(double cores);
  void begin(double now, int rank, double work);
  // When the next rank ends, as things stand; infinity: none computes.
  double next_end() const;
  // Takes out one that ends at next_end(), which must be `now`. Ranks that began first end first.
  int take(double now);
  bool idle() const { return running_.empty(); }

 private:
  struct Running {
    double end;  // on the virtual clock
    int number;
    int rank;
    bool operator<(const Running& other) const {  // the soonest on top of a heap
      return end != other.end ? end > other.end : number > other.number;
    }
  };
  void advance(double now);
  double rate() const;

  double cores_ = 0;
  double at_ = 0;     // real time of...
  double clock_ = 0;  // ...the virtual clock
  int begun_ = 0;
  std::vector<Running> running_;  // heap
};

}  // namespace entrain::simulator
