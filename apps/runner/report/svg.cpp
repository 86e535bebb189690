#include "apps/runner/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace taper::v0::runner {
namespace {

constexpr double kWidth = 640, kHeight = 300, kLeft = 62, kRight = 28, kTop = 10, kBottom = 42;
constexpr double kLogSpan = 30;
// Numbers below kLeast count as 0; numbers above kMost are not drawn.
constexpr double kLeast = 1e-300, kMost = 1e307;
constexpr size_t kColumns = 500;  // maximum number of columns of points

bool is_drawn(double x, double y) { return std::abs(x) < kMost && std::abs(y) < kMost; }

struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool is_log = false;

  void include(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // Chooses the scale. Widens a span that is too small to have ticks: a few units in the last
  // place, or denormal numbers.
  void choose_scale(bool may_be_log) {
    is_log = may_be_log && low > kLeast && high / kLogSpan > low;
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low > std::max(size * 1e-9, kLeast)) return;
    const double margin = size <= kLeast ? 1 : size * 0.1;
    low -= margin;
    high += margin;
  }
  // Returns the position of v from 0 (low) to 1 (high).
  double place(double v) const {
    if (is_log) return (std::log(v) - std::log(low)) / (std::log(high) - std::log(low));
    return (v - low) / (high - low);
  }
  std::vector<double> ticks() const {
    std::vector<double> out;
    const double rough = is_log ? low : (high - low) / 5;
    double power = std::pow(10, std::floor(std::log10(rough)));
    if (!is_log) {
      const double step = power * (rough < 2 * power ? 2 : rough < 5 * power ? 5 : 10);
      for (double i = std::ceil(low / step); i * step <= high; ++i) out.push_back(i * step);
    }
    // The number of decades between two ticks.
    const double stride = is_log ? std::ceil(std::log10(high / low) / 10) : 1;
    for (; is_log && power <= high; power *= std::pow(10, stride)) {
      for (const double v : {power, 2 * power, 5 * power}) {
        if ((v == power || high / 1e4 < low) && v >= low && v <= high) out.push_back(v);
      }
    }
    return out;
  }
};

// Formats 1.2345 as "1.234" and 20000 as "20k", short enough for the margins.
std::string number(double v) {
  for (const auto& [size, unit] : {std::pair(1e9, 'G'), {1e6, 'M'}, {1e3, 'k'}}) {
    const bool is_large = std::abs(v) >= std::max(size, 1e4) && std::abs(v) < 1e12;
    if (is_large) return fmt::format("{:.4g}{}", v / size, unit);
  }
  return fmt::format("{:.4g}", v);
}

struct Frame {
  Axis x, y;
  double left(double v) const { return kLeft + x.place(v) * (kWidth - kLeft - kRight); }
  double top(double v) const { return kHeight - kBottom - y.place(v) * (kHeight - kTop - kBottom); }
};

std::string grid(const Frame& frame, const std::string& x_name) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string out =
      fmt::format(R"(<path class="axis" d="M{} {}V{}H{}"/>)", kLeft, kTop, bottom, right);
  const auto mark = [&](const char* path, const char* axis, double left, double top, double value) {
    out += fmt::format(
        R"(<path class="grid" d="{}"/><text class="{}" x="{:.1f}" y="{:.1f}">{}</text>)", path,
        axis, left, top, number(value));
  };
  for (const double v : frame.y.ticks()) {
    const double top = frame.top(v);
    mark(fmt::format("M{} {:.1f}H{}", kLeft, top, right).c_str(), "y", kLeft - 6, top + 4, v);
  }
  for (const double v : frame.x.ticks()) {
    const double left = frame.left(v);
    mark(fmt::format("M{:.1f} {}v4", left, bottom).c_str(), "x", left, bottom + 18, v);
  }
  return out + fmt::format(R"(<text class="x" x="{}" y="{}">{}</text>)", kWidth / 2, kHeight - 6,
                           escaped(x_name));
}

// Returns the indices of the points to draw. A long series is reduced to the lowest and the highest
// point of each column, so that no spike is lost.
std::vector<size_t> chosen(const std::vector<double>& y) {
  std::vector<size_t> out;
  const size_t each = y.size() / kColumns + 1;
  for (size_t first = 0; first < y.size(); first += each) {
    size_t low = first, high = first;
    for (size_t i = first; i < std::min(first + each, y.size()); ++i) {
      if (!(y[i] >= y[low])) low = i;
      if (!(y[i] <= y[high])) high = i;
    }
    out.push_back(std::min(low, high));
    if (low != high) out.push_back(std::max(low, high));
  }
  return out;
}

std::string line(const Frame& frame, const Series& series) {
  std::string points, marks;
  // A single point has a mark, because a line needs two points.
  const bool has_marks = series.is_sparse || series.y.size() == 1;
  for (const size_t i : chosen(series.y)) {
    if (!is_drawn(series.x[i], series.y[i])) continue;
    const double left = frame.left(series.x[i]), top = frame.top(series.y[i]);
    points += fmt::format("{:.1f},{:.1f} ", left, top);
    if (!has_marks) continue;
    marks += fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}: {:.6g} at {}</title></circle>)", left,
        top, escaped(series.label), series.y[i], number(series.x[i]));
  }
  return fmt::format(R"(<g class="c{}{}"><polyline points="{}"><title>{}</title></polyline>{}</g>)",
                     series.color, series.is_sparse ? " sparse" : "", points, escaped(series.label),
                     marks);
}

}  // namespace

std::string svg(const Chart& chart) {
  Frame frame;
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!is_drawn(series.x[i], series.y[i])) continue;
      frame.x.include(series.x[i]);
      frame.y.include(series.y[i]);
    }
  }
  if (frame.x.low > frame.x.high) return "";
  frame.x.choose_scale(chart.is_x_log);
  frame.y.choose_scale(chart.may_be_log);
  std::string lines, above, legend;
  for (const Series& s : chart.series) {
    (s.is_sparse ? above : lines) += line(frame, s);
    legend += fmt::format(R"( <span><i class="key c{}{}"></i>{}</span>)", s.color,
                          s.is_sparse ? " sparse" : "", escaped(s.label));
  }
  return fmt::format(
      "<figure><figcaption>{0}{1}</figcaption><div class=\"legend\">{6}</div>\n"
      R"(<svg viewBox="0 0 {2} {3}" role="img" aria-label="{0}">{4}{5}</svg></figure>)"
      "\n",
      escaped(chart.title), frame.y.is_log ? " (log)" : "", kWidth, kHeight,
      grid(frame, chart.x_name), lines + above, legend);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      // XML does not allow other control characters, not even escaped.
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

}  // namespace taper::v0::runner
