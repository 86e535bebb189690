// Line charts as SVG, for a page that holds them inline.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

struct Series {
  std::string label;       // shown when the pointer rests on the line
  int color = 0;           // which of the page's: class c0, c1, ... sets `color`
  bool is_sparse = false;  // drawn over the others, with a mark for each point; class sparse
  std::vector<double> x{}, y{};
};

struct Chart {
  std::string title;
  bool may_be_log = true;
  std::vector<Series> series{};
};

// Over steps. Both axes span the finite points. The vertical one is logarithmic where it may be,
// all values are above zero and the largest is 30 times the smallest. Empty for a chart without
// points.
std::string svg(const Chart& chart);

// Text for the inside of an element or attribute.
std::string escaped(const std::string& text);

}  // namespace taper::v0::runner
