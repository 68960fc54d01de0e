// Shapes and text of one SVG picture, and the axes that charts share. Coordinates are pixels from the upper
// left corner, printed with two decimals: same calls, same bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace entrain::report {

// "&lt;" for "<" and so on: any text may become an attribute or an element's content.
std::string escape(std::string_view text);

// Of axes, text and whatever is not data.
constexpr std::string_view kInk = "#222";

// Colours that stay apart for colour-blind readers (Okabe and Ito); repeats after seven.
std::string_view colour(size_t index);

// About `count` round numbers (1, 2 or 5 times a power of ten) that cover [low, high].
std::vector<double> ticks(double low, double high, int count = 6);
// As many decimals as the distance between ticks needs.
std::string tick_label(double value, double step);

struct Point {
  double x;
  double y;
};

enum class Anchor { kStart, kMiddle, kEnd };

class Canvas {
 public:
  Canvas(double width, double height);

  // `kind` becomes the element's class, `tooltip` (may be empty) what a browser shows over it.
  void rect(std::string_view kind, Point corner, double width, double height, std::string_view fill,
            std::string_view tooltip = "");
  void line(std::string_view kind, Point from, Point to, std::string_view stroke, double width = 1,
            bool dashed = false);
  void polyline(std::string_view kind, const std::vector<Point>& points, std::string_view stroke);
  void polygon(std::string_view kind, const std::vector<Point>& points, std::string_view fill,
               double opacity);
  void circle(std::string_view kind, Point centre, double radius, std::string_view fill,
              std::string_view tooltip = "");
  // Turned by `degrees` around `at`.
  void text(Point at, std::string_view content, Anchor anchor, double size = 12, double degrees = 0,
            std::string_view fill = "#222");

  // The whole document.
  std::string finish() const;

 private:
  double width_, height_;
  std::string body_;
};

// The pixels a text takes in the charts' font, nearly.
double text_width(std::string_view text, double size = 12);

// Maps values to pixels, linearly; `from` may lie to the right of, or below, `to`.
struct Scale {
  double low, high;  // values
  double from, to;   // pixels
  double operator()(double value) const;
};

}  // namespace entrain::report
