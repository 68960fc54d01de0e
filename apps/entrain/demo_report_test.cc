#include "demo_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace entrain::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const auto kLab = cluster::parse("lab:1x10gbit+3x1gbit");
const plan::LinkBound kBound{1.08, 1, true};

DemoResult result(std::vector<DemoRow> rows) { return {"vgg16-32", 2, std::move(rows), 1.08, false}; }

TEST(DemoReport, ComparesWithDdpAndNotWithTheSlowest) {
  const DemoResult r = result({{"ps-lb", {3.0}, kBound}, {"ddp", {1.8}, kBound}, {"ps", {1.2}, kBound}});
  const auto j = demo_json(r, kLab);
  EXPECT_EQ(j["reference"], "ddp");
  EXPECT_DOUBLE_EQ(j["strategies"][0]["speed_vs_reference"].get<double>(), 1.5);
  const std::string text = demo_text(r, kLab);
  EXPECT_THAT(text, HasSubstr("vs ddp: ddp's step time over the strategy's"));
  EXPECT_THAT(text, HasSubstr("This cluster prefers ps: 1.20 s per step."));
  EXPECT_THAT(text, HasSubstr("ddp takes 1.50x as long"));
}

TEST(DemoReport, WithoutDdpTheReferenceIsAllreduceOrTheFirst) {
  EXPECT_EQ(demo_json(result({{"ps", {1}, kBound}, {"allreduce", {2}, kBound}}), kLab)["reference"],
            "allreduce");
  EXPECT_EQ(demo_json(result({{"ps", {2}, kBound}, {"byteps", {1}, kBound}}), kLab)["reference"], "ps");
}

TEST(DemoReport, ClaimsNoWinnerWithinNoise) {
  const DemoResult r =
      result({{"ddp", {1.00, 1.04}, kBound}, {"allreduce", {0.98, 1.02}, kBound}, {"ps", {2}, kBound}});
  EXPECT_THAT(demo_text(r, kLab), HasSubstr("No clear winner: allreduce, ddp within noise (spread 3%)"));
  EXPECT_THAT(demo_text(r, kLab), Not(HasSubstr("prefers")));
  EXPECT_THAT(demo_text(r, kLab), Not(HasSubstr("as long")));
  EXPECT_THAT(demo_json(r, kLab)["within_noise"], ElementsAre("ddp"));
}

TEST(DemoReport, SaysNothingOfLinksWhereThereAreNone) {
  DemoResult r = result({{"ddp", {1.0}, {}}, {"ps", {0.5}, {}}});
  r.best_bound_s = 0;
  const std::string text = demo_text(r, cluster::parse("local:4"));
  EXPECT_THAT(text, HasSubstr("All ranks are on this machine"));
  for (const char* nonsense : {"0 us", "0 B", "40 Gbit/s", "bound", "No strategy can"}) {
    EXPECT_THAT(text, Not(HasSubstr(nonsense)));
  }
}

TEST(DemoReport, ShowsWhatWasMeasuredBeforeCtrlC) {
  DemoResult r = result({{"ddp", {1.0}, kBound}});
  r.interrupted = true;
  EXPECT_THAT(demo_text(r, kLab), HasSubstr("Interrupted"));
  EXPECT_THAT(demo_text(r, kLab), HasSubstr("1.00 s"));
  r.rows.clear();
  EXPECT_EQ(demo_text(r, kLab), "Interrupted before any step was measured.\n");
  EXPECT_TRUE(demo_json(r, kLab)["strategies"].empty());
}

TEST(DemoReport, TheTableFitsATerminalOf80Columns) {
  const DemoResult r =
      result({{"ddp", {1.81, 1.89}, kBound}, {"uneven-partitioned-ps", {12.33, 13.31}, kBound}});
  std::istringstream lines(demo_text(r, kLab));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("vs ")) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace entrain::app
