// How an options struct describes its fields, in one place next to them:
//
//   struct SoftplusOptions {
//     double beta = 1, threshold = 20;
//     template <class V> void describe(V& v) {
//       v("beta", beta, kPositive, "steepness");
//       v("threshold", threshold, kAny, "the function is linear above this value");
//     }
//   };
//
// The struct remains an aggregate: {.beta = 2}. Code that reads, checks, prints, saves or documents
// options passes a visitor. describe() calls it for each field with the field's name, the field
// itself (which holds its default), its range, and one line of text: v(name, field, range, text),
// or v(name, field, text) if it has no bounds. A choice is a TextEnum, which knows its words:
// v("mode", mode, text). For a text with a few values, these replace the range: v("decimal",
// decimal, {".", ","}, text). rules() states conditions between fields. Each rule names the field
// to which its error refers:
//
//   template <class V> void rules(V& v) {
//     v("n_head", "must divide n_embd", [this] { return n_embd % n_head == 0; });
//   }
#pragma once

#include <limits>

#include "framework/base/namespace.h"

namespace taper::v0 {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The allowed range of a number, or of each number of a list.
struct Range {
  double low = -kInfinity;
  double high = kInfinity;
  bool low_open = false;
  bool high_open = false;

  constexpr bool contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};
inline constexpr Range kAny{};
inline constexpr Range kPositive{0, kInfinity, true, false};
inline constexpr Range kNonNegative{0, kInfinity, false, false};
inline constexpr Range kBelowOne{0, 1, false, true};
inline constexpr Range kBetweenZeroAndOne{0, 1, true, true};
inline constexpr Range kUnit{0, 1, false, false};
// Ranges of sizes and counts. A number above the limit is assumed to be a typing error.
inline constexpr Range kWidth{1, 1 << 24};
inline constexpr Range kWidthOrNone{0, 1 << 24};
inline constexpr Range kCount{1, 1'000'000'000};
inline constexpr Range kCountOrNone{0, 1'000'000'000};

// Pass it in place of the range if a text is the path of a file or directory. The path must not be
// empty.
struct PathForm {};
inline constexpr PathForm kPath{};

}  // namespace taper::v0
