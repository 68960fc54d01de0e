#include "entrain/report/svg.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/error.h"
#include "entrain/report/axes.h"

namespace entrain::report {
namespace {

constexpr double kLabelAngle = 35;

void check_length(const std::string& chart, const std::string& series, const char* list, size_t length,
                  size_t wanted, bool may_be_empty) {
  if (length == wanted || (may_be_empty && length == 0)) return;
  fail("chart \"{}\": series \"{}\" has {} {}, allowed: {}", chart, series, length, list, wanted);
}

// "0.91 ± 0.02"
std::string with_error(double value, double error, int decimals) {
  if (!std::isfinite(error)) return fmt::format("{:.{}f}", value, decimals);
  return fmt::format("{:.{}f} ± {:.{}f}", value, decimals, error, decimals);
}

double error_at(const std::vector<double>& errors, size_t i) { return errors.empty() ? NAN : errors[i]; }

double longest(const std::vector<std::string>& names, double size) {
  double widest = 0;
  for (const auto& name : names) widest = std::max(widest, text_width(name, size));
  return widest;
}

// Of `chart`, whose series have these values, with errors or without.
template <typename Chart, typename Series>
AxisRange range_of(const Chart& chart, std::vector<double> Series::*values,
                   std::vector<double> Series::*errors) {
  AxisRange range;
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < (series.*values).size(); ++i) {
      range.add((series.*values)[i]);
      range.add((series.*values)[i], error_at(series.*errors, i));
    }
  }
  for (const Reference& reference : chart.references) range.add(reference.value);
  if (range.empty()) range.add(0);
  return range;
}

template <typename Series>
std::vector<std::string> names_of(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const auto& s : series) names.push_back(s.name);
  return names;
}

// ---- bars

// Pixels of one bar, and of the gap between groups.
constexpr double kGap = 22;
double bar_width(const BarChart& chart) {
  const double bars = static_cast<double>(chart.groups.size() * chart.series.size());
  const double gaps = kGap * static_cast<double>(chart.groups.size());
  return std::clamp((620 - gaps) / std::max(1.0, bars), 9.0, 46.0);
}

void draw_bar(Axes& axes, const BarSeries& series, size_t group, const std::string& group_name, double x,
              double width, double base, std::string_view fill) {
  const double value = series.values[group], error = error_at(series.errors, group);
  if (!std::isfinite(value)) return;
  const double top = std::min(axes.y(value), axes.y(base)), bottom = std::max(axes.y(value), axes.y(base));
  axes.canvas().rect("bar", {x, top}, width - 1, bottom - top, fill,
                     fmt::format("{}, {}: {}", group_name, series.name, with_error(value, error, 3)));
  if (!std::isfinite(error)) return;
  const double middle = x + (width - 1) / 2, cap = std::min(4.0, width / 3);
  const double up = axes.y(value + error), down = axes.y(value - error);
  axes.canvas().line("error", {middle, up}, {middle, down}, kInk);
  axes.canvas().line("cap", {middle - cap, up}, {middle + cap, up}, kInk);
  axes.canvas().line("cap", {middle - cap, down}, {middle + cap, down}, kInk);
}

// ---- lines

void draw_line(Axes& axes, const Scale& x, const LineSeries& series, std::string_view stroke) {
  std::vector<Point> line, upper, lower;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.mean[i])) continue;
    const double error = std::isfinite(error_at(series.std, i)) ? series.std[i] : 0;
    line.push_back({x(series.x[i]), axes.y(series.mean[i])});
    upper.push_back({x(series.x[i]), axes.y(series.mean[i] + error)});
    lower.push_back({x(series.x[i]), axes.y(series.mean[i] - error)});
  }
  if (!series.std.empty() && line.size() > 1) {
    upper.insert(upper.end(), lower.rbegin(), lower.rend());
    axes.canvas().polygon("band", upper, stroke, 0.18);
  }
  if (line.size() == 1) axes.canvas().circle("line", line[0], 3, stroke);
  if (line.size() > 1) axes.canvas().polyline("line", line, stroke);
}

// ---- heat map

struct Shade {
  std::string fill;
  std::string_view ink;
};

