#include "framework/factory/format_tensor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "framework/factory/print_options.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

// The options in use.
struct Settings {
  int64_t precision = 4, threshold = 1000, edgeitems = 3, linewidth = 80;
  std::optional<bool> sci_mode = std::nullopt;
};

// The options of all threads, with their lock.
struct SharedSettings {
  std::mutex mutex;
  Settings value;
};
SharedSettings& shared_settings() {
  static SharedSettings settings;
  return settings;
}
Settings current_settings() {
  SharedSettings& shared = shared_settings();
  const std::lock_guard lock(shared.mutex);
  return shared.value;
}

Settings settings_of(PrintProfile profile) {
  Settings s;
  if (profile == PrintProfile::kShort) s.precision = s.edgeitems = 2;
  if (profile == PrintProfile::kFull) s.threshold = std::numeric_limits<int64_t>::max();
  return s;
}

constexpr std::string_view kPrefix = "tensor(";
// A prefix of dtypes that is present while lines are broken, so that they break where PyTorch's do.
// It is removed afterwards.
constexpr std::string_view kNamespace = "torch.";

// --- which elements ---

// Returns the shape of the shown part: the first and last elements of each long dimension if there
// are many elements, otherwise all.
Shape shown_shape(const Tensor& x, const Settings& settings) {
  Shape shown = x.shape();
  if (x.numel() <= settings.threshold) return shown;
  // The comparison does not double edgeitems, which may be as large as any int64_t.
  for (int64_t& n : shown) n = n / 2 < settings.edgeitems ? n : 2 * settings.edgeitems;
  return shown;
}

Tensor edge(const Tensor& x, int dim, int64_t start, int64_t length) {
  Shape shape = x.shape();
  shape[dim] = length;
  return view_as(x, shape, x.strides(), x.storage_offset() + start * x.strides()[dim]);
}

// Copies x without the middle of those dimensions in which `out` is shorter.
void copy_edges(const Tensor& out, const Tensor& x, int dim = 0) {
  if (dim == x.dim()) return kernels::copy_into(out, x);
  const int64_t shown = out.shape()[dim], n = x.shape()[dim];
  if (shown == n) return copy_edges(out, x, dim + 1);
  const int64_t half = shown / 2;
  copy_edges(edge(out, dim, 0, half), edge(x, dim, 0, half), dim + 1);
  copy_edges(edge(out, dim, half, half), edge(x, dim, n - half, half), dim + 1);
}

// --- the text of one element ---

struct FloatStyle {
  bool integral = true;  // "1."
  bool scientific = false;
  int precision = 4;
};

bool is_nonzero_finite(double x) { return x != 0 && std::isfinite(x); }

FloatStyle style_of(std::span<const double> values, const Settings& settings) {
  // More digits than this are all zeros.
  constexpr int64_t kMostDigits = 1100;
  FloatStyle style{.precision = int(std::min(settings.precision, kMostDigits))};
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const double x : values) {
    if (!is_nonzero_finite(x)) continue;
    style.integral = style.integral && x == std::ceil(x);
    low = std::min(low, std::abs(x));
    high = std::max(high, std::abs(x));
  }
  const bool is_wide = high > 0 && (high / low > 1000 || high > 1e8 || low < 1e-4);
  style.scientific = settings.sci_mode.value_or(is_wide);
  return style;
}

std::string text_of(double x, FloatStyle style) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  const bool plain_integer = style.integral && !style.scientific;
  const auto format = style.scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const int precision = plain_integer ? 0 : style.precision;
  // The largest double has 309 digits before the point.
  std::string text(size_t(precision) + 320, '\0');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x, format, precision).ptr;
  text.resize(size_t(end - text.data()));
  return text + (plain_integer ? "." : "");
}

// The texts of all shown elements, padded to the same width.
struct Cells {
  std::vector<std::string> texts;
  size_t width = 1;
};

