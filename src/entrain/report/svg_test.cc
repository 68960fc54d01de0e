// Charts show every number they were given, as well-formed documents that do not change from run to run.
#include "entrain/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// An element as written: its attributes as numbers, 0 where it has none, and its text.
struct Element {
  std::string source, content;
  double operator()(const std::string& name) const {
    const size_t at = source.find(" " + name + "=\"");
    return at == std::string::npos ? 0 : std::stod(source.substr(at + name.size() + 3));
  }
  double right() const { return (*this)("x") + (*this)("width"); }
  double bottom() const { return (*this)("y") + (*this)("height"); }
};

// All whose source begins so: "<rect class=\"bar\"", "<text".
std::vector<Element> elements(const std::string& svg, const std::string& begin) {
  std::vector<Element> found;
  for (size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    const size_t end = svg.find('>', at);
    found.push_back({svg.substr(at, end - at), svg.substr(end + 1, svg.find('<', end) - end - 1)});
  }
  return found;
}
std::vector<Element> of(const std::string& svg, const std::string& element, const std::string& kind) {
  return elements(svg, "<" + element + " class=\"" + kind + "\"");
}
Element text(const std::string& svg, const std::string& content) {
  for (const Element& e : elements(svg, "<text")) {
    if (e.content == content) return e;
  }
  ADD_FAILURE() << "no text " << content;
  return {};
}

// No text leaves the document, turned or not.
void expect_texts_inside(const std::string& svg) {
  const Element document = elements(svg, "<svg")[0];
  for (const Element& e : elements(svg, "<text")) {
    const double length = text_width(e.content, e("font-size"));
    const size_t turn = e.source.find("rotate(");
    const double angle = turn == std::string::npos ? 0 : std::stod(e.source.substr(turn + 7)) * M_PI / 180;
    const double before = e.source.find("\"middle\"") != std::string::npos ? 0.5
                          : e.source.find("\"end\"") != std::string::npos  ? 1
                                                                           : 0;
    for (const double along : {-before * length, (1 - before) * length}) {
      const double x = e("x") + along * std::cos(angle), y = e("y") + along * std::sin(angle);
      EXPECT_GE(x, 0) << e.content;
      EXPECT_LE(x, document("width") + 0.5) << e.content;
      EXPECT_GE(y, 0) << e.content;
      EXPECT_LE(y, document("height") + 0.5) << e.content;
    }
  }
}

// Two groups of two, without labels that are turned.
BarChart two_by_two() {
  BarChart chart;
  chart.title = "t";
  chart.groups = {"a", "b"};
  chart.series = {{"first", {0.2, 0.4}, {0.1, 0.1}}, {"second", {0.8, 0.6}, {0.1, 0.1}}};
  chart.series.push_back({"third", {0.5, 0.5}, {}});
  return chart;
}

TEST(Svg, BarsStandOnTheAxisSideBySide) {
  const std::string svg = bar_chart(two_by_two());
  const auto bars = of(svg, "rect", "bar");
  const auto axis = of(svg, "line", "axis");  // the value axis, then the other
  ASSERT_EQ(bars.size(), 6U);
  ASSERT_EQ(axis.size(), 2U);
  for (const Element& bar : bars) EXPECT_NEAR(bar.bottom(), axis[1]("y1"), 0.02);
  for (const size_t group : {0U, 3U}) {  // a pixel between neighbours
    EXPECT_NEAR(bars[group + 1]("x"), bars[group].right() + 1, 0.02);
    EXPECT_NEAR(bars[group + 2]("x"), bars[group + 1].right() + 1, 0.02);
  }
  const double gap = bars[3]("x") - bars[2].right() - 1;
  EXPECT_NEAR(gap, 22, 0.02);
  EXPECT_NEAR(bars[0]("x") - axis[1]("x1"), gap / 2, 0.02);
  EXPECT_NEAR(axis[1]("x2") - bars[5].right() - 1, gap / 2, 0.02);
  EXPECT_NEAR(text(svg, "a")("x"), (bars[0]("x") + bars[2].right() + 1) / 2, 0.02);
  expect_texts_inside(svg);
}

