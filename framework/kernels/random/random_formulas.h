// Conversion of the four words of a Philox block to random elements, with one formula for every
// device so that their bits agree. A draw is a functor: draw(words) returns the elements of one
// block. They are adjacent in memory: block b of a stream gives the kCount elements from kCount * b
// on.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/kernels/common/math.h"
#include "framework/kernels/random/random.h"

namespace taper::v0::kernels {

// The elements from one block.
template <class T, int kSize> struct Drawn {
  using Element = T;
  static constexpr int kCount = kSize;
  T value[kSize];
};

// Returns a number in [0, 1) with as many random bits as T can represent in that range.
template <class T> TAPER_HD float unit_of_word(uint32_t word) {
  if constexpr (std::is_same_v<T, Half>) return float(word >> 21) * 4.8828125e-04f;
  if constexpr (std::is_same_v<T, BFloat16>) return float(word >> 24) * 3.90625e-03f;
  return uniform_float(word);
}

// --- uniform: low + u * (high - low), less than high also after rounding ---
template <class T> struct UniformDraw {
  using Real = AccumulateType<T>;
  using Result = Drawn<T, std::is_same_v<T, double> ? 2 : 4>;
  Real low, span, limit;

  TAPER_HD Result operator()(const Philox4& w) const {
    Result out;
    for (int i = 0; i < Result::kCount; ++i) out.value[i] = placed(unit(w, i));
    return out;
  }
  TAPER_HD static Real unit(const Philox4& w, int i) {
    if constexpr (std::is_same_v<T, double>) {
      return uniform_double(w.word[2 * i], w.word[2 * i + 1]);
    } else {
      return unit_of_word<T>(w.word[i]);
    }
  }
  TAPER_HD T placed(Real u) const {
    const T x = T(math::add_rn(low, math::mul_rn(u, span)));
    return Real(x) > limit ? T(limit) : x;
  }
};

// Returns the next smaller number. x is finite.
template <class T> T next_below(T x) {
  if constexpr (sizeof(T) == 2) {
    if ((x.bits & 0x7fff) == 0) {
      x.bits = 0x8001;
    } else {
      x.bits = uint16_t(x.bits + (x.bits & 0x8000 ? 1 : -1));
    }
    return x;
  } else {
    return std::nextafter(x, -std::numeric_limits<T>::infinity());
  }
}

// Draws from [low, high). If the two are equal in T, always draws low.
template <class T> UniformDraw<T> uniform_draw(double low, double high) {
  using Real = AccumulateType<T>;
  T limit = T(Real(high));
  if (double(Real(limit)) >= high) limit = next_below(limit);
  const T first = T(Real(low));
  return {Real(low), Real(high - low), Real(limit) < Real(first) ? Real(first) : Real(limit)};
}

// --- normal: elements 2j and 2j + 1 are one Box-Muller pair ---
template <class T> struct NormalDraw {
  using Real = AccumulateType<T>;
  using Result = Drawn<T, std::is_same_v<T, double> ? 2 : 4>;
  Real mean, std;

  TAPER_HD Result operator()(const Philox4& w) const {
    Result out;
    for (int i = 0; i < Result::kCount; i += 2) {
      using Unit = UniformDraw<Real>;
      const auto z = math::normal_from_uniform(Unit::unit(w, i), Unit::unit(w, i + 1));
      out.value[i] = placed(z.cosine);
      out.value[i + 1] = placed(z.sine);
    }
    return out;
  }
  TAPER_HD T placed(Real z) const { return T(math::add_rn(mean, math::mul_rn(std, z))); }
};

// --- bernoulli: 1 if the float32 uniform number is less than p ---
struct BernoulliDraw {
  using Result = Drawn<float, 4>;
  float p;

  TAPER_HD Result operator()(const Philox4& w) const {
    Result out;
    for (int i = 0; i < 4; ++i) out.value[i] = uniform_float(w.word[i]) < p ? 1.0f : 0.0f;
    return out;
  }
};

// --- integers in [low, low + range): the random word as a fraction, times range ---

// Returns the upper half of the 128-bit product.
TAPER_HD uint64_t mul_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = uint32_t(a), a1 = a >> 32, b0 = uint32_t(b), b1 = b >> 32;
  const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
  const uint64_t carry = uint32_t(middle) + a0 * b1;
  return a1 * b1 + (middle >> 32) + (carry >> 32);
}

