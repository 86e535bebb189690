// Draws line charts as inline SVG.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

struct Series {
  std::string label;       // shown while the pointer is on the line
  int color = 0;           // the CSS class c0, c1, ... that sets the color
  bool is_sparse = false;  // drawn above other series, with a mark for each point; class "sparse"
  std::vector<double> x{}, y{};
};

struct Chart {
  std::string title;
  bool may_be_log = true;
  std::string x_name = "step";
  bool is_x_log = false;
  std::vector<Series> series{};
};

// Draws the chart. Both axes span the finite points. The vertical axis is logarithmic if may_be_log
// is set, all values are above zero, and the largest is more than 30 times the smallest; so is the
// horizontal axis if is_x_log is set.
// Returns "" for a chart without points.
std::string svg(const Chart& chart);

// Escapes text for an XML element or attribute.
std::string escaped(const std::string& text);

}  // namespace taper::v0::runner
