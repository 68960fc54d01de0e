#include "entrain/report/canvas.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace entrain::report {
namespace {

constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                      "#cc79a7", "#56b4e9", "#7a7a7a"};

std::string points_of(const std::vector<Point>& points) {
  std::string text;
  for (const Point& p : points) text += fmt::format("{}{:.2f},{:.2f}", text.empty() ? "" : " ", p.x, p.y);
  return text;
}

// What ends an element: "/>", or a tooltip and the closing tag.
std::string closing(std::string_view element, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return fmt::format("><title>{}</title></{}>\n", escape(tooltip), element);
}

// Code points, not bytes: "±" is one character.
size_t characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML knows no other control characters, not even escaped.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') result += c;
    }
  }
  return result;
}

std::string_view colour(size_t index) { return kColours[index % kColours.size()]; }

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) high = low + (low == 0 ? 1 : std::abs(low));
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double mantissa = rough / power;
  const double step = power * (mantissa <= 1.5 ? 1 : mantissa <= 3.5 ? 2 : mantissa <= 7.5 ? 5 : 10);
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  std::vector<double> result;
  for (int64_t i = first; i <= last; ++i) result.push_back(static_cast<double>(i) * step);
  return result;
}

std::string tick_label(double value, double step) {
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
}

double text_width(std::string_view text, double size) {
  return 0.56 * size * static_cast<double>(characters(text));
}

double Scale::operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }

Canvas::Canvas(double width, double height) : width_(width), height_(height) {}

void Canvas::rect(std::string_view kind, Point corner, double width, double height, std::string_view fill,
                  std::string_view tooltip) {
  body_ += fmt::format(R"(<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}")",
                       kind, corner.x, corner.y, width, height, fill);
  body_ += closing("rect", tooltip);
}

void Canvas::line(std::string_view kind, Point from, Point to, std::string_view stroke, double width,
                  bool dashed) {
  body_ += fmt::format(
      R"(<line class="{}" x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" stroke="{}" stroke-width="{}"{}/>)",
      kind, from.x, from.y, to.x, to.y, stroke, width, dashed ? R"( stroke-dasharray="5 4")" : "");
  body_ += '\n';
}

void Canvas::polyline(std::string_view kind, const std::vector<Point>& points, std::string_view stroke) {
  body_ += fmt::format(R"(<polyline class="{}" points="{}" fill="none" stroke="{}" stroke-width="2"/>)", kind,
                       points_of(points), stroke);
  body_ += '\n';
}

void Canvas::polygon(std::string_view kind, const std::vector<Point>& points, std::string_view fill,
                     double opacity) {
  body_ += fmt::format(R"(<polygon class="{}" points="{}" fill="{}" fill-opacity="{}"/>)", kind,
                       points_of(points), fill, opacity);
  body_ += '\n';
}

void Canvas::circle(std::string_view kind, Point centre, double radius, std::string_view fill,
                    std::string_view tooltip) {
  body_ += fmt::format(R"(<circle class="{}" cx="{:.2f}" cy="{:.2f}" r="{}" fill="{}")", kind, centre.x,
                       centre.y, radius, fill);
  body_ += closing("circle", tooltip);
}

void Canvas::text(Point at, std::string_view content, Anchor anchor, double size, double degrees,
                  std::string_view fill) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  body_ += fmt::format(R"(<text x="{:.2f}" y="{:.2f}" text-anchor="{}" font-size="{}" fill="{}")", at.x, at.y,
                       kAnchors[static_cast<size_t>(anchor)], size, fill);
  if (degrees != 0) {
    body_ += fmt::format(" transform=\"rotate({} {:.2f} {:.2f})\"", degrees, at.x, at.y);
  }
  body_ += fmt::format(">{}</text>\n", escape(content));
}

std::string Canvas::finish() const {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" )"
             R"(font-family="Helvetica, Arial, sans-serif">)"
             "\n",
             width_, height_) +
         R"(<rect class="ground" width="100%" height="100%" fill="#fff"/>)" + "\n" + body_ + "</svg>\n";
}

}  // namespace entrain::report