// White to blue; the number turns white on the dark half.
Shade shade(double value, double low, double high) {
  const double t = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
  const auto mix = [&](int light, int dark) {
    return static_cast<int>(std::lround(light + t * (dark - light)));
  };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(247, 8), mix(251, 69), mix(255, 148)),
          t > 0.55 ? "#fff" : kInk};
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  for (const BarSeries& series : chart.series) {
    check_length(chart.title, series.name, "values", series.values.size(), chart.groups.size(), false);
    check_length(chart.title, series.name, "errors", series.errors.size(), chart.groups.size(), true);
  }
  const double width = bar_width(chart);
  const double group_width = width * static_cast<double>(chart.series.size()) + kGap;
  const AxisRange range = range_of(chart, &BarSeries::values, &BarSeries::errors);
  const double low = chart.low.value_or(std::min(0.0, range.low()));
  const double longest_label = longest(chart.groups, 11);
  const bool turned = longest_label > group_width - 4;
  Frame frame{chart.title, chart.y_label, names_of(chart.series), chart.references};
  frame.inner_width = std::max(240.0, group_width * static_cast<double>(chart.groups.size()));
  frame.below = turned ? 24 + 0.6 * longest_label : 36;
  frame.after = turned ? 0.85 * longest_label : 0;
  Axes axes(frame, low, chart.high.value_or(range.high()));
  for (size_t group = 0; group < chart.groups.size(); ++group) {
    const double start = axes.left() + group_width * static_cast<double>(group) + kGap / 2;
    for (size_t s = 0; s < chart.series.size(); ++s) {
      draw_bar(axes, chart.series[s], group, chart.groups[group], start + width * static_cast<double>(s),
               width, std::max(0.0, low), colour(s));
    }
    const double middle = start + (group_width - kGap) / 2;
    axes.canvas().text({turned ? middle - 4 : middle, axes.bottom() + 16}, chart.groups[group],
                       turned ? Anchor::kStart : Anchor::kMiddle, 11, turned ? kLabelAngle : 0);
  }
  return axes.finish();
}

std::string line_chart(const LineChart& chart) {
  AxisRange x_range;
  for (const LineSeries& series : chart.series) {
    check_length(chart.title, series.name, "means", series.mean.size(), series.x.size(), false);
    check_length(chart.title, series.name, "stds", series.std.size(), series.x.size(), true);
    for (const double x : series.x) x_range.add(x);
  }
  if (x_range.empty()) x_range.add(0);
  const AxisRange range = range_of(chart, &LineSeries::mean, &LineSeries::std);
  Frame frame{chart.title, chart.y_label, names_of(chart.series), chart.references};
  Axes axes(frame, chart.low.value_or(range.low()), chart.high.value_or(range.high()));
  const double last = x_range.high() > x_range.low() ? x_range.high() : x_range.low() + 1;
  const Scale x{x_range.low(), last, axes.left(), axes.right()};
  const std::vector<double> marks = ticks(x.low, x.high, 8);
  for (const double mark : marks) {
    if (mark < x.low - 1e-9 || mark > x.high + 1e-9) continue;
    axes.canvas().line("tick", {x(mark), axes.bottom()}, {x(mark), axes.bottom() + 5}, kInk);
    axes.canvas().text({x(mark), axes.bottom() + 18}, tick_label(mark, marks[1] - marks[0]), Anchor::kMiddle,
                       11);
  }
  axes.canvas().text({(axes.left() + axes.right()) / 2, axes.bottom() + 38}, chart.x_label, Anchor::kMiddle);
  for (size_t s = 0; s < chart.series.size(); ++s) draw_line(axes, x, chart.series[s], colour(s));
  return axes.finish();
}

std::string heat_map(const HeatMap& map) {
  check_length(map.title, "values", "rows", map.values.size(), map.rows.size(), false);
  check_length(map.title, "errors", "rows", map.errors.size(), map.rows.size(), true);
  for (size_t r = 0; r < map.rows.size(); ++r) {
    check_length(map.title, map.rows[r], "values", map.values[r].size(), map.columns.size(), false);
    if (!map.errors.empty())
      check_length(map.title, map.rows[r], "errors", map.errors[r].size(), map.columns.size(), false);
  }
  constexpr double kHeight = 34, kTitle = 46;
  const double cell = map.errors.empty() ? 56 : 92;
  const double left = 40 + longest(map.rows, 11), top = kTitle + 24 + 0.6 * longest(map.columns, 11);
  const double columns = static_cast<double>(map.columns.size()), rows = static_cast<double>(map.rows.size());
  const double width = left + cell * columns + 24 + 0.6 * longest(map.columns, 11);
  Canvas canvas(std::max(width, 24 + text_width(map.title, 15)), top + kHeight * rows + 20);
  canvas.text({12, 24}, map.title, Anchor::kStart, 15);
  canvas.text({left + cell * columns / 2, kTitle}, map.x_label, Anchor::kMiddle);
  canvas.text({18, top + kHeight * rows / 2}, map.y_label, Anchor::kMiddle, 12, -90);
  for (size_t c = 0; c < map.columns.size(); ++c) {
    canvas.text({left + cell * (static_cast<double>(c) + 0.5), top - 8}, map.columns[c], Anchor::kStart, 11,
                -kLabelAngle);
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + kHeight * static_cast<double>(r);
    canvas.text({left - 8, y + kHeight / 2 + 4}, map.rows[r], Anchor::kEnd, 11);
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const double value = map.values[r][c], x = left + cell * static_cast<double>(c);
      if (!std::isfinite(value)) continue;
      const auto [fill, ink] = shade(value, map.low, map.high);
      const double error = map.errors.empty() ? NAN : map.errors[r][c];
      canvas.rect("cell", {x, y}, cell - 2, kHeight - 2, fill, map.rows[r] + " → " + map.columns[c]);
      canvas.text({x + cell / 2 - 1, y + kHeight / 2 + 4}, with_error(value, error, map.decimals),
                  Anchor::kMiddle, 11, 0, ink);
    }
  }
  return canvas.finish();
}

}  // namespace entrain::report
