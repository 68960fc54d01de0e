// Small charts as SVG documents, with no dependency. Pure functions: same numbers, same bytes.
// A value that is not finite is left out of the picture. Errors (std) may be empty: none are drawn.
// Throws Error naming the chart and the series when the lengths of lists do not agree.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace entrain::report {

// A dashed horizontal line with a name: a target, or a published figure.
struct Reference {
  std::string name;
  double value = 0;
};

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one per group
  std::vector<double> errors;  // half the error bar's height: one per group, or empty
};

// Groups of bars side by side, one bar per series. The value axis starts at `low` (0 when all are above it).
struct BarChart {
  std::string title;
  std::string y_label;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  std::vector<Reference> references;
  std::optional<double> low;   // of the value axis; the least bar or 0 otherwise
  std::optional<double> high;  // the largest bar with its error otherwise
};
std::string bar_chart(const BarChart& chart);

// A line with a band of mean +- std around it.
struct LineSeries {
  std::string name;
  std::vector<double> x;     // ascending
  std::vector<double> mean;  // one per x
  std::vector<double> std;   // one per x, or empty
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<LineSeries> series;
  std::vector<Reference> references;
  std::optional<double> low;
  std::optional<double> high;
};
std::string line_chart(const LineChart& chart);

// A matrix of numbers, coloured from `low` (light) to `high` (dark).
struct HeatMap {
  std::string title;
  std::string x_label;  // what the columns are
  std::string y_label;  // what the rows are
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::vector<std::vector<double>> values;  // [row][column]
  std::vector<std::vector<double>> errors;  // as values, or empty
  double low = 0;
  double high = 1;
  int decimals = 2;
};
std::string heat_map(const HeatMap& map);

}  // namespace entrain::report
