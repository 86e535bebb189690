// Optimizer updates on the GPU: one launch for all parameters of a call (float64 parameters have a
// separate one).
#pragma once

#include <algorithm>

#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/optim/formula.h"
#include "framework/kernels/optim/tensor_list.cuh"
#include "framework/kernels/optim/update.h"

namespace taper::v0::kernels {
namespace cuda {

// Holds kVec adjacent elements of each tensor of a chunk.
template <class C, int kVec> struct Elements {
  Vec<C, kVec> p, grad, s[3], low;

  __device__ void load(const UpdateChunk& chunk, int64_t i) {
    p = load_floats<C, kVec>(chunk.data[kParam], chunk.dtype[kParam], i);
    grad = load_floats<C, kVec>(chunk.data[kGrad], chunk.dtype[kGrad], i);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      s[k] = {};
      const C* state = static_cast<const C*>(chunk.data[kState1 + k]);
      if (state) s[k] = load_vec<C, kVec>(state + i);
    }
    if (has_master(chunk)) {
      low = load_floats<C, kVec>(chunk.data[kLow], chunk.dtype[kLow], i);
    }
  }
  template <class Step> __device__ void update(const UpdateChunk& chunk, const Step& step) {
    if (has_master(chunk)) {
      const bool is_bfloat16 = chunk.dtype[kLow] == kBFloat16;
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C rounded = is_bfloat16 ? C(BFloat16(float(p.at[j]))) : C(Half(float(p.at[j])));
        p.at[j] = renewed(p.at[j], rounded, low.at[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kVec; ++j) step(p.at[j], grad.at[j], s[0].at[j], s[1].at[j], s[2].at[j]);
  }
  __device__ void store(const UpdateChunk& chunk, int64_t i) const {
    store_floats(chunk.data[kParam], chunk.dtype[kParam], i, p);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      C* state = static_cast<C*>(chunk.data[kState1 + k]);
      if (state) store_vec(state + i, s[k]);
    }
    if (chunk.data[kLow]) store_floats(chunk.data[kLow], chunk.dtype[kLow], i, p);
  }
};

template <class C, class Rule> struct UpdateJob {
  using Step = decltype(prepare<C>(Rule(), 0., 0.));
  Rule rule;
  const double* lr;
  double* step;
  const float* found_inf;
  bool advances;  // the number of this step is *step + 1
  bool counts;    // the last block to finish stores the step; the word after `step` counts finished
                  // blocks

  __device__ void operator()(const UpdateChunk& chunk) const {
    if (found_inf && *found_inf != 0) return;
    __shared__ Step shared;
    __shared__ double number;
    const int64_t middle = begin_of_rest(chunk);
    int64_t i = chunk.begin + threadIdx.x * 4;
    Elements<C, 4> here;
    if (i < middle) here.load(chunk, i);  // loads overlap with the preparation of the rule
    if (threadIdx.x == 0) {
      number = step ? *step + (advances ? 1 : 0) : 1;
      shared = prepare<C>(rule, *lr, number);
    }
    __syncthreads();
    const Step own = shared;
    if (counts && threadIdx.x == kThreads - 1) {
      __threadfence();
      const unsigned last = gridDim.x - 1;
      if (atomicInc(reinterpret_cast<unsigned*>(step + 1), last) == last) *step = number;
    }
    while (i < middle) {
      here.update(chunk, own);
      here.store(chunk, i);
      i += kThreads * 4;
      if (i < middle) here.load(chunk, i);
    }
    for (i = middle + threadIdx.x; i < chunk.end; i += kThreads) {
      Elements<C, 1> one;
      one.load(chunk, i);
      one.update(chunk, own);
      one.store(chunk, i);
    }
  }
};

}  // namespace cuda

template <class Rule>
void OnGpu::update(const std::vector<Update>& updates, const StepScalars& scalars,
                   const Rule& rule) {
  const taper::cuda::Launch on(scalars.lr);
  const auto floats = entries_of(updates, false), doubles = entries_of(updates, true);
  const auto has_work = [](const auto& entries) {
    return std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.numel > 0; });
  };
  const bool one_launch = has_work(floats) != has_work(doubles) &&
                          floats.size() + doubles.size() <= size_t(cuda::kMany<kUpdateRoles>);
  const bool counts = scalars.advances && one_launch;
  double* step = pointer<double>(scalars.step);
  const float* found_inf = pointer<const float>(scalars.found_inf);
  const auto run = [&](auto tag, const auto& entries) {
    const cuda::UpdateJob<typename decltype(tag)::type, Rule> f{
        rule, pointer<const double>(scalars.lr), step, found_inf, scalars.advances, counts};
    cuda::for_each_chunk("optimizer step", on, entries, cuda::list_chunk(cuda::numel_of(entries)),
                         f);
  };
  run(TypeTag<float>(), floats);
  run(TypeTag<double>(), doubles);
  if (scalars.advances && !counts) {
    cuda::Backend::run("optimizer step", scalars.step, 1, 1, CountStep{step, found_inf});
  }
}

}  // namespace taper::v0::kernels