TEST(Svg, ErrorBarsReachFromValueMinusToValuePlusErrorInTheBarsMiddle) {
  const std::string svg = bar_chart(two_by_two());
  const auto bars = of(svg, "rect", "bar");
  const auto errors = of(svg, "line", "error"), caps = of(svg, "line", "cap");
  const double unit = bars[0]("height") / 0.2, zero = bars[0].bottom();
  ASSERT_EQ(errors.size(), 4U);
  ASSERT_EQ(caps.size(), 8U);
  EXPECT_NEAR(errors[1]("y1"), zero - 0.9 * unit, 0.1);
  EXPECT_NEAR(errors[1]("y2"), zero - 0.7 * unit, 0.1);
  EXPECT_NEAR(errors[1]("x1"), (bars[1]("x") + bars[1].right()) / 2, 0.02);
  EXPECT_EQ(errors[1]("x1"), errors[1]("x2"));
  EXPECT_NEAR(caps[2]("y1"), errors[1]("y1"), 0.02);
  EXPECT_NEAR(caps[3]("y1"), errors[1]("y2"), 0.02);
  for (const Element& cap : {caps[2], caps[3]}) {
    EXPECT_EQ(cap("y1"), cap("y2"));
    EXPECT_NEAR((cap("x1") + cap("x2")) / 2, errors[1]("x1"), 0.02);
    EXPECT_NEAR(cap("x2") - cap("x1"), 8, 0.02);
  }
  EXPECT_THAT(svg, HasSubstr("<title>a, second: 0.800 ± 0.100</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>a, third: 0.500</title>"));
}

TEST(Svg, BarsOfNegativeValuesHangFromZero) {
  BarChart chart = two_by_two();
  chart.series = {{"s", {-0.5, 1}, {}}};
  const std::string svg = bar_chart(chart);
  const auto bars = of(svg, "rect", "bar");
  EXPECT_NEAR(bars[0]("y"), bars[1].bottom(), 0.02);
  EXPECT_NEAR(bars[1]("height"), 2 * bars[0]("height"), 0.02);
  EXPECT_LT(bars[0].bottom(), of(svg, "line", "axis")[1]("y1") + 0.02);
}

TEST(Svg, AnAxisThatBeginsAboveZeroCutsItsBars) {
  BarChart chart = two_by_two();
  chart.series = {{"s", {0.75, 1}, {0.05, 0.5}}, {"below", {0.1, 0.6}, {}}};
  chart.low = 0.5;
  chart.high = 1;
  const std::string svg = bar_chart(chart);
  const auto bars = of(svg, "rect", "bar"), grid = of(svg, "line", "grid");
  EXPECT_NEAR(bars[2]("height"), 2 * bars[0]("height"), 0.02);
  EXPECT_NEAR(bars[1]("height"), 0, 0.02);
  EXPECT_NEAR(of(svg, "line", "error")[1]("y1"), bars[2]("y"), 0.02);  // ends at the frame
  EXPECT_NEAR(of(svg, "line", "error")[1]("y2"), bars[2].bottom(), 0.02);
  EXPECT_EQ(grid.size(), 6U);  // 0.5 to 1
}

TEST(Svg, ManyBarsAreNarrowAndFewAreNotBroad) {
  BarChart chart = two_by_two();
  chart.series = {{"s", {1, 1}, {}}};
  EXPECT_NEAR(of(bar_chart(chart), "rect", "bar")[0]("width"), 45, 0.02);
  chart.groups.assign(10, "g");
  chart.series = {{"s", std::vector<double>(10, 1), {}}, {"t", std::vector<double>(10, 1), {}}};
  const std::string svg = bar_chart(chart);
  EXPECT_NEAR(of(svg, "rect", "bar")[0]("width"), 19, 0.02);  // 620 pixels less ten gaps of 22, by 20
  chart.groups.assign(100, "g");
  chart.series = {{"s", std::vector<double>(100, 1), {}}};
  EXPECT_NEAR(of(bar_chart(chart), "rect", "bar")[0]("width"), 8, 0.02);
}

TEST(Svg, LabelsThatAreTooLongForTheirGroupAreTurnedAndStayInside) {
  BarChart chart = two_by_two();
  EXPECT_EQ(count(bar_chart(chart), "rotate(35"), 0);
  chart.groups = {"a", "a name that is much longer than its bars are wide, even all of them"};
  const std::string svg = bar_chart(chart);
  EXPECT_EQ(count(svg, "rotate(35"), 2);
  expect_texts_inside(svg);
  const Element document = elements(svg, "<svg")[0], label = text(svg, chart.groups[1]);
  const double length = text_width(label.content, 11), angle = 35 * M_PI / 180;
  EXPECT_LT(document("height") - label("y") - length * std::sin(angle), 60);  // no more room than it takes
  EXPECT_LT(document("width") - label("x") - length * std::cos(angle), 140);
  const auto bars = of(svg, "rect", "bar");
  EXPECT_LT(label("x"), (bars[3]("x") + bars[5].right()) / 2);
  chart.title = std::string(200, 'm');
  expect_texts_inside(bar_chart(chart));
}

