#include "framework/factory/format_tensor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

constexpr int kPrecision = 4;
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr int64_t kLineWidth = 80;
constexpr std::string_view kPrefix = "tensor(";
// A prefix of dtypes that is present while lines are broken, so that they break where PyTorch's do.
// It is removed afterwards.
constexpr std::string_view kNamespace = "torch.";

// --- which elements ---

// Returns the shape of the shown part: the first and last elements of each long dimension if there
// are many elements, otherwise all.
Shape shown_shape(const Tensor& x) {
  Shape shown = x.shape();
  if (x.numel() <= kThreshold) return shown;
  for (int64_t& n : shown) n = std::min(n, 2 * kEdgeItems);
  return shown;
}

Tensor edge(const Tensor& x, int dim, int64_t start) {
  Shape shape = x.shape();
  shape[dim] = kEdgeItems;
  return view_as(x, shape, x.strides(), x.storage_offset() + start * x.strides()[dim]);
}

// Copies x without the middle of those dimensions in which `out` is shorter.
void copy_edges(const Tensor& out, const Tensor& x, int dim = 0) {
  if (dim == x.dim()) return kernels::copy_into(out, x);
  const int64_t shown = out.shape()[dim], n = x.shape()[dim];
  if (shown == n) return copy_edges(out, x, dim + 1);
  copy_edges(edge(out, dim, 0), edge(x, dim, 0), dim + 1);
  copy_edges(edge(out, dim, kEdgeItems), edge(x, dim, n - kEdgeItems), dim + 1);
}

// --- the text of one element ---

struct FloatStyle {
  bool integral = true;  // "1."
  bool scientific = false;
};

bool is_nonzero_finite(double x) { return x != 0 && std::isfinite(x); }

FloatStyle style_of(std::span<const double> values) {
  FloatStyle style;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const double x : values) {
    if (!is_nonzero_finite(x)) continue;
    style.integral = style.integral && x == std::ceil(x);
    low = std::min(low, std::abs(x));
    high = std::max(high, std::abs(x));
  }
  style.scientific = high > 0 && (high / low > 1000 || high > 1e8 || low < 1e-4);
  return style;
}

std::string text_of(double x, FloatStyle style) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  const bool plain_integer = style.integral && !style.scientific;
  const auto format = style.scientific ? std::chars_format::scientific : std::chars_format::fixed;
  // Fixed notation is used only up to 1e8, so this is long enough.
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, x, format, plain_integer ? 0 : kPrecision).ptr;
  return std::string(text, end) + (plain_integer ? "." : "");
}

// The texts of all shown elements, padded to the same width.
struct Cells {
  std::vector<std::string> texts;
  size_t width = 1;
};

Cells cells_of(const Tensor& x, const Shape& shown) {
  const bool floats = x.is_floating_point();
  const Tensor values = Tensor::make(shown, floats ? kFloat64 : kInt64, Device());
  copy_edges(values, x);
  Cells cells;
  const auto add = [&](const std::string& text, bool widens) {
    cells.texts.push_back(text);
    if (widens) cells.width = std::max(cells.width, text.size());
  };
  if (floats) {
    const FloatStyle style = style_of(values.span<double>());
    // Zeros, nan and inf do not widen the column; they may be wider than it.
    for (const double v : values.span<double>()) add(text_of(v, style), is_nonzero_finite(v));
  } else {
    const bool bools = x.dtype() == kBool;
    for (const int64_t v : values.span<int64_t>()) {
      add(!bools ? concat_to_string(v) : v ? "True" : "False", true);
    }
  }
  for (std::string& text : cells.texts) {
    if (text.size() < cells.width) text.insert(0, cells.width - text.size(), ' ');
  }
  return cells;
}

// --- brackets and lines ---

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

// Returns the text between two elements, with `newlines` line breaks.
std::string line_break(int newlines, int64_t indent) {
  return concat_to_string(",", std::string(size_t(newlines), '\n'),
                          std::string(size_t(indent) + 1, ' '));
}

std::string vector_text(std::span<const std::string> parts, size_t width, int64_t indent) {
  const size_t per_line = std::max<size_t>(1, size_t(kLineWidth - indent) / (width + 2));
  std::vector<std::string> lines;
  for (size_t i = 0; i < parts.size(); i += per_line) {
    lines.push_back(join(parts.subspan(i, std::min(per_line, parts.size() - i)), ", "));
  }
  return concat_to_string("[", join(lines, line_break(1, indent)), "]");
}

// Returns the brackets around the dimensions from `dim` on. `elements` contains their shown
// elements in row-major order.
std::string nested_text(const Tensor& x, const Shape& shown, std::span<const std::string> elements,
                        size_t width, int dim = 0) {
  if (dim == x.dim()) return elements[0];
  const int64_t indent = int64_t(kPrefix.size()) + dim;
  const bool last = dim + 1 == x.dim();
  const size_t n = size_t(shown[dim]), each = elements.size() / n;
  std::vector<std::string> parts;
  for (size_t i = 0; i < n; ++i) {
    parts.push_back(nested_text(x, shown, elements.subspan(i * each, each), width, dim + 1));
  }
  if (shown[dim] < x.shape()[dim]) parts.insert(parts.begin() + kEdgeItems, last ? " ..." : "...");
  if (last) return vector_text(parts, width, indent);
  return concat_to_string("[", join(parts, line_break(x.dim() - dim - 1, indent)), "]");
}

std::string values_text(const Tensor& x) {
  if (x.numel() == 0) return "[]";
  const Shape shown = shown_shape(x);
  const Cells cells = cells_of(x, shown);
  return nested_text(x, shown, cells.texts, cells.width);
}

// --- suffixes ---

std::vector<std::string> suffixes_of(const Tensor& x) {
  const bool empty = x.numel() == 0;
  std::vector<std::string> out;
  if (!x.device().is_cpu()) out.push_back(concat_to_string("device='", x.device(), "'"));
  if (empty && x.dim() != 1) {
    const std::string list = to_string(x.shape());
    out.push_back(concat_to_string("size=(", list.substr(1, list.size() - 2), ")"));
  }
  // An empty list does not show whether its dtype is integer or bool.
  const bool evident =
      x.dtype() == kFloat32 || (!empty && (x.dtype() == kInt64 || x.dtype() == kBool));
  if (!evident) out.push_back(concat_to_string("dtype=", kNamespace, x.dtype()));
  return out;
}

// Appends each suffix to the last line, or to a new line if that one would become too long.
std::string add_suffixes(std::string text, std::span<const std::string> suffixes) {
  // npos + 1 is 0: in a text of one line, the line starts at 0.
  size_t line = text.size() - (text.rfind('\n') + 1) + 2;
  for (const std::string& suffix : suffixes) {
    if (line + suffix.size() + 2 > size_t(kLineWidth)) {
      text += ",\n" + std::string(kPrefix.size(), ' ') + suffix;
      line = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return text + ")";
}

}  // namespace

std::string format_tensor(const Tensor& x, std::string_view tape_suffix) {
  if (!x.defined()) return "tensor(undefined)";
  std::vector<std::string> suffixes = suffixes_of(x);
  if (!tape_suffix.empty()) suffixes.emplace_back(tape_suffix);
  std::string text = add_suffixes(std::string(kPrefix) + values_text(x), suffixes);
  if (const size_t at = text.find(kNamespace); at != text.npos) text.erase(at, kNamespace.size());
  return text;
}

}  // namespace taper::v0
