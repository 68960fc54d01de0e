// Messages that a Source makes while they travel.
#include <gtest/gtest.h>

#include <map>

#include "entrain/simulator/analytic/network.h"
#include "entrain/simulator/analytic/testing.h"
#include "entrain/strategy/builders/registry.h"

namespace entrain::simulator {
namespace {

using testing::ideal_links;
using testing::kSecond;

// Gives (shipment, rank) at given times, and notes when whole shipments arrive.
class Timetable final : public Source {
 public:
  struct Gift {
    double at;
    int shipment, rank;
  };
  explicit Timetable(std::vector<Gift> gifts) : gifts_(std::move(gifts)) {}
  void begin(Carrier& carrier) override {
    carrier_ = &carrier;
    for (size_t i = 0; i < gifts_.size(); ++i) carrier.wake_at(gifts_[i].at, static_cast<int>(i));
  }
  void woken(int token) override {
    const Gift& gift = gifts_[static_cast<size_t>(token)];
    EXPECT_DOUBLE_EQ(carrier_->time(), gift.at);
    carrier_->give(gift.shipment, gift.rank);
  }
  void arrived(int shipment) override { arrivals[shipment] = carrier_->time(); }

  std::map<int, double> arrivals;

 private:
  std::vector<Gift> gifts_;
  Carrier* carrier_ = nullptr;
};

class NetworkSourceTest : public ::testing::Test {
 protected:
  void run(const char* cluster, Timetable& timetable, double grain = 64e3) {
    Network(cluster::parse(cluster), k).run(shipments, timetable, grain, busy);
  }
  // One message of the transport, of so many seconds of a link of 1 Gbit/s.
  void parcel(int from, int to, int priority, double seconds) {
    shipments.push_back({routes.straight(from, to), priority, seconds * kSecond, 0, 0});
    shipments.back().whole = true;
  }
  graph::Graph g;
  Routes routes{g};
  Calibration k = ideal_links();
  std::vector<Shipment> shipments;
  std::vector<double> busy;
};

TEST_F(NetworkSourceTest, AParcelTakesItsWayWhenItIsGivenAndIsHeardOf) {
  parcel(0, 1, 0, 1);
  Timetable timetable({{0.5, 0, 0}});
  run("lab:2x1gbit", timetable);
  EXPECT_NEAR(timetable.arrivals.at(0), 1.5, 1e-6);
  EXPECT_NEAR(shipments[0].ready, 0.5, 1e-12);
  EXPECT_NEAR(shipments[0].begun, 0.5, 1e-12);
  EXPECT_NEAR(shipments[0].ended, 1.5, 1e-6);
}

TEST_F(NetworkSourceTest, WhatHasSetOutIsNotOvertakenWhatWaitsIs) {
  parcel(0, 1, 5, 1);
  parcel(0, 1, 5, 1);
  parcel(0, 1, 0, 0.25);
  Timetable timetable({{0, 0, 0}, {0, 1, 0}, {0.5, 2, 0}});
  run("lab:2x1gbit", timetable);
  EXPECT_NEAR(timetable.arrivals.at(0), 1, 0.01);
  EXPECT_NEAR(timetable.arrivals.at(2), 1.25, 0.01);
  EXPECT_NEAR(timetable.arrivals.at(1), 2.25, 0.01);
}

TEST_F(NetworkSourceTest, AParcelWakesItsReceiverOnceHoweverManyPiecesItHas) {
  k.latency_s = 0.25;
  k.message_s = 0.125;
  parcel(0, 1, 0, 1);
  Timetable timetable({{0, 0, 0}});
  run("lab:2x1gbit", timetable, 16e3);
  EXPECT_NEAR(timetable.arrivals.at(0), 1 + 0.25 + 0.125, 1e-3);
  EXPECT_NEAR(busy[5], 0.125, 1e-6);
}

TEST_F(NetworkSourceTest, BytesOfAParcelKeepTheEnginesOfBothEndsBusy) {
  k.engine_bytes_per_s = 2 * kSecond;
  for (const char* cluster : {"lab:2x1gbit", "lab:1x1gbit/ranks=2"}) {
    shipments.clear();
    parcel(0, 1, 0, 1);
    Timetable timetable({{0, 0, 0}});
    run(cluster, timetable);
    const size_t hosts = busy.size() / 3;
    EXPECT_NEAR(busy[2 * hosts], 0.5, 1e-3) << cluster;
    EXPECT_NEAR(busy[3 * hosts - 1], 0.5, 1e-3) << cluster;
  }
}

// The server adds its own part, so it answers when it has that as well.
TEST_F(NetworkSourceTest, AGateWaitsForTheOwnPartOfItsRank) {
  const auto d = cluster::parse("lab:3x1gbit");
  auto model = testing::slow_layers(1);
  testing::resize(model.variables[0], 1);
  const auto plan = plan::make_plan(strategy::build("ps", model, d), model, d);
  ASSERT_EQ(plan.messages.at(0).root, 0);
  const Routes of_model(model);
  const auto found = of_model.find(plan.messages[0]);
  for (const auto& [own, ended] : {std::pair{4.0, 6.0}, {0.0, 3.0}}) {
    shipments = {{found.route, 0, found.bytes, 0, 0}};
    Timetable timetable({{0, 0, 1}, {0.5, 0, 2}, {own, 0, 0}});
    run("lab:3x1gbit", timetable, 16e3);
    EXPECT_NEAR(shipments[0].begun, 0, 1e-9);
    // Two pushes to the server's link, then two pulls: at once with them, or after its own part.
    EXPECT_NEAR(shipments[0].ended, ended, own > 0 ? 0.02 : 0.6);
    EXPECT_TRUE(timetable.arrivals.empty());
  }
}

TEST_F(NetworkSourceTest, EachRankPreparesItsOwnPart) {
  parcel(0, 1, 0, 1);
  shipments[0].preparing = 0.5;
  Timetable timetable({{1, 0, 0}});
  run("lab:2x1gbit", timetable);
  EXPECT_NEAR(shipments[0].begun, 1.5, 1e-9);
  EXPECT_NEAR(busy[4], 0.5, 1e-3);
  EXPECT_NEAR(busy[5], 0, 1e-3);
}

}  // namespace
}  // namespace entrain::simulator