TEST(Svg, TheLegendShowsEverySeriesInItsColourBesideTheFrame) {
  BarChart chart = two_by_two();
  chart.references = {{"a goal with a long name", 0.3}, {"another", 0.4}};
  const std::string svg = bar_chart(chart);
  const auto bars = of(svg, "rect", "bar"), marks = of(svg, "rect", "legend"),
             dashes = of(svg, "line", "legend");
  const double frame = of(svg, "line", "axis")[1]("x2");
  const auto fill = [](const Element& e) { return e.source.substr(e.source.find("fill="), 14); };
  ASSERT_EQ(marks.size(), 3U);
  ASSERT_EQ(dashes.size(), 2U);
  double last = -1;
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(fill(marks[s]), fill(bars[s]));
    EXPECT_GT(marks[s]("x"), frame);
    EXPECT_GT(marks[s]("y"), last);
    last = marks[s].bottom();
    const Element name = text(svg, chart.series[s].name);
    EXPECT_GT(name("x"), marks[s].right());
    EXPECT_NEAR(name("y"), marks[s].bottom(), 2);
  }
  EXPECT_NEAR(marks[0]("y"), of(svg, "line", "axis")[0]("y1"), 0.02);  // from the frame's top
  EXPECT_GT(dashes[0]("y1"), last);
  EXPECT_GT(dashes[1]("y1"), dashes[0]("y1") + 12);
  EXPECT_EQ(dashes[0]("y1"), dashes[0]("y2"));
  EXPECT_NEAR(dashes[0]("x2") - dashes[0]("x1"), marks[0]("width"), 0.02);
  EXPECT_NEAR(text(svg, "a goal with a long name")("y"), dashes[0]("y1") + 4, 0.02);
  EXPECT_GT(text(svg, "a goal with a long name")("x"), dashes[0]("x2"));
  expect_texts_inside(svg);
  for (int i = 0; i < 30; ++i) chart.series.push_back({"more " + std::to_string(i), {1, 1}, {}});
  for (int i = 0; i < 30; ++i) chart.references.push_back({"goal " + std::to_string(i), 0.5});
  expect_texts_inside(bar_chart(chart));
}

TEST(Svg, ReferencesAndGridLinesAreAtTheirValues) {
  BarChart chart = two_by_two();
  chart.references = {{"goal", 0.3}, {"best", 1.2}};
  const std::string svg = bar_chart(chart);
  const auto bars = of(svg, "rect", "bar"), grid = of(svg, "line", "grid"),
             lines = of(svg, "line", "reference");
  const auto axis = of(svg, "line", "axis");
  const double unit = bars[0]("height") / 0.2, zero = bars[0].bottom();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NEAR(lines[0]("y1"), zero - 0.3 * unit, 0.1);
  EXPECT_NEAR(lines[1]("y1"), zero - 1.2 * unit, 0.1);  // the axis reaches to it
  EXPECT_NEAR(lines[1]("y1"), axis[0]("y1"), 0.02);
  for (const Element& line : {lines[0], grid[0]}) {
    EXPECT_EQ(line("x1"), axis[1]("x1"));
    EXPECT_EQ(line("x2"), axis[1]("x2"));
    EXPECT_EQ(line("y1"), line("y2"));
  }
  ASSERT_EQ(grid.size(), 7U);  // 0 to 1.2 by 0.2
  for (size_t i = 0; i < grid.size(); ++i) {
    EXPECT_NEAR(grid[i]("y1"), zero - 0.2 * static_cast<double>(i) * unit, 0.1);
  }
  EXPECT_NEAR(text(svg, "0.4")("y"), grid[2]("y1") + 4, 0.02);
  EXPECT_LT(text(svg, "0.4")("x"), axis[0]("x1"));
}

