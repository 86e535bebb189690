// Optimizer updates (in place): one launch for all parameters of a call (double ones have their
// own). The learning rate and the step count are read from device memory, so that a captured graph
// replays them.
#include "framework/kernels/optim/optim.h"

#include <type_traits>

#include "framework/kernels/optim/optim_rules.h"
#include "framework/kernels/optim/tensor_list.cuh"
#include "framework/kernels/per_element.cuh"

namespace taper::kernels::cuda {
namespace {

using Chunk = ListChunk<kUpdateRoles>;

// kVec neighbours of a chunk's tensors.
template <class C, int kVec> struct Elements {
  Vec<C, kVec> p, grad, s[3], low;

  __device__ void load(const Chunk& chunk, int64_t i) {
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
  template <class Step> __device__ void update(const Chunk& chunk, const Step& step) {
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
  __device__ void store(const Chunk& chunk, int64_t i) const {
    store_floats(chunk.data[kParam], chunk.dtype[kParam], i, p);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      C* state = static_cast<C*>(chunk.data[kState1 + k]);
      if (state) store_vec(state + i, s[k]);
    }
    if (chunk.data[kLow]) store_floats(chunk.data[kLow], chunk.dtype[kLow], i, p);
  }
};

template <class C, class Options> struct UpdateChunk {
  using Step = decltype(prepare<C>(Options(), 0., 0.));
  Options options;
  const double* lr;
  double* step;
  const float* found_inf;
  bool advances;  // this is step + 1
  bool counts;    // the block that comes last stores it; the word behind `step` counts blocks

  __device__ void operator()(const Chunk& chunk) const {
    if (found_inf && *found_inf != 0) return;
    __shared__ Step shared;
    __shared__ double number;
    const int64_t middle = begin_of_rest(chunk);
    int64_t i = chunk.begin + threadIdx.x * 4;
    Elements<C, 4> here;
    if (i < middle) here.load(chunk, i);  // on its way while the rule is prepared
    if (threadIdx.x == 0) {
      number = step ? *step + (advances ? 1 : 0) : 1;
      shared = prepare<C>(options, *lr, number);
    }
    __syncthreads();
    const Step rule = shared;
    if (counts && threadIdx.x == kThreads - 1) {
      __threadfence();
      const unsigned last = gridDim.x - 1;
      if (atomicInc(reinterpret_cast<unsigned*>(step + 1), last) == last) *step = number;
    }
    while (i < middle) {
      here.update(chunk, rule);
      here.store(chunk, i);
      i += kThreads * 4;
      if (i < middle) here.load(chunk, i);
    }
    for (i = middle + threadIdx.x; i < chunk.end; i += kThreads) {
      Elements<C, 1> one;
      one.load(chunk, i);
      one.update(chunk, rule);
      one.store(chunk, i);
    }
  }
};

}  // namespace

void update(const std::vector<Update>& updates, const StepScalars& scalars,
            const UpdateRule& rule) {
  const taper::cuda::Launch on(scalars.lr);
  const auto floats = entries_of(updates, false), doubles = entries_of(updates, true);
  const auto has_work = [](const auto& entries) {
    return std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.numel > 0; });
  };
  const bool one_launch = has_work(floats) != has_work(doubles) &&
                          floats.size() + doubles.size() <= size_t(kMany<kUpdateRoles>);
  const bool counts = scalars.advances && one_launch;
  double* step = pointer<double>(scalars.step);
  const float* found_inf = pointer<const float>(scalars.found_inf);
  std::visit(
      [&](const auto& options) {
        using Options = std::decay_t<decltype(options)>;
        const auto run = [&](auto tag, const auto& entries) {
          using C = typename decltype(tag)::type;
          const UpdateChunk<C, Options> f{
              options, pointer<const double>(scalars.lr), step, found_inf, scalars.advances,
              counts};
          for_each_chunk("optimizer step", on, entries, f);
        };
        run(TypeTag<float>(), floats);
        run(TypeTag<double>(), doubles);
      },
      rule);
  if (scalars.advances && !counts) {
    Each::run("optimizer step", scalars.step, 1, 1, CountStep{step, found_inf});
  }
}

}  // namespace taper::kernels::cuda
