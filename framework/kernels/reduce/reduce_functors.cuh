// The operators of reductions. An Op has `take`, which converts an element (or an earlier partial
// result) to a partial result; `join`, which combines two partial results; `result`, which converts
// the last one to the result; and `none`, the neutral element.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels::cuda {

template <class C> struct OfNumbers {
  using Acc = C;
  static constexpr int kSets = 4;  // independent partial results per thread

  template <class T> TAPER_HD C take(T x, int64_t, int) const { return convert<C>(x); }
  TAPER_HD C result(C a) const { return a; }
};

template <class C> struct Sum : OfNumbers<C> {
  C divisor;  // n for a mean, otherwise 1

  static TAPER_HD C none() { return C(0); }
  TAPER_HD C join(C a, C b) const { return plus(a, b); }
  TAPER_HD C result(C a) const {
    if constexpr (std::is_integral_v<C>) return a;
    return a / divisor;
  }
};

// Reduces |x|, x^2, or 1 where x is nonzero.
template <class Op> struct Mapped : Op {
  ReduceMap map;
  template <class T> TAPER_HD typename Op::Acc take(T given, int64_t, int) const {
    using C = typename Op::Acc;
    if constexpr (std::is_integral_v<C>) return convert<bool>(given);
    const C x = convert<C>(given);
    return map == ReduceMap::kSquare ? x * x : math::abs(x);
  }
};
// Returns the operator that combines the partial results of `op`.
template <class Op> TAPER_HD const Op& rest_of(const Op& op) { return op; }
template <class Op> TAPER_HD const Op& rest_of(const Mapped<Op>& op) { return op; }

template <class C> struct Product : OfNumbers<C> {
  static TAPER_HD C none() { return C(1); }
  TAPER_HD C join(C a, C b) const { return times(a, b); }
};

// NaN takes precedence.
template <class C, bool kLargest> struct Extreme : OfNumbers<C> {
  static TAPER_HD C none() {
    using Limits = std::numeric_limits<C>;
    if constexpr (std::is_integral_v<C>) return kLargest ? Limits::min() : Limits::max();
    return kLargest ? -Limits::infinity() : Limits::infinity();
  }
  TAPER_HD C join(C a, C b) const {
    const bool first = kLargest ? a > b : a < b;
    return first || is_nan(a) ? a : b;
  }
};

template <bool kAll> struct Truth {
  using Acc = bool;
  static constexpr int kSets = 4;

  static TAPER_HD bool none() { return kAll; }
  template <class T> TAPER_HD bool take(T x, int64_t, int) const { return convert<bool>(x); }
  TAPER_HD bool join(bool a, bool b) const { return kAll ? a && b : a || b; }
  TAPER_HD bool result(bool a) const { return a; }
};

// A value and its index. A negative index means that no element was seen.
template <class C> struct Best {
  C value;
  int64_t index;
};

// The order is total (NaN first, then by value, then by lower index), so partial results may be
// joined in any order.
template <class C> struct ArgExtreme {
  using Acc = Best<C>;
  static constexpr int kSets = 1;
  bool largest;
  char* values;  // of the result's shape; null if not requested
  DType dtype;

  static TAPER_HD Acc none() { return {C(0), -1}; }
  TAPER_HD Acc take(Acc x, int64_t, int) const { return x; }
  TAPER_HD bool precedes(Acc a, Acc b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0;
    if (is_nan(a.value) != is_nan(b.value)) return is_nan(a.value);
    if (a.value == b.value || is_nan(a.value)) return a.index < b.index;
    return (a.value > b.value) == largest;
  }
  TAPER_HD Acc join(Acc a, Acc b) const { return precedes(a, b) ? a : b; }
  TAPER_HD int64_t result(Acc a) const { return a.index; }
};

// Sums of d = x - origin and of d^2, in double. The origin is the first element of each result's
// input, so that a mean far from 0 costs no precision.
struct Spread {
  double sum, squares;
};

struct Variance {
  using Acc = Spread;
  static constexpr int kSets = 1;
  double n, freedom;
  bool root;

  static TAPER_HD Acc none() { return {0, 0}; }
  TAPER_HD Acc take(Acc x, int64_t, int) const { return x; }
  template <class T> TAPER_HD Acc take(T x, int64_t, double origin) const {
    const double d = convert<double>(x) - origin;
    return {d, d * d};
  }
  TAPER_HD Acc join(Acc a, Acc b) const { return {a.sum + b.sum, a.squares + b.squares}; }
  TAPER_HD double result(Acc a) const {
    const double total = a.squares - a.sum * a.sum / n;
    const double variance = (total < 0 ? 0 : total) / freedom;
    return root ? sqrt(variance) : variance;
  }
};

// The maximum and the sum of exp(x - max), in one pass (Milakov and Gimelshein 2018).
template <class C> struct Exps { C max, sum; };

template <class C> struct LogSumExp {
  using Acc = Exps<C>;
  static constexpr int kSets = 1;

  static TAPER_HD Acc none() { return {-std::numeric_limits<C>::infinity(), C(0)}; }
  static TAPER_HD Acc take(Acc x, int64_t, int) { return x; }
  template <class T> static TAPER_HD Acc take(T x, int64_t, int) { return {convert<C>(x), C(1)}; }
  // Infinities are never subtracted from each other. A NaN propagates through the sum.
  static TAPER_HD Acc join(Acc a, Acc b) {
    const bool up = b.max > a.max;
    const C apart = a.max == b.max ? C(0) : up ? a.max - b.max : b.max - a.max;
    const C e = math::exp(apart);
    return up ? Acc{b.max, a.sum * e + b.sum} : Acc{a.max, a.sum + b.sum * e};
  }
  static TAPER_HD C result(Acc a) { return a.max + math::log(a.sum); }
};

// Returns the third argument of `take`. It depends on x, the first element of the result's input.
template <class Op, class T> TAPER_HD int origin_of(const Op&, const T*) { return 0; }
template <class T>
requires(!std::is_same_v<T, Spread>) TAPER_HD double origin_of(const Variance&, const T* x) {
  return convert<double>(*x);
}

// Adds one more element to a thread's partial result.
template <class Op, class T, class O>
TAPER_HD typename Op::Acc joined(const Op& op, typename Op::Acc acc, T x, int64_t at, O origin) {
  return op.join(acc, op.take(x, at, origin));
}
// Adds one more element. The indices of a thread's elements increase, so a later element must be
// strictly better.
template <class C, class T>
requires(!std::is_same_v<T, Best<C>>) TAPER_HD Best<C> joined(const ArgExtreme<C>& op, Best<C> best,
                                                              T x, int64_t at, int) {
  const C v = convert<C>(x);
  const bool ahead = (v > best.value) == op.largest && v != best.value;
  const bool wins = (ahead || is_nan(v)) && !is_nan(best.value);
  return wins || best.index < 0 ? Best<C>{v, at} : best;
}

}  // namespace taper::v0::kernels::cuda
