// Optimizer updates (in place): one pass over memory, all parameters of a call shared out together
// in chunks. Half parameters are computed in float and rounded once.
#include "framework/kernels/optim.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "framework/kernels/cpu/convert.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/simd.h"

namespace taper::kernels::cpu {
namespace {

// Elements of a chunk: what is converted stays in the first cache.
constexpr int64_t kChunk = 2048;

double number_of(const Tensor& x) { return *x.data<double>(); }

// d = grad + weight_decay p; buf = momentum buf + d; p -= lr (nesterov ? d + momentum buf : buf)
template <class T> struct SgdStep {
  T lr, momentum, weight_decay;
  bool nesterov;

  void operator()(T& p, T grad, T& buf, T&) const {
    const T d = grad + weight_decay * p;
    buf = momentum * buf + d;
    p -= lr * (nesterov ? d + momentum * buf : buf);
  }
};

// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
template <class T> struct AdamStep {
  T beta1, beta2, rest1, rest2;  // rest: 1 - beta, before it is rounded to T
  T eps, step_size, root2;
  T keep;   // what weight decay leaves of p (AdamW)
  T decay;  // what it adds to the gradient (Adam)

  void operator()(T& p, T grad, T& m, T& v) const {
    const T g = grad + decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p = p * keep - step_size * (m / (std::sqrt(v) / root2 + eps));
  }
};

// Null states are zeros that are not kept.
template <class T, class Step>
TAPER_CLONES void update_span(const Step& step, T* p, const T* grad, T* state1, T* state2,
                              int64_t n) {
  const Step rule = step;
  if (state1 && state2) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) rule(p[i], grad[i], state1[i], state2[i]);
    return;
  }
  if (state1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T other = 0;
      rule(p[i], grad[i], state1[i], other);
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    T buf = 0, other = 0;
    rule(p[i], grad[i], buf, other);
  }
}

char* at(const Tensor& x, int64_t i) {
  return static_cast<char*>(x.data_ptr()) + i * int64_t(x.element_size());
}

template <class T, class Step>
void update_chunk(const Update& u, int64_t first, int64_t n, const Step& step) {
  T* state1 = u.state1.defined() ? reinterpret_cast<T*>(at(u.state1, first)) : nullptr;
  T* state2 = u.state2.defined() ? reinterpret_cast<T*>(at(u.state2, first)) : nullptr;
  void* p = at(u.param, first);
  const void* grad = at(u.grad, first);
  if (u.param.dtype() == dtype_of<T>) {
    return update_span(step, static_cast<T*>(p), static_cast<const T*>(grad), state1, state2, n);
  }
  T wide_p[kChunk], wide_grad[kChunk];
  const ConvertFn widen = converter(u.param.dtype(), dtype_of<T>);
  widen(p, 1, wide_p, 1, n);
  widen(grad, 1, wide_grad, 1, n);
  update_span(step, wide_p, static_cast<const T*>(wide_grad), state1, state2, n);
  converter(dtype_of<T>, u.param.dtype())(wide_p, 1, p, 1, n);
}

// Chunks are counted through all parameters; chunk_end[i] is where parameter i's end.
template <class MakeStep> void update_all(const std::vector<Update>& updates, MakeStep make_step) {
  std::vector<int64_t> chunk_end;
  int64_t chunks = 0;
  for (const Update& u : updates) {
    chunks += (u.param.numel() + kChunk - 1) / kChunk;
    chunk_end.push_back(chunks);
  }
  const auto narrow = make_step(TypeTag<float>{});
  const auto wide = make_step(TypeTag<double>{});
  parallel_for(chunks, grain_of(4 * kChunk), [&](int64_t begin, int64_t end) {
    auto it = std::upper_bound(chunk_end.begin(), chunk_end.end(), begin);
    for (int64_t c = begin; c < end; ++c) {
      while (*it <= c) ++it;
      const Update& u = updates[size_t(it - chunk_end.begin())];
      const int64_t base = it == chunk_end.begin() ? 0 : *(it - 1);
      const int64_t first = (c - base) * kChunk;
      const int64_t n = std::min(kChunk, u.param.numel() - first);
      if (u.param.dtype() == kFloat64) {
        update_chunk<double>(u, first, n, wide);
      } else {
        update_chunk<float>(u, first, n, narrow);
      }
    }
  });
}

// 1 - beta^t, without cancellation.
double correction(double beta, double t) { return -std::expm1(t * std::log(beta)); }

}  // namespace

void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args) {
  const double rate = number_of(lr);
  update_all(updates, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return SgdStep<T>{T(rate), T(args.momentum), T(args.weight_decay), args.nesterov};
  });
}

void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args) {
  const double rate = number_of(lr), t = number_of(step), weight_decay = args.weight_decay;
  update_all(updates, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return AdamStep<T>{T(args.beta1),
                       T(args.beta2),
                       T(1 - args.beta1),
                       T(1 - args.beta2),
                       T(args.eps),
                       T(rate / correction(args.beta1, t)),
                       T(std::sqrt(correction(args.beta2, t))),
                       T(args.decoupled ? 1 - rate * weight_decay : 1),
                       T(args.decoupled ? 0 : weight_decay)};
  });
}

}  // namespace taper::kernels::cpu
