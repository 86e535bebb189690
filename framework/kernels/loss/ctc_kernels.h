// Functors of the CTC steps, one thread per element. Sums over states have a fixed order.
#pragma once

#include <limits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/loss/ctc.h"

namespace taper::v0::kernels {

// Raw pointers to the tensors of a Ctc.
template <class T> struct CtcView {
  const T* log_probs;
  const int64_t *input_lengths, *target_lengths, *labels;
  T *alpha, *loss;
  int64_t steps, rows, classes, states;

  explicit CtcView(const Ctc& c)
      : log_probs(pointer<T>(c.log_probs)),
        input_lengths(pointer<int64_t>(c.input_lengths)),
        target_lengths(pointer<int64_t>(c.target_lengths)),
        labels(pointer<int64_t>(c.labels)),
        alpha(pointer<T>(c.alpha)),
        loss(pointer<T>(c.loss)),
        steps(c.T()),
        rows(c.N()),
        classes(c.C()),
        states(c.L()) {}

  TAPER_HD int64_t input_length(int64_t n) const {
    const int64_t length = input_lengths[n];
    return length < 0 ? 0 : length < steps ? length : steps;
  }
  TAPER_HD int64_t last_state(int64_t n) const {
    const int64_t last = 2 * target_lengths[n];
    return last < 0 ? 0 : last < states ? last : states - 1;
  }
  TAPER_HD const int64_t* labels_of(int64_t n) const { return labels + n * states; }
  TAPER_HD T log_prob(int64_t t, int64_t n, int64_t label) const {
    return log_probs[(t * rows + n) * classes + label];
  }
};

template <class T> inline constexpr T kNoPath = -std::numeric_limits<T>::infinity();

template <class T> TAPER_HD T log_sum(T a, T b, T c) {
  const T ab = a > b ? a : b, most = ab > c ? ab : c;
  if (most == kNoPath<T>) return most;
  return most + math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most));
}

// Writes labels[n][s]; every second state is a blank.
template <class Check> struct CtcLabels {
  int64_t* labels;
  const int64_t *targets, *starts, *input_lengths, *target_lengths;
  int64_t steps, classes, states, numel, blank;
  Check check;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t n = i / states, s = i % states, length = target_lengths[n];
    labels[i] = -1;
    if (s == 0 && !(check(input_lengths[n], steps + 1) && check(length, states / 2 + 1))) return;
    if (s > 2 * length) return;
    const int64_t at = starts[n] + s / 2;
    if (s % 2 == 0)
      labels[i] = blank;
    else if (check(at, numel) && check(targets[at], classes))
      labels[i] = targets[at];
  }
};

// Computes step t of alpha (the log probability of all paths from the start to a state) or of beta
// (from the state to the end). The state is combined with its two predecessors in the direction of
// the computation. Two equal labels need a blank between them.
template <class T, bool kFromEnd> struct CtcWays {
  CtcView<T> c;
  T* sums;
  int64_t t;

  static constexpr bool kClones = true;
  TAPER_HD void operator()(int64_t i) const {
    constexpr int64_t kBack = kFromEnd ? 1 : -1;
    const int64_t n = i / c.states, s = i % c.states, length = c.input_length(n);
    const int64_t before = kFromEnd ? c.last_state(n) - s : s;
    const int64_t* label = c.labels_of(n) + s;
    T sum = kNoPath<T>;
    if (*label >= 0 && t < length) {
      const T* last = sums + (t + kBack) * c.rows * c.states + i;
      sum =
          t == (kFromEnd ? length - 1 : 0)
              ? (before < 2 ? T(0) : kNoPath<T>)
              : log_sum(last[0], before > 0 ? last[kBack] : kNoPath<T>,
                        before > 1 && label[0] != label[2 * kBack] ? last[2 * kBack] : kNoPath<T>);
      sum += c.log_prob(t, n, *label);
    }
    sums[t * c.rows * c.states + i] = sum;
  }
};

