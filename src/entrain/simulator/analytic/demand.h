// What a message asks of links and hosts, whatever its schedule.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "entrain/plan/plan.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// Resources of a cluster of H hosts, numbered:
//   [0, H)     sending on a host's link        bytes per second
//   [H, 2H)    receiving on it                 bytes per second
//   [2H, 3H)   the engines of its ranks        seconds per second
struct Resources {
  explicit Resources(const cluster::Cluster& cluster, const Calibration& calibration);

  size_t hosts;
  std::vector<double> capacity;
  std::vector<double> workers;  // by host: ranks that train
  std::vector<double> burst;    // bytes: what a shaper's bucket (a switch's buffer) holds; engines: 0
  size_t sending(int host) const { return static_cast<size_t>(host); }
  size_t receiving(int host) const { return hosts + static_cast<size_t>(host); }
  size_t engine(int host) const { return 2 * hosts + static_cast<size_t>(host); }
};

// A schedule's use of each resource: fixed + per_byte * (bytes of the message).
struct Demand {
  std::vector<double> per_byte;
  std::vector<double> first;  // of per_byte: what the first stage asks for
  std::vector<double> fixed;  // engines: seconds a message costs however small
  double stream = 0;          // bytes on its busiest pair of ranks, by byte of the message
  double stream_rate = 0;     // the slowest pair it uses, bytes per second
  double filling = 0;         // seconds by byte of a piece: all stages but the longest
  int depth = 0;              // longest chain of transfers that wait for one another
  int chunks = 1;
  int transfers = 0;
};

// Demands by schedule, worked out once each. Thread-safe.
class Demands {
 public:
  Demands(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration);

  const Resources& resources() const { return resources_; }
  // The message's demand and the number of the queue it waits in: messages of one schedule use the same
  // streams, where the more important goes first.
  struct Found {
    const Demand* demand;
    int queue;
    double bytes;  // what per_byte is to be multiplied with
  };
  Found find(const plan::Message& message, const std::vector<int>& workers) const;
  int queues() const;

 private:
  Demand dense(const collective::Schedule& schedule) const;
  Demand sparse(const plan::Message& message, const std::vector<int>& workers) const;
  double filling_of(const collective::Schedule& schedule, const std::vector<int>& depths) const;
  void count(Demand& demand, int from, int to, double share, bool reduce) const;

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  Calibration calibration_;
  Resources resources_;
  std::vector<int> host_of_;  // by rank

  struct Kept {
    Demand demand;
    int queue;
  };
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<const void*, std::unique_ptr<Kept>> by_schedule_;  // guarded by mutex_
  mutable std::unordered_map<int, std::unique_ptr<Kept>> by_root_;              // -1: all-gather; mutex_
  mutable int queues_ = 0;                                                      // guarded by mutex_
};

}  // namespace entrain::simulator
