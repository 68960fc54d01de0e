// Charts show every number they were given, as well-formed documents that do not change from run to run.
#include "entrain/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/report/canvas.h"

namespace entrain::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& wanted) {
  int found = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

int of_class(const std::string& svg, const std::string& kind) { return count(svg, "class=\"" + kind + "\""); }

// The attribute `name` of the element of class `kind` that is the `index`-th.
double attribute(const std::string& svg, const std::string& kind, int index, const std::string& name) {
  size_t at = svg.find("class=\"" + kind + "\"");
  for (; index > 0; --index) at = svg.find("class=\"" + kind + "\"", at + 1);
  return std::stod(svg.substr(svg.find(" " + name + "=\"", at) + name.size() + 3));
}

BarChart two_by_three() {
  BarChart chart;
  chart.title = "Ranking accuracy <test> & more";
  chart.y_label = "pairs in order";
  chart.groups = {"vgg16@lab:4x1gbit", "ncf@lab:2x1gbit", "bert-small@lab:1x10gbit+3x1gbit"};
  chart.series = {{"linear", {0.6, 0.7, 0.8}, {0.05, 0.02, 0.01}},
                  {"rnn", {0.9, NAN, 0.4}, {0.02, 0.02, 0.02}}};
  chart.references = {{"goal 0.90", 0.9}};
  return chart;
}

TEST(Svg, BarChartHasABarAndAnErrorBarForEveryFiniteValue) {
  const std::string svg = bar_chart(two_by_three());
  EXPECT_EQ(of_class(svg, "bar"), 5) << "2 series x 3 groups, one is not a number";
  EXPECT_EQ(of_class(svg, "error"), 5);
  EXPECT_EQ(of_class(svg, "cap"), 10);
  EXPECT_EQ(of_class(svg, "reference"), 1);
  for (const char* name :
       {"vgg16@lab:4x1gbit", "ncf@lab:2x1gbit", ">linear<", ">rnn<", "goal 0.90", "pairs in order"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Svg, BarHeightsAreProportionalToValues) {
  BarChart chart = two_by_three();
  chart.series = {{"one", {0.2, 0.4, 0.8}, {}}};
  const std::string svg = bar_chart(chart);
  EXPECT_EQ(of_class(svg, "error"), 0);
  const double unit = attribute(svg, "bar", 0, "height");
  EXPECT_NEAR(attribute(svg, "bar", 1, "height"), 2 * unit, 0.02);
  EXPECT_NEAR(attribute(svg, "bar", 2, "height"), 4 * unit, 0.03);
}

TEST(Svg, TextIsEscapedAndTheDocumentIsTheSameEachTime) {
  const std::string svg = bar_chart(two_by_three());
  EXPECT_THAT(svg, HasSubstr("&lt;test&gt; &amp; more"));
  EXPECT_THAT(svg, Not(HasSubstr("<test>")));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(svg, bar_chart(two_by_three()));
  EXPECT_EQ(escape("a\x01"
                   "b\"c"),
            "ab&quot;c");
}

TEST(Svg, LineChartHasALineAndABandForEverySeries) {
  LineChart chart;
  chart.title = "Improvement";
  chart.x_label = "trials";
  chart.y_label = "times the best builder";
  chart.series = {{"own", {1, 2, 3, 4}, {1, 1.1, 1.3, 1.4}, {0, 0.1, 0.1, 0.1}},
                  {"random", {1, 2, 3, 4}, {0.9, NAN, 1, 1.1}, {}},
                  {"point", {2}, {1.2}, {}}};
  chart.references = {{"best builder", 1}};
  const std::string svg = line_chart(chart);
  EXPECT_EQ(count(svg, "<polyline"), 2);
  EXPECT_EQ(count(svg, "<circle"), 1) << "a series of one value is a point";
  EXPECT_EQ(of_class(svg, "band"), 1);
  EXPECT_EQ(of_class(svg, "reference"), 1);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Svg, HeatMapHasANumberInEveryCell) {
  HeatMap map;
  map.title = "Transfer";
  map.columns = {"vgg16", "ncf", "bert"};
  map.rows = {"vgg16", "ncf"};
  map.values = {{0.9, 0.7, 0.6}, {0.5, NAN, 0.8}};
  map.errors = {{0.01, 0.02, 0.03}, {0.01, 0.02, 0.03}};
  const std::string svg = heat_map(map);
  EXPECT_EQ(of_class(svg, "cell"), 5);
  EXPECT_THAT(svg, HasSubstr(">0.90 ± 0.01<"));
  EXPECT_THAT(svg, HasSubstr(">0.80 ± 0.03<"));
}

TEST(Svg, EmptyAndConstantDataAreDrawnToo) {
  EXPECT_THAT(bar_chart({}), HasSubstr("</svg>"));
  EXPECT_THAT(line_chart({}), HasSubstr("</svg>"));
  EXPECT_THAT(heat_map({}), HasSubstr("</svg>"));
  LineChart chart;
  chart.series = {{"flat", {1, 2}, {3, 3}, {0, 0}}};
  EXPECT_EQ(count(line_chart(chart), "<polyline"), 1);
}

TEST(Svg, ListsOfDifferentLengthsAreRefused) {
  BarChart bars = two_by_three();
  bars.series[1].errors.pop_back();
  EXPECT_THROW(bar_chart(bars), Error);
  LineChart lines;
  lines.series = {{"a", {1, 2}, {1}, {}}};
  EXPECT_THROW(line_chart(lines), Error);
  HeatMap map;
  map.rows = {"a"};
  map.columns = {"b"};
  map.values = {{1, 2}};
  EXPECT_THROW(heat_map(map), Error);
}

TEST(Canvas, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(ticks(0, 1, 5), ElementsAre(0, 0.2, 0.4, 0.2 * 3, 0.8, 1));
  EXPECT_THAT(ticks(3, 47, 5), ElementsAre(0, 10, 20, 30, 40, 50));
  EXPECT_EQ(ticks(2, 2).size() > 1, true);
  EXPECT_EQ(tick_label(0.25, 0.05), "0.25");
  EXPECT_EQ(tick_label(20, 10), "20");
  EXPECT_EQ(tick_label(-0.0, 0.1), "0.0");
}

}  // namespace
}  // namespace entrain::report
