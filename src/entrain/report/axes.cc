#include "entrain/report/axes.h"

#include <algorithm>
#include <cmath>

namespace entrain::report {
namespace {

constexpr double kTop = 46;        // title
constexpr double kLegendGap = 18;  // between the frame and the legend
constexpr double kLegendRow = 18;
constexpr double kLeft = 74;  // value labels and the axis's name
constexpr std::string_view kGrid = "#e3e3e3";

double legend_width(const Frame& frame) {
  double widest = 0;
  for (const auto& name : frame.names) widest = std::max(widest, text_width(name));
  for (const auto& reference : frame.references) widest = std::max(widest, text_width(reference.name));
  return widest == 0 ? 20 : kLegendGap + 24 + widest + 12;
}

double full_width(const Frame& frame) {
  const double right = kLeft + frame.inner_width;
  return std::max({right + legend_width(frame), right + frame.after, 2 * 12 + text_width(frame.title, 15)});
}

double full_height(const Frame& frame) {
  const double rows = static_cast<double>(frame.names.size() + frame.references.size());
  return std::max(kTop + frame.inner_height + frame.below, kTop + kLegendRow * rows + 20);
}

}  // namespace

void AxisRange::add(double value) {
  if (!std::isfinite(value)) return;
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

void AxisRange::add(double value, double error) {
  add(value);
  add(value - error);
  add(value + error);
}

Axes::Axes(const Frame& frame, double low, double high)
    : references_(frame.references),
      ticks_(ticks(low, high)),
      left_(kLeft),
      right_(kLeft + frame.inner_width),
      top_(kTop),
      bottom_(kTop + frame.inner_height),
      canvas_(full_width(frame), full_height(frame)) {
  canvas_.text({12, 24}, frame.title, Anchor::kStart, 15);
  canvas_.text({18, (top_ + bottom_) / 2}, frame.y_label, Anchor::kMiddle, 12, -90);
  const double step = ticks_[1] - ticks_[0];
  for (const double tick : ticks_) {
    canvas_.line("grid", {left_, y(tick)}, {right_, y(tick)}, kGrid);
    canvas_.text({left_ - 8, y(tick) + 4}, tick_label(tick, step), Anchor::kEnd, 11);
  }
  canvas_.line("axis", {left_, top_}, {left_, bottom_}, kInk);
  canvas_.line("axis", {left_, bottom_}, {right_, bottom_}, kInk);
  draw_legend(frame);
}

double Axes::y(double value) const {
  const double low = ticks_.front(), high = ticks_.back();
  return Scale{low, high, bottom_, top_}(std::clamp(value, low, high));
}

void Axes::draw_legend(const Frame& frame) {
  const double x = right_ + kLegendGap;
  double row = top_ + 8;
  for (size_t i = 0; i < frame.names.size(); ++i, row += kLegendRow) {
    canvas_.rect("legend", {x, row - 8}, 16, 11, colour(i));
    canvas_.text({x + 24, row + 2}, frame.names[i], Anchor::kStart);
  }
  for (const Reference& reference : frame.references) {
    canvas_.line("legend", {x, row - 2}, {x + 16, row - 2}, kInk, 1.5, true);
    canvas_.text({x + 24, row + 2}, reference.name, Anchor::kStart);
    row += kLegendRow;
  }
}

std::string Axes::finish() {
  for (const Reference& reference : references_) {
    canvas_.line("reference", {left_, y(reference.value)}, {right_, y(reference.value)}, kInk, 1.5, true);
  }
  return canvas_.finish();
}

}  // namespace entrain::report