std::vector<std::pair<double, double>> points(const Element& e) {
  std::vector<std::pair<double, double>> result;
  std::string list = e.source.substr(e.source.find("points=\"") + 8);
  list.resize(list.find('"'));
  for (size_t at = 0; at < list.size();) {
    size_t read = 0;
    const double x = std::stod(list.substr(at), &read);
    at += read + 1;
    const double y = std::stod(list.substr(at), &read);
    at += read + 1;
    result.emplace_back(x, y);
  }
  return result;
}

TEST(Svg, LinesPassThroughTheirPointsFromEdgeToEdge) {
  LineChart chart;
  chart.title = "t";
  chart.x_label = "trials";
  chart.series = {{"s", {2, 3, 6}, {0, 0.5, 1}, {0.1, 0.1, NAN}}, {"other", {4, 6}, {0.5, NAN}, {0.1, 0.1}}};
  chart.low = 0;
  chart.high = 1;
  const std::string svg = line_chart(chart);
  const auto axis = of(svg, "line", "axis");
  const double left = axis[1]("x1"), right = axis[1]("x2"), zero = axis[1]("y1"), one = axis[0]("y1");
  const auto line = points(of(svg, "polyline", "line")[0]);
  ASSERT_EQ(line.size(), 3U);
  EXPECT_NEAR(line[0].first, left, 0.02);
  EXPECT_NEAR(line[1].first, left + (right - left) / 4, 0.02);
  EXPECT_NEAR(line[2].first, right, 0.02);
  EXPECT_NEAR(line[0].second, zero, 0.02);
  EXPECT_NEAR(line[1].second, (zero + one) / 2, 0.02);
  EXPECT_NEAR(line[2].second, one, 0.02);
  ASSERT_EQ(of(svg, "polygon", "band").size(), 1U);  // one point has no band
  const auto band = points(of(svg, "polygon", "band")[0]);
  ASSERT_EQ(band.size(), 6U);  // there above the line, back below it
  EXPECT_NEAR(band[1].second, line[1].second - 0.1 * (zero - one), 0.02);
  EXPECT_NEAR(band[4].second, line[1].second + 0.1 * (zero - one), 0.02);
  EXPECT_NEAR(band[5].first, left, 0.02);
  EXPECT_NEAR(band[2].second, band[3].second, 0.02);  // no error known
  const auto circle = of(svg, "circle", "line");
  ASSERT_EQ(circle.size(), 1U);
  EXPECT_NEAR(circle[0]("cx"), (left + right) / 2, 0.02);
  expect_texts_inside(svg);
}

TEST(Svg, TheXAxisIsMarkedAtRoundNumbersWithinTheData) {
  LineChart chart;
  chart.x_label = "trials";
  chart.series = {{"s", {1, 4.5}, {0, 1}, {}}};
  const std::string svg = line_chart(chart);
  const auto axis = of(svg, "line", "axis"), marks = of(svg, "line", "tick");
  const double left = axis[1]("x1"), right = axis[1]("x2");
  ASSERT_EQ(marks.size(), 8U);  // 1, 1.5 and so on to 4.5
  EXPECT_NEAR(marks.front()("x1"), left, 0.02);
  EXPECT_NEAR(marks.back()("x1"), right, 0.02);
  for (const Element& mark : marks) {
    EXPECT_EQ(mark("x1"), mark("x2"));
    EXPECT_EQ(mark("y1"), axis[1]("y1"));
    EXPECT_GT(mark("y2"), mark("y1"));
  }
  EXPECT_NEAR(text(svg, "2.5")("x"), marks[3]("x1"), 0.02);
  EXPECT_GT(text(svg, "2.5")("y"), marks[3]("y2"));
  EXPECT_NEAR(text(svg, "trials")("x"), (left + right) / 2, 0.02);
  EXPECT_GT(text(svg, "trials")("y"), text(svg, "2.5")("y") + 11);
  chart.series = {{"s", {1.2, 4.4}, {0, 1}, {}}};
  EXPECT_EQ(of(line_chart(chart), "line", "tick").size(), 6U);  // 1.5 to 4: none outside
}

TEST(Svg, AnAxisOfAllNegativeNumbersShowsThem) {
  LineChart chart;
  chart.series = {{"s", {10, 20}, {-3, -2}, {0.5, 0.5}}};
  const std::string svg = line_chart(chart);
  const auto line = points(of(svg, "polyline", "line")[0]);
  const auto axis = of(svg, "line", "axis");
  EXPECT_NEAR(line[0].first, axis[1]("x1"), 0.02);
  EXPECT_GT(line[0].second, line[1].second);
  EXPECT_EQ(text(svg, "-3.6").content, "-3.6");
  EXPECT_EQ(text(svg, "-1.4").content, "-1.4");
  EXPECT_EQ(of(svg, "polygon", "band").size(), 1U);
}

