// Each block runs the function on one chunk and reduces its values in a fixed order. One more block
// reduces the results of the chunks, in double.
#include "framework/kernels/optim/foreach.h"

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/optim/tensor_list.cuh"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels::cuda {
namespace {

template <class R> struct ChunkJob {
  R rule;
  double* parts;  // the reduced values of the chunks

  __device__ void operator()(const ListChunk<2>& chunk) const {
    chunk.dtype[0] == kFloat64 ? run<double>(chunk) : run<float>(chunk);
  }
  template <class C> __device__ void run(const ListChunk<2>& chunk) const {
    const Joiner<R::kJoin> join;
    const C number = C(rule.prepare());
    C joined = 0;
    each_in_chunk(chunk, [&](int64_t i, auto width) {
      constexpr int kVec = decltype(width)::value;
      Vec<C, kVec> x{}, y{};
      if constexpr (R::kReads) x = load_floats<C, kVec>(chunk.data[0], chunk.dtype[0], i);
      if constexpr (R::kPair) y = load_floats<C, kVec>(chunk.data[1], chunk.dtype[1], i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) joined = join(joined, rule.step(x.at[j], y.at[j], number));
      if constexpr (R::kWrites) store_floats(chunk.data[0], chunk.dtype[0], i, x);
    });
    if constexpr (R::kJoin != Join::kNone) {
      joined = row_reduce<kThreads>(joined, C(0), join);
      if (threadIdx.x == 0) parts[chunk.number] = double(joined);
    }
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const double* parts, int64_t n, F join, Root root) {
  begin_kernel();
  double total = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) total = join(total, parts[i]);
  total = row_reduce<kThreads>(total, 0.0, join);
  if (threadIdx.x == 0) root(total);
}

}  // namespace

int chunk_of(int64_t numel) { return list_chunk(numel); }

void run_values(const char* op, int device, const std::vector<ListEntry<2>>& entries,
                const ListRule& any_rule, int chunk, double* values) {
  const taper::cuda::Launch on(device);
  const auto run = [&](const auto& rule) {
    using R = std::decay_t<decltype(rule)>;
    for_each_chunk(op, on, entries, chunk, ChunkJob<R>{rule, values});
  };
  std::visit(run, any_rule);
}

void join_values(const char* op, int device, const double* values, int64_t n,
                 const ListRule& any_rule, const Root& root) {
  const taper::cuda::Launch on(device);
  const auto join = [&](const auto& rule) {
    using R = std::decay_t<decltype(rule)>;
    if constexpr (R::kJoin != Join::kNone) {
      on.run(join_kernel<Joiner<R::kJoin>>, {1, kThreads}, values, n, Joiner<R::kJoin>(), root);
      on.check(op);
    }
  };
  std::visit(join, any_rule);
}

void run_list(const char* op, int device, const std::vector<ListEntry<2>>& entries,
              const ListRule& rule, const Root& root) {
  const taper::cuda::DeviceGuard guard(device);
  const int chunk = list_chunk(numel_of(entries));
  const int64_t n = count_chunks(entries, chunk);
  const taper::cuda::Scratch memory(size_t(n + 1) * sizeof(double), device);
  run_values(op, device, entries, rule, chunk, memory.as<double>());
  join_values(op, device, memory.as<double>(), n, rule, root);
}

}  // namespace taper::v0::kernels::cuda