// kWide uses two words per element, for ranges above 2^32.
template <bool kWide> struct RandintDraw {
  using Result = Drawn<int64_t, kWide ? 2 : 4>;
  uint64_t low, range;

  TAPER_HD Result operator()(const Philox4& w) const {
    Result out;
    for (int i = 0; i < Result::kCount; ++i) out.value[i] = int64_t(low + scaled(w, i));
    return out;
  }
  TAPER_HD uint64_t scaled(const Philox4& w, int i) const {
    if constexpr (kWide) {
      return mul_high(uint64_t(w.word[2 * i]) << 32 | w.word[2 * i + 1], range);
    } else {
      return (w.word[i] * range) >> 32;
    }
  }
};

// --- pick: the position in a row of running sums that a draw selects ---
struct Pick {
  int64_t* out;         // [rows, n]
  const int64_t* sums;  // [rows, k]
  const double* draws;  // [rows, n]
  int64_t n, k;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t* row = sums + i / n * k;
    const int64_t total = row[k - 1], place = int64_t(draws[i] * double(total));
    // If the weights are invalid, the total may be any number, because the error is reported only
    // later.
    const int64_t limit = place < total ? place : int64_t(uint64_t(total) - 1);
    int64_t low = 0, high = k - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (row[middle] > limit) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    out[i] = low;
  }
};

// --- dropout: element i is kept if its float32 uniform number, from word i % 4, is at least p ---
template <class T> struct DropoutRule {
  using Real = AccumulateType<T>;
  uint32_t threshold;  // p * 2^24, rounded up: the uniform numbers are multiples of 2^-24
  Real scale;

  // Returns the result before it is rounded to T.
  TAPER_HD Real scaled(T x, uint32_t word) const {
    return word >> 8 >= threshold ? Real(x) * scale : Real(0);
  }
  TAPER_HD T operator()(T x, uint32_t word) const { return T(scaled(x, word)); }
};
template <class T> DropoutRule<T> dropout_rule(double p) {
  return {uint32_t(std::ceil(float(p) * 16777216.0f)), AccumulateType<T>(1 / (1 - p))};
}

// --- launchers ---

// Draws<Backend>::run(op, out, key, draw) fills `out`, a dense tensor, with the results of the
// functor `draw`.
template <class Backend> struct Draws;

template <class Backend>
void RandomKernels<Backend>::uniform(const Tensor& out, PhiloxKey key, double low, double high) {
  visit_floating(out.dtype(), [&]<class T>(TypeTag<T>) {
    Draws<Backend>::run("uniform", out, key, uniform_draw<T>(low, high));
  });
}

template <class Backend>
void RandomKernels<Backend>::normal(const Tensor& out, PhiloxKey key, double mean, double std) {
  visit_floating(out.dtype(), [&]<class T>(TypeTag<T>) {
    using Real = AccumulateType<T>;
    Draws<Backend>::run("normal", out, key, NormalDraw<T>{Real(mean), Real(std)});
  });
}

template <class Backend>
void RandomKernels<Backend>::bernoulli(const Tensor& out, PhiloxKey key, double p) {
  Draws<Backend>::run("bernoulli", out, key, BernoulliDraw{float(p)});
}

template <class Backend>
void RandomKernels<Backend>::randint(const Tensor& out, PhiloxKey key, int64_t low, int64_t high) {
  const uint64_t from = uint64_t(low), range = uint64_t(high) - from;
  const auto run = [&](auto draw) { Draws<Backend>::run("randint", out, key, draw); };
  range > uint64_t(1) << 32 ? run(RandintDraw<true>{from, range})
                            : run(RandintDraw<false>{from, range});
}

template <class Backend>
void RandomKernels<Backend>::pick(const Tensor& out, const Tensor& sums, const Tensor& draws) {
  Backend::run("multinomial", out, out.numel(), 64,
               Pick{pointer<int64_t>(out), pointer<const int64_t>(sums),
                    pointer<const double>(draws), draws.size(-1), sums.size(-1)});
}

}  // namespace taper::v0::kernels
