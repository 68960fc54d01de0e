// What bar and line charts share: the frame with title, value axis, references and legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "entrain/report/canvas.h"
#include "entrain/report/svg.h"

namespace entrain::report {

// Least and largest of what will be drawn.
class AxisRange {
 public:
  void add(double value);                // ignores what is not finite
  void add(double value, double error);  // both ends of the error bar
  bool empty() const { return low_ > high_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_ = 1e300, high_ = -1e300;
};

struct Frame {
  std::string title;
  std::string y_label;
  std::vector<std::string> names;  // of the series, for the legend
  std::vector<Reference> references;
  double inner_width = 560;
  double inner_height = 300;
  double below = 50;  // room for the x axis
  double after = 0;   // room to the right of the frame for its last label
};

// A canvas with the frame drawn on it; the caller draws the x axis and the data between left and right.
class Axes {
 public:
  Axes(const Frame& frame, double low, double high);

  Canvas& canvas() { return canvas_; }
  double left() const { return left_; }
  double right() const { return right_; }
  double bottom() const { return bottom_; }
  double y(double value) const;  // pixels; cut at the frame
  std::string finish();          // references are drawn over the data

 private:
  void draw_legend(const Frame& frame);

  std::vector<Reference> references_;
  std::vector<double> ticks_;
  double left_, right_, top_, bottom_;
  Canvas canvas_;
};

}  // namespace entrain::report
