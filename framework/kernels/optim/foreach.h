// In-place functions that are applied to all elements of a list of floating tensors. They are not
// recorded. On the GPU they take one launch. If values are reduced, a second launch reduces the
// results of the chunks in a fixed order. Half types compute in float. Nothing synchronizes: values
// that change from step to step are read from device memory.
#pragma once

#include <variant>
#include <vector>

#include "framework/kernels/common/math.h"
#include "framework/kernels/optim/tensor_list.h"

namespace taper::v0::kernels {

// How the values that step() returns for the elements are reduced to one number. The values are at
// least 0 or NaN, and NaN takes precedence.
enum class Join : uint8_t { kNone, kSum, kMax };
template <Join kHow> struct Joiner {
  template <class C> TAPER_HD C operator()(C a, C b) const {
    if constexpr (kHow == Join::kSum) return a + b;
    return a > b || a != a ? a : b;
  }
};

// Base class of the functions. prepare() returns one number per chunk, and step(x, y, number) is
// called for each element.
struct InPlace {
  static constexpr bool kReads = true;  // reads x
  static constexpr bool kPair = false;  // reads y
  static constexpr bool kWrites = true;
  static constexpr Join kJoin = Join::kNone;
};

// Returns |x|^p, where p is kPower unless kPower is 0.
template <int kPower, Join kHow> struct Magnitude : InPlace {
  static constexpr bool kWrites = false;
  static constexpr Join kJoin = kHow;
  double p;

  TAPER_HD double prepare() const { return p; }
  template <class C> TAPER_HD C step(C x, C, C power) const {
    const C a = math::abs(x);
    if constexpr (kPower == 0) return math::pow(a, power);
    return kPower == 1 ? a : a * a;
  }
};

// Computes x *= min(1, max_norm / (total_norm + 1e-6)). NaN stays NaN.
template <class Norm> struct Clip : InPlace {
  const Norm* total_norm;
  double max_norm;

  TAPER_HD double prepare() const {
    const double c = max_norm / (double(*total_norm) + 1e-6);
    return c > 1 ? 1 : c;
  }
  template <class C> TAPER_HD C step(C& x, C, C coefficient) const { return x *= coefficient; }
};

// Limits x to [-limit, limit]. NaN stays NaN.
struct ClipValue : InPlace {
  double limit;

  TAPER_HD double prepare() const { return limit; }
  template <class C> TAPER_HD C step(C& x, C, C most) const {
    x = x < -most ? -most : x;
    return x = x > most ? most : x;
  }
};

// Computes x /= scale. Returns 1 if x was infinite or NaN, and 0 otherwise.
struct Unscale : InPlace {
  static constexpr Join kJoin = Join::kMax;
  const float* scale;

  TAPER_HD double prepare() const { return double(float(1 / double(*scale))); }
  template <class C> TAPER_HD C step(C& x, C, C inverse) const {
    const C found = x - x == C(0) ? C(0) : C(1);
    x *= inverse;
    return found;
  }
};

// Computes x += (y - x) * (1 - decay), or x = y if *n is 0. With warm_up, decay is at most (1 + n)
// / (10 + n). With `equal`, decay is n / (1 + n), so that x is the mean of all y.
struct Average : InPlace {
  static constexpr bool kPair = true;
  const int64_t* n;
  double decay;
  bool warm_up, equal = false;

  TAPER_HD double prepare() const {
    const double count = double(*n), early = (1 + count) / (10 + count);
    if (equal) return 1 / (1 + count);
    return count == 0 ? 1 : 1 - (warm_up && early < decay ? early : decay);
  }
  template <class C> TAPER_HD C step(C& x, C y, C weight) const {
    return x = weight == C(1) ? y : x + weight * (y - x);
  }
};

// Computes x = y.
struct Assign : InPlace {
  static constexpr bool kReads = false, kPair = true;

  TAPER_HD double prepare() const { return 0; }
  template <class C> TAPER_HD C step(C& x, C y, C) const { return x = y; }
};

// Updates a loss scale and the number of good steps since its last change. Called after a step with
// found_inf.
struct GrowScale : InPlace {
  int32_t* tracker;
  const float* found_inf;
  double growth_factor, backoff_factor;
  int64_t growth_interval;

  TAPER_HD double prepare() const { return *found_inf; }
  template <class C> TAPER_HD C step(C& scale, C, C found) const {
    const bool bad = found != C(0), grow = !bad && *tracker + 1 >= growth_interval;
    *tracker = bad || grow ? 0 : *tracker + 1;
    if (bad) return scale = C(scale * backoff_factor);
    const C grown = C(scale * growth_factor);
    return scale = grow && grown - grown == C(0) ? grown : scale;  // never grows to infinity
  }
};

using ListRule = std::variant<Magnitude<1, Join::kSum>, Magnitude<2, Join::kSum>,
                              Magnitude<0, Join::kSum>, Magnitude<1, Join::kMax>, Clip<float>,
                              Clip<double>, ClipValue, Unscale, Average, Assign, GrowScale>;

// Applies `rule` to all tensors. xs and the rule's pointers are on one device. The tensors may
// differ in shape, dtype and layout. ys have the shapes and devices of xs, and are float64 only if
// xs are.
void run_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs,
              const std::vector<Tensor>& ys = {});
// Copies each tensor, with one launch on the GPU. They are on one device.
void copy_list(const std::vector<Tensor>& to, const std::vector<Tensor>& from);
// Like run_list, but also returns the reduced values to the power 1/p, 0-dim, on the device of the
// first tensor. If the rule has no pointers, the tensors may be on several devices. The result has
// the same bits as if all of them were on one.
Tensor join_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs,
                 DType dtype = kFloat32, double p = 1);

// Writes the reduced result to the power 1/p as float64 (`wide`) or float32.
struct Root {
  void* out = nullptr;
  bool wide = false;
  double p = 1;

  TAPER_HD void operator()(double total) const {
    const double y = p == 1 ? total : p == 2 ? math::sqrt(total) : math::pow(total, 1 / p);
    if (wide) *static_cast<double*>(out) = y;
    if (!wide) *static_cast<float*>(out) = float(y);
  }
};

// run_values() writes the reduced values of the chunks to `values`. join_values() reduces n of
// them. chunk_of() returns the number of elements in a chunk of a list with `numel` elements in
// all.
namespace cpu {
int chunk_of(int64_t numel);
void run_values(const std::vector<ListEntry<2>>& entries, const ListRule& rule, double* values);
void join_values(const double* values, int64_t n, const ListRule& rule, const Root& root);
void run_list(const std::vector<ListEntry<2>>& entries, const ListRule& rule, const Root& root);
}  // namespace cpu
namespace cuda {
int chunk_of(int64_t numel);
void run_values(const char* op, int device, const std::vector<ListEntry<2>>& entries,
                const ListRule& rule, int chunk, double* values);
void join_values(const char* op, int device, const double* values, int64_t n, const ListRule& rule,
                 const Root& root);
void run_list(const char* op, int device, const std::vector<ListEntry<2>>& entries,
              const ListRule& rule, const Root& root);
}  // namespace cuda

}  // namespace taper::v0::kernels