TEST(Svg, CellsTileTheMapAndNumbersAreInTheirMiddle) {
  HeatMap map;
  map.title = "Transfer";
  map.x_label = "to";
  map.y_label = "from";
  map.columns = {"vgg16", "ncf", "a column with a long name"};
  map.rows = {"vgg16 with a longer name", "ncf"};
  map.values = {{0, 0.25, 0.5}, {0.6, 0.75, 1}};
  for (const bool with_errors : {false, true}) {
    if (with_errors) map.errors = {{0.01, 0.02, 0.03}, {0.01, 0.02, NAN}};
    const std::string svg = heat_map(map);
    const auto cells = of(svg, "rect", "cell");
    ASSERT_EQ(cells.size(), 6U);
    for (const size_t row : {0U, 3U}) {
      EXPECT_NEAR(cells[row + 1]("x"), cells[row].right() + 2, 0.02);
      EXPECT_NEAR(cells[row + 2]("x"), cells[row + 1].right() + 2, 0.02);
      EXPECT_EQ(cells[row]("x"), cells[0]("x"));
      EXPECT_EQ(cells[row]("y"), cells[row + 2]("y"));
    }
    EXPECT_NEAR(cells[3]("y"), cells[0].bottom() + 2, 0.02);
    const Element number = text(svg, with_errors ? "0.75 ± 0.02" : "0.75");
    EXPECT_NEAR(number("x"), (cells[4]("x") + cells[4].right()) / 2, 0.02);
    EXPECT_NEAR(number("y"), (cells[4]("y") + cells[4].bottom()) / 2 + 5, 0.02);
    EXPECT_LT(text_width(number.content, 11), cells[4]("width"));
    EXPECT_EQ(text(svg, "1.00").content, "1.00");     // without an error
    EXPECT_LT(text(svg, "ncf")("y"), cells[0]("y"));  // the column's
    EXPECT_GT(text(svg, "ncf")("x"), cells[1]("x"));
    EXPECT_LT(text(svg, "ncf")("x"), cells[1].right());
    const Element row = text(svg, map.rows[0]);
    EXPECT_NEAR(row("y"), number("y") - (cells[3]("y") - cells[0]("y")), 0.02);
    EXPECT_LT(row("x"), cells[0]("x"));
    EXPECT_NEAR(text(svg, "to")("x"), (cells[0]("x") + cells[2].right()) / 2 + 1, 0.02);
    EXPECT_NEAR(text(svg, "from")("y"), (cells[0]("y") + cells[3].bottom()) / 2 + 1, 0.02);
    EXPECT_THAT(svg, HasSubstr("<title>ncf → a column with a long name</title>"));
    expect_texts_inside(svg);
    const Element document = elements(svg, "<svg")[0];
    const double length = text_width(map.columns[2], 11), angle = 35 * M_PI / 180;
    EXPECT_LE(cells[5].bottom(), document("height"));
    EXPECT_LT(cells[0]("y") - length * std::sin(angle), 46 + 40);  // no more room than labels take
    EXPECT_LT(document("width") - cells[2].right() - length * std::cos(angle), 40);
  }
  map.title = std::string(150, 'm');
  expect_texts_inside(heat_map(map));
}

TEST(Svg, CellsAreDarkerTheHigherTheValueAndTheirNumbersReadable) {
  HeatMap map;
  map.columns = {"a", "b", "c", "d", "e", "f"};
  map.rows = {"r"};
  map.values = {{-1, 2, 3, 3.2, 4, 9}};
  map.low = 2;
  map.high = 4;
  map.decimals = 1;
  const auto fills = [](const std::string& svg, const std::string& begin) {
    std::vector<std::string> result;
    for (const Element& e : elements(svg, begin)) {
      const size_t at = e.source.find("fill=\"") + 6;
      result.push_back(e.source.substr(at, e.source.find('"', at) - at));
    }
    return result;
  };
  const std::string svg = heat_map(map);
  const auto cells = fills(svg, "<rect class=\"cell\"");
  EXPECT_THAT(cells, ElementsAre("#f7fbff", "#f7fbff", "#80a0ca", "#688ebf", "#084594", "#084594"));
  EXPECT_EQ(fills(svg, "<text x").size(), 3 + 6 + 1 + 6U);
  EXPECT_THAT(text(svg, "3.0").source, HasSubstr("#222"));
  EXPECT_THAT(text(svg, "3.2").source, HasSubstr("#fff"));
  map.high = map.low;
  for (const std::string& fill : fills(heat_map(map), "<rect class=\"cell\"")) EXPECT_EQ(fill, "#f7fbff");
}

