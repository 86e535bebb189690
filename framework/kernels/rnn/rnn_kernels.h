// Recurrent steps: one thread computes one hidden unit. Half types compute in float.
#pragma once

#include <type_traits>

#include "framework/base/host_device.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/rnn/rnn.h"

namespace taper::v0::kernels {

// Access to the gates of one unit of one row in a tensor [B, count * H].
template <class T> struct UnitGates {
  T* first;
  int64_t hidden;
  TAPER_HD UnitGates(T* gates, int64_t row, int64_t unit, int64_t H, int count)
      : first(gates + row * count * H + unit), hidden(H) {}
  TAPER_HD AccumulateType<std::remove_const_t<T>> operator[](int k) const {
    return first[k * hidden];
  }
  template <class... C> TAPER_HD void set(C... values) const {
    int64_t at = -hidden;
    ((first[at += hidden] = T(values)), ...);
  }
};

// Return the gradient with respect to the argument of the function, from its result y.
template <class C> TAPER_HD C through_sigmoid(C dy, C y) { return dy * y * (C(1) - y); }
template <class C> TAPER_HD C through_tanh(C dy, C y) { return dy * (C(1) - y * y); }

// Computes the new state. LSTM: c = f * state + i * g, h = o * tanh(c). GRU: n = tanh(gx_n + r *
// gh_n), h = (1 - z) * n + z * state.
template <class T, bool kLstm> struct StepForward {
  int64_t H;
  T *h, *c, *gates;
  const T *gx, *gh, *state;

  TAPER_HD void operator()(int64_t u) const { step(u / H, u % H); }
  TAPER_HD void step(int64_t row, int64_t unit) const {
    using C = AccumulateType<T>;
    const int64_t u = row * H + unit;
    const UnitGates<const T> x(gx, row, unit, H, 3 + kLstm), y(gh, row, unit, H, 3 + kLstm);
    const UnitGates<T> kept(gates, row, unit, H, 4);
    const C before = C(state[u]), a = math::sigmoid(x[0] + y[0]), b = math::sigmoid(x[1] + y[1]);
    if constexpr (kLstm) {
      const C g = math::tanh(x[2] + y[2]), o = math::sigmoid(x[3] + y[3]);
      const C after = b * before + a * g;
      c[u] = T(after);
      h[u] = T(o * math::tanh(after));
      kept.set(a, b, g, o);
    } else {
      const C n = math::tanh(x[2] + a * y[2]);
      h[u] = T(n + b * (before - n));
      kept.set(a, b, n, y[2]);
    }
  }
};

template <class T, bool kLstm> struct StepBackward {
  int64_t H;
  T *dgx, *dgh, *dstate;
  const T *dh, *dc, *gates, *c, *state;

  TAPER_HD void operator()(int64_t u) const { step(u / H, u % H); }
  TAPER_HD void step(int64_t row, int64_t unit) const {
    using C = AccumulateType<T>;
    const int64_t u = row * H + unit;
    const UnitGates<const T> gate(gates, row, unit, H, 4);
    const UnitGates<T> dx(dgx, row, unit, H, 3 + kLstm), dy(dgh, row, unit, H, 3 + kLstm);
    const C before = C(state[u]), d = C(dh[u]);
    if constexpr (kLstm) {
      const C i = gate[0], f = gate[1], g = gate[2], o = gate[3], bent = math::tanh(C(c[u]));
      const C dafter = C(dc[u]) + through_tanh(d * o, bent);
      dx.set(through_sigmoid(dafter * g, i), through_sigmoid(dafter * before, f),
             through_tanh(dafter * i, g), through_sigmoid(d * bent, o));
      dstate[u] = T(dafter * f);
    } else {
      const C r = gate[0], z = gate[1], n = gate[2], dn = through_tanh(d * (C(1) - z), n);
      const C dr = through_sigmoid(dn * gate[3], r), dz = through_sigmoid(d * (before - n), z);
      dx.set(dr, dz, dn);
      dy.set(dr, dz, dn * r);
      dstate[u] = T(d * z);
    }
  }
};

// Runs f for every unit of state [B, H], one thread per unit. The CPU specializes this for vectors.
template <class Backend> struct Units {
  template <class F> static void run(const char* op, const Tensor& state, const F& f) {
    Backend::run(op, state, state.numel(), 1, f);
  }
};

// Runs Functor<T, lstm>{H, operands...} for every unit of state [B, H], which has dtype T.
template <class Backend, template <class, bool> class Functor, class... Operands>
void run_units(const char* op, bool lstm, const Tensor& state, const Operands&... operands) {
  visit_floating(state.dtype(), [&]<class T>(TypeTag<T>) {
    const int64_t H = state.size(1);
    if (lstm) return Units<Backend>::run(op, state, Functor<T, true>{H, pointer<T>(operands)...});
    Units<Backend>::run(op, state, Functor<T, false>{H, pointer<T>(operands)...});
  });
}

template <class Backend>
void RnnKernels<Backend>::forward(bool lstm, const CellStep& step, const Tensor& gx,
                                  const Tensor& gh, const Tensor& state) {
  run_units<Backend, StepForward>("rnn_cell", lstm, state, step.h, step.c, step.gates, gx, gh,
                                  state);
}

template <class Backend>
void RnnKernels<Backend>::backward(bool lstm, const CellGradients& out, const Tensor& dh,
                                   const Tensor& dc, const CellStep& step, const Tensor& state) {
  run_units<Backend, StepBackward>("rnn_cell_backward", lstm, state, out.dgx, out.dgh, out.dstate,
                                   dh, dc, step.gates, step.c, state);
}

}  // namespace taper::v0::kernels
