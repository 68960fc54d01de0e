// Messages on their way through a cluster, as queues and events.
//
//   stream (by priority) ─▶ sender's link ─▶ receiver's link ─▶ receiver's engine ─▶ opens gates (routes.h)
//
// A stream leads from one rank to another and has at most a window of bytes on the links. What waits for it
// goes by priority, segment by segment, as the transport's queues do; what is on a link goes in the order of
// its coming, as in a switch: priorities cannot overtake it. Windows make streams that share a link share it
// alike.
//
// Either it is known from the start when each message is ready, or a Source makes them while they travel:
// each rank's part by itself, and a gate also waits for the part of its own rank.
#pragma once

#include <vector>

#include "entrain/simulator/analytic/routes.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

struct Shipment {
  const Route* route;
  int priority;      // lower goes first
  double bytes;      // of the message
  double ready;      // when its workers have it
  double preparing;  // seconds of each worker's engine: packing, casting
  double begun = 0;  // out: when its first byte moved
  double ended = 0;  // out: when the last rank had it all
  // One message of the transport, from one rank to another: it is not cut, and once it has set out it goes to
  // its end. A Source hears of its arrival.
  bool whole = false;
};

// What a Source may do while messages travel.
class Carrier {
 public:
  virtual double time() const = 0;
  virtual void wake_at(double time, int token) = 0;  // calls Source::woken(token)
  virtual void give(int shipment, int rank) = 0;     // the rank has its own part of this shipment
 protected:
  ~Carrier() = default;
};

class Source {
 public:
  virtual void begin(Carrier& carrier) = 0;  // at time 0
  virtual void woken(int token) = 0;
  virtual void arrived(int shipment) = 0;  // a whole one
 protected:
  ~Source() = default;
};

class Network {
 public:
  Network(const cluster::Cluster& cluster, const Calibration& calibration);

  size_t hosts() const { return rate_.size(); }
  // Fills `begun` and `ended` of all. `busy`: seconds that each host's link sends, receives, and the engines
  // of its ranks work: [0, H), [H, 2H), [2H, 3H). Messages move in pieces of `grain` bytes, or more where
  // the executor's segments are larger: coarse enough that whoever asks gets the answer in time.
  // Thread-safe.
  void run(std::vector<Shipment>& shipments, const std::vector<int>& workers, double grain,
           std::vector<double>& busy) const;
  // The same, when `source` says; `ready` is filled as well: when the last rank had its part.
  void run(std::vector<Shipment>& shipments, Source& source, double grain, std::vector<double>& busy) const;

 private:
  struct Run;
  void run(Run& run) const;
  Calibration calibration_;
  std::vector<int> host_of_;   // by rank
  std::vector<double> rate_;   // by host: bytes per second
  std::vector<double> ranks_;  // by host: how many
};

}  // namespace entrain::simulator
