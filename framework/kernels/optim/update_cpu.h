// Optimizer updates on the CPU, in one pass over memory. The chunks of all parameters are
// distributed over the threads. Elements other than float (or double) are converted in the L1
// cache.
#pragma once

#include <type_traits>

#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/optim/formula.h"
#include "framework/kernels/optim/tensor_list_cpu.h"
#include "framework/kernels/optim/update.h"

namespace taper::v0::kernels {
namespace cpu {

template <class C> struct Spans {
  C* p;
  const C* grad;
  C* states[3];
};

template <int kStates, class C, class Step>
TAPER_CLONES void update_span(const Step& step, const Spans<C>& spans, int64_t n) {
  const Step rule = step;
  C* const p = spans.p;
  const C* const grad = spans.grad;
  C *const s1 = spans.states[0], *const s2 = spans.states[1], *const s3 = spans.states[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    C none1 = 0, none2 = 0, none3 = 0;
    if constexpr (kStates == 0) rule(p[i], grad[i], none1, none2, none3);
    if constexpr (kStates == 1) rule(p[i], grad[i], s1[i], none2, none3);
    if constexpr (kStates == 2) rule(p[i], grad[i], s1[i], s2[i], none3);
    if constexpr (kStates == 3) rule(p[i], grad[i], s1[i], s2[i], s3[i]);
  }
}

// Selects the loop for the number of states.
template <int kStates, int kMax, class C, class Step>
void update_states(int states, const Step& step, const Spans<C>& spans, int64_t n) {
  if constexpr (kStates < kMax) {
    if (states > kStates) return update_states<kStates + 1, kMax>(states, step, spans, n);
  }
  update_span<kStates>(step, spans, n);
}

template <class C> void renew_master(C* p, const UpdateChunk& chunk, int64_t n) {
  const DType half = chunk.dtype[kLow];
  uint16_t narrow[kListChunk];
  C rounded[kListChunk], low[kListChunk];
  converter(dtype_of<C>, half)(p, 1, narrow, 1, n);
  converter(half, dtype_of<C>)(narrow, 1, rounded, 1, n);
  load_span(chunk, kLow, low);
  for (int64_t i = 0; i < n; ++i) p[i] = renewed(p[i], rounded[i], low[i]);
}

template <class C, class Rule, class Step>
void update_chunk(const UpdateChunk& chunk, const Step& step) {
  const int64_t n = chunk.end - chunk.begin;
  C wide_p[kListChunk], wide_grad[kListChunk];
  Spans<C> spans{load_span(chunk, kParam, wide_p), load_span(chunk, kGrad, wide_grad), {}};
  int states = 0;
  for (const UpdateRole role : {kState1, kState2, kState3}) {
    if (chunk.data[role]) spans.states[states++] = static_cast<C*>(span_of(chunk, role));
  }
  if (has_master(chunk)) renew_master(spans.p, chunk, n);
  update_states<Rule::kMinStates, Rule::kMaxStates>(states, step, spans, n);
  if (spans.p == wide_p) store_span(wide_p, chunk, kParam);
  if (chunk.data[kLow]) store_span(spans.p, chunk, kLow);
}

template <class C, class Rule>
void update_all(const std::vector<Update>& updates, const Rule& rule, double lr, double step) {
  const auto step_of = prepare<C>(rule, lr, step);
  for_each_chunk(entries_of(updates, std::is_same_v<C, double>),
                 [&](const UpdateChunk& chunk) { update_chunk<C, Rule>(chunk, step_of); });
}

}  // namespace cpu

template <class Rule>
void OnCpu::update(const std::vector<Update>& updates, const StepScalars& scalars,
                   const Rule& rule) {
  if (scalars.found_inf.defined() && *scalars.found_inf.data<float>() != 0) return;
  const double lr = *scalars.lr.data<double>();
  if (scalars.advances) *static_cast<double*>(scalars.step.data_ptr()) += 1;
  const double step = scalars.step.defined() ? *scalars.step.data<double>() : 1;
  cpu::update_all<float>(updates, rule, lr, step);
  cpu::update_all<double>(updates, rule, lr, step);
}

}  // namespace taper::v0::kernels
