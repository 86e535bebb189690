// Optimizer updates (in place): one launch for all parameters of a call (double ones have their
// own). The learning rate and the step count are read from device memory, so that a captured graph
// replays them.
#include "framework/kernels/optim.h"

#include <type_traits>

#include "framework/kernels/cuda/each.cuh"
#include "framework/kernels/cuda/tensor_list.cuh"
#include "framework/kernels/optim_rules.h"

namespace taper::kernels::cuda {
namespace {

using Chunk = ListChunk<kUpdateRoles>;

// kVec elements from i on.
template <class C, int kVec, class Step>
__device__ void update_at(const Chunk& chunk, int64_t i, bool master, const Step& step) {
  Vec<C, kVec> p = load_floats<C, kVec>(chunk.data[kParam], chunk.dtype[kParam], i);
  const Vec<C, kVec> grad = load_floats<C, kVec>(chunk.data[kGrad], chunk.dtype[kGrad], i);
  Vec<C, kVec> s[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    s[k] = {};
    const C* state = static_cast<const C*>(chunk.data[kState1 + k]);
    if (state) s[k] = load_vec<C, kVec>(state + i);
  }
  if (master) {
    const Vec<C, kVec> low = load_floats<C, kVec>(chunk.data[kLow], chunk.dtype[kLow], i);
    const bool is_bfloat16 = chunk.dtype[kLow] == kBFloat16;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const C rounded = is_bfloat16 ? C(BFloat16(float(p.at[j]))) : C(Half(float(p.at[j])));
      p.at[j] = renewed(p.at[j], rounded, low.at[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kVec; ++j) step(p.at[j], grad.at[j], s[0].at[j], s[1].at[j], s[2].at[j]);
  store_floats(chunk.data[kParam], chunk.dtype[kParam], i, p);
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    C* state = static_cast<C*>(chunk.data[kState1 + k]);
    if (state) store_vec(state + i, s[k]);
  }
  if (chunk.data[kLow]) store_floats(chunk.data[kLow], chunk.dtype[kLow], i, p);
}

template <class C, class Options> struct UpdateChunk {
  Options options;
  const double* lr;
  const double* step;
  const float* found_inf;

  __device__ void operator()(const Chunk& chunk) const {
    if (found_inf && *found_inf != 0) return;
    using Step = decltype(prepare<C>(options, 0., 0.));
    __shared__ Step shared;
    if (threadIdx.x == 0) shared = prepare<C>(options, *lr, step ? *step : 1);
    __syncthreads();
    const Step rule = shared;
    const bool master = has_master(chunk);
    each_in_chunk(chunk, [&](int64_t i, auto vec) {
      update_at<C, decltype(vec)::value>(chunk, i, master, rule);
    });
  }
};

}  // namespace

void update(const std::vector<Update>& updates, const StepScalars& scalars,
            const UpdateRule& rule) {
  const taper::cuda::Launch on(scalars.lr);
  const double* lr = pointer<const double>(scalars.lr);
  const double* step = pointer<const double>(scalars.step);
  const float* found_inf = pointer<const float>(scalars.found_inf);
  std::visit(
      [&](const auto& options) {
        using Options = std::decay_t<decltype(options)>;
        for_each_chunk("optimizer step", on, entries_of(updates, false),
                       UpdateChunk<float, Options>{options, lr, step, found_inf});
        for_each_chunk("optimizer step", on, entries_of(updates, true),
                       UpdateChunk<double, Options>{options, lr, step, found_inf});
      },
      rule);
}

void count_step(const Tensor& step, const Tensor& found_inf) {
  Each::run("optimizer step", step, 1, 1,
            CountStep{pointer<double>(step), pointer<const float>(found_inf)});
}

}  // namespace taper::kernels::cuda
