// One simulated update of a job of any shape (shaped_simulation.h).
#pragma once

#include <string>
#include <vector>

#include "entrain/plan/plan.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/network.h"
#include "entrain/simulator/analytic/routes.h"
#include "entrain/simulator/analytic/shape_blocks.h"
#include "entrain/simulator/analytic/shared_cores.h"

namespace entrain::simulator {

// What does not depend on the strategy. All that it refers to outlives it.
struct ShapedModel {
  ShapedJob job;
  const Calibration& calibration;
  plan::Planner planner;
  Routes routes;
  const Network& network;
};

// Kept between calls for its memory: a search makes hundreds of thousands of them.
class ShapedUpdate final : Source {
 public:
  // `describe`: for story(); blocks are not joined. All that it refers to outlives summary() and story().
  void run(const ShapedModel& model, const strategy::Strategy& strategy, bool describe);
  Estimate summary() const;
  SimulatedIteration story() const;

 private:
  struct Opening {
    int message;
    int next;  // of the same block, or -1
  };

  void add_messages();
  void add_parcels();
  void begin(Carrier& carrier) override;
  void woken(int token) override;
  void arrived(int shipment) override;
  void start(int rank);
  void finish(int rank);
  void watch_cores();
  std::string name_of(const Block& block) const;
  Interval interval_of(size_t shipment) const;
  int rank_of(int block) const;
  std::vector<Interval> critical_path(double seconds) const;
  // A block that nobody waits for, and the next of the same rank that waits for nobody, run as one.
  bool joins_next(int block, int end) const;

  const ShapedModel* model_ = nullptr;
  bool describe_ = false;
  double cores_ = 0;  // 0: not shared
  ShapeBlocks blocks_;
  plan::Plan plan_;
  std::vector<Shipment> shipments_;  // messages, then parcels
  std::vector<int> opened_by_;       // by block: place in openings_ of the first message that it opens, or -1
  std::vector<Opening> openings_;
  std::vector<double> busy_;  // as Network::run() fills it

  // While it runs.
  Carrier* carrier_ = nullptr;
  SharedCores shared_;
  int watch_ = 0;                      // number of the last time at which cores_ were to be looked at
  std::vector<int> needs_;             // by block: parcels that it still waits for
  std::vector<int> next_, last_;       // by rank: blocks; of those that run as one
  std::vector<char> computing_;        // by rank
  std::vector<double> began_, ended_;  // by block
  double end_ = 0;                     // of all blocks and messages
};

}  // namespace entrain::simulator