TEST(Svg, OnePointHasAnAxisOfItsOwn) {
  LineChart chart;
  chart.series = {{"s", {3}, {5}, {}}};
  const std::string svg = line_chart(chart);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_GE(of(svg, "line", "tick").size(), 2U);
  EXPECT_NEAR(of(svg, "circle", "line")[0]("cx"), of(svg, "line", "axis")[1]("x1"), 0.02);
}

TEST(Svg, AnEmptyChartIsAFrameFromZeroToOne) {
  const std::string svg = line_chart({});
  const auto axis = of(svg, "line", "axis");
  EXPECT_NEAR(text(svg, "0.0")("y"), axis[1]("y1") + 4, 0.02);
  EXPECT_NEAR(text(svg, "1.0")("y"), axis[0]("y1") + 4, 0.02);
  EXPECT_LT(elements(svg, "<svg")[0]("width"), axis[1]("x2") + 30);  // no room for a legend
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
  map.rows = {"a", "c"};
  map.values = {{1}, {1, 2}};
  EXPECT_THROW(heat_map(map), Error);
  map.values = {{1}, {2}};
  map.errors = {{1}, {}};
  EXPECT_THROW(heat_map(map), Error);
}

TEST(Canvas, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(ticks(0, 1, 5), ElementsAre(0, 0.2, 0.4, 0.2 * 3, 0.8, 1));
  EXPECT_THAT(ticks(3, 47, 5), ElementsAre(0, 10, 20, 30, 40, 50));
  EXPECT_EQ(ticks(2, 2).size() > 1, true);
  EXPECT_EQ(tick_label(0.25, 0.05), "0.25");
  EXPECT_EQ(tick_label(20, 10), "20");
  EXPECT_EQ(tick_label(-0.0, 0.1), "0.0");
  EXPECT_EQ(tick_label(1.5, 0.5), "1.5");
  EXPECT_THAT(ticks(0, 0), ElementsAre(0, 0.2, 0.4, 0.2 * 3, 0.8, 1));
  EXPECT_EQ(ticks(0, 9).size(), 10U);   // by 1
  EXPECT_EQ(ticks(0, 21).size(), 12U);  // by 2
  EXPECT_EQ(ticks(0, 45).size(), 10U);  // by 5
  EXPECT_EQ(ticks(-4, -4).front(), -4);
  EXPECT_EQ(ticks(-4, -4).back(), 0);
}

// Whatever the range: steps of 1, 2 or 5 times a power of ten, no tick more than covers it.
TEST(Canvas, TicksOfAnyRangeAreFewRoundAndTight) {
  for (double size = 0.013; size < 1e5; size *= 1.17) {
    for (const double low : {0.0, -0.3 * size, 2.7 * size}) {
      const auto marks = ticks(low, low + size);
      ASSERT_GE(marks.size(), 4U) << low << " " << size;
      ASSERT_LE(marks.size(), 13U) << low << " " << size;
      const double step = marks[1] - marks[0];
      const double mantissa = step / std::pow(10, std::floor(std::log10(step * 1.0001)));
      EXPECT_LT(std::min({std::abs(mantissa - 1), std::abs(mantissa - 2), std::abs(mantissa - 5)}), 1e-6)
          << step;
      EXPECT_LE(marks.front(), low + 1e-6 * size);
      EXPECT_GT(marks.front(), low - step);
      EXPECT_GE(marks.back(), low + size * (1 - 1e-6));
      EXPECT_LT(marks.back(), low + size + step);
    }
  }
}

TEST(Canvas, SevenColoursStayApartThenRepeat) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < 7; ++i) seen.insert(colour(i));
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(colour(7), colour(0));
}

TEST(Canvas, TextIsMeasuredInCharactersNotBytes) {
  EXPECT_EQ(text_width("±→"), text_width("ab"));
  EXPECT_EQ(text_width("abcd", 6), text_width("ab", 12));
  EXPECT_EQ(escape("a\tb\nc"), "a\tb\nc");
}

}  // namespace
}  // namespace entrain::report