template <class T> struct CtcLoss {
  CtcView<T> c;

  static constexpr bool kClones = true;
  TAPER_HD void operator()(int64_t n) const {
    const int64_t length = c.input_length(n), last = c.last_state(n);
    if (length == 0) {
      c.loss[n] = last == 0 ? T(0) : -kNoPath<T>;
      return;
    }
    const T* end = c.alpha + ((length - 1) * c.rows + n) * c.states + last;
    c.loss[n] = -log_sum(end[0], last > 0 ? end[-1] : kNoPath<T>, kNoPath<T>);
  }
};

// Computes sums[t][n][class], the log of the sum of alpha * beta over the states of the class.
template <class T> struct CtcSums {
  CtcView<T> c;
  T* sums;
  const T* beta;

  static constexpr bool kClones = true;
  TAPER_HD void operator()(int64_t i) const {
    const int64_t n = i % c.rows, last = c.last_state(n);
    if (i / c.rows >= c.input_length(n)) return;
    for (int64_t s = 0; s <= last; ++s) {
      const int64_t label = c.labels_of(n)[s];
      if (label < 0) continue;
      T& sum = sums[i * c.classes + label];
      sum = log_sum(sum, c.alpha[i * c.states + s] + beta[i * c.states + s], kNoPath<T>);
    }
  }
};

template <class T> struct CtcGradient {
  CtcView<T> c;
  T* sums;
  const T* dloss;
  bool zero_infinity;

  static constexpr bool kClones = true;
  TAPER_HD void operator()(int64_t i) const {
    const int64_t n = i / c.classes % c.rows, t = i / c.classes / c.rows;
    const T loss = c.loss[n], lp = c.log_probs[i];
    const bool none = t >= c.input_length(n) || (zero_infinity && loss == -kNoPath<T>);
    sums[i] = none ? T(0) : (math::exp(lp) - math::exp(sums[i] + loss - lp)) * dloss[n];
  }
};

// --- launchers ---

inline constexpr int64_t kCtcWork = 32;  // per state, in element operations

template <class Backend> void CtcKernels<Backend>::forward(const Ctc& c) {
  using Check = decltype(Backend::check("", c.labels));
  Backend::run("ctc_loss", c.labels, c.labels.numel(), 1,
               CtcLabels<Check>{pointer<int64_t>(c.labels), pointer<int64_t>(c.targets),
                                pointer<int64_t>(c.starts), pointer<int64_t>(c.input_lengths),
                                pointer<int64_t>(c.target_lengths), c.T(), c.C(), c.L(),
                                c.targets.numel(), c.blank, Backend::check("ctc_loss", c.labels)});
  const auto run = [&]<class T>(TypeTag<T>) {
    const CtcView<T> view(c);
    for (int64_t t = 0; t < c.T(); ++t) {
      Backend::run("ctc_loss", c.alpha, c.N() * c.L(), kCtcWork,
                   CtcWays<T, false>{view, view.alpha, t});
    }
    Backend::run("ctc_loss", c.loss, c.N(), kCtcWork, CtcLoss<T>{view});
  };
  c.loss.dtype() == kFloat64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

template <class Backend>
void CtcKernels<Backend>::backward(const Tensor& sums, const Tensor& beta, const Tensor& dloss,
                                   const Ctc& c, bool zero_infinity) {
  const auto run = [&]<class T>(TypeTag<T>) {
    const CtcView<T> view(c);
    T *b = pointer<T>(beta), *to = pointer<T>(sums);
    for (int64_t t = c.T() - 1; t >= 0; --t) {
      Backend::run("ctc_loss", sums, c.N() * c.L(), kCtcWork, CtcWays<T, true>{view, b, t});
    }
    Backend::run("ctc_loss", sums, c.T() * c.N(), kCtcWork * c.L(), CtcSums<T>{view, to, b});
    Backend::run("ctc_loss", sums, sums.numel(), kCtcWork,
                 CtcGradient<T>{view, to, pointer<T>(dloss), zero_infinity});
  };
  sums.dtype() == kFloat64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

}  // namespace taper::v0::kernels