Cells cells_of(const Tensor& x, const Shape& shown, const Settings& settings) {
  const bool floats = x.is_floating_point();
  const Tensor values = Tensor::make(shown, floats ? kFloat64 : kInt64, Device());
  copy_edges(values, x);
  Cells cells;
  const auto add = [&](const std::string& text, bool widens) {
    cells.texts.push_back(text);
    if (widens) cells.width = std::max(cells.width, text.size());
  };
  if (floats) {
    const FloatStyle style = style_of(values.span<double>(), settings);
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

std::string vector_text(std::span<const std::string> parts, size_t width, int64_t indent,
                        int64_t line_width) {
  const auto per_line = size_t(std::max<int64_t>(1, (line_width - indent) / int64_t(width + 2)));
  std::vector<std::string> lines;
  for (size_t i = 0; i < parts.size(); i += per_line) {
    lines.push_back(join(parts.subspan(i, std::min(per_line, parts.size() - i)), ", "));
  }
  return concat_to_string("[", join(lines, line_break(1, indent)), "]");
}

// Describes the text between the outermost brackets.
struct Page {
  Shape whole, shown;  // sizes of the tensor and of its shown part
  size_t width;        // of an element
  int64_t line_width;
};

// Returns the brackets around the dimensions from `dim` on. `elements` contains their shown
// elements in row-major order.
std::string nested_text(const Page& page, std::span<const std::string> elements, int dim = 0) {
  const int dims = page.whole.size();
  if (dim == dims) return elements[0];
  const int64_t indent = int64_t(kPrefix.size()) + dim;
  const bool last = dim + 1 == dims;
  const size_t n = size_t(page.shown[dim]), each = elements.size() / n;
  std::vector<std::string> parts;
  for (size_t i = 0; i < n; ++i) {
    parts.push_back(nested_text(page, elements.subspan(i * each, each), dim + 1));
  }
  if (page.shown[dim] < page.whole[dim]) {
    parts.insert(parts.begin() + page.shown[dim] / 2, last ? " ..." : "...");
  }
  if (last) return vector_text(parts, page.width, indent, page.line_width);
  return concat_to_string("[", join(parts, line_break(dims - dim - 1, indent)), "]");
}

std::string values_text(const Tensor& x, const Settings& settings) {
  if (x.numel() == 0) return "[]";
  const Shape shown = shown_shape(x, settings);
  const Cells cells = cells_of(x, shown, settings);
  return nested_text({x.shape(), shown, cells.width, settings.linewidth}, cells.texts);
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
std::string add_suffixes(std::string text, std::span<const std::string> suffixes,
                         int64_t line_width) {
  // npos + 1 is 0: in a text of one line, the line starts at 0.
  size_t line = text.size() - (text.rfind('\n') + 1) + 2;
  for (const std::string& suffix : suffixes) {
    if (line + suffix.size() + 2 > size_t(line_width)) {
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
  const Settings settings = current_settings();
  std::string text =
      add_suffixes(std::string(kPrefix) + values_text(x, settings), suffixes, settings.linewidth);
  if (const size_t at = text.find(kNamespace); at != text.npos) text.erase(at, kNamespace.size());
  return text;
}

void set_printoptions(const PrintOptions& options) {
  SharedSettings& shared = shared_settings();
  const std::lock_guard lock(shared.mutex);
  Settings next = options.profile ? settings_of(*options.profile) : shared.value;
  const auto set = [](const char* name, std::optional<int64_t> value, int64_t least, int64_t& to) {
    require<ValueError>(value.value_or(least) >= least, "set_printoptions: ", name,
                        " must be at least ", least, ", got ", value.value_or(least));
    to = value.value_or(to);
  };
  set("precision", options.precision, 0, next.precision);
  set("threshold", options.threshold, 0, next.threshold);
  set("edgeitems", options.edgeitems, 1, next.edgeitems);
  set("linewidth", options.linewidth, 1, next.linewidth);
  next.sci_mode = options.sci_mode;
  shared.value = next;
}

PrintOptions get_printoptions() {
  const Settings s = current_settings();
  return {.precision = s.precision,
          .threshold = s.threshold,
          .edgeitems = s.edgeitems,
          .linewidth = s.linewidth,
          .sci_mode = s.sci_mode};
}

}  // namespace taper::v0
