// Reductions of a dense [outer, n, inner] tensor over n; out is overwritten. Half types and float
// accumulate in float, double in double, integers and bool in int64. If there are few results, n is
// split into chunks, which depend only on sizes and dtype; a second launch combines their partial
// results.
#include "framework/kernels/reduce/reduce.cuh"

#include <cassert>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

template <class Op, class T>
void launch(const char* name, ReduceArgs<Op, T> args, const Launch& on) {
  constexpr int V = kVec<T>;
  const bool whole = (args.inner == 1 ? args.n : args.inner) % V == 0;
  args.aligned = whole && is_aligned(args.x, sizeof(Vec<T, V>));
  const auto grid = [](int64_t jobs) { return unsigned(std::min(jobs, kMaxPiece)); };
  const bool short_rows = args.n <= (V > 4 && args.outer >= kManyRows ? 4 : 1) * kShortRow;
  if (args.inner == 1 && short_rows) {
    const int lanes = power_of_two_from(ceil_div(args.n, V), kWarp);
    const int64_t jobs = ceil_div(args.outer, kThreads / lanes);
    on.run(reduce_rows_kernel<Op, T>, {grid(jobs), kThreads}, args, lanes);
  } else if (args.inner == 1) {
    on.run(reduce_long_rows_kernel<Op, T>, {grid(args.outer * args.chunks), kThreads}, args);
  } else {
    const ColumnBlock block = column_block({args.outer, args.n, args.inner}, V);
    const int64_t jobs = args.outer * args.chunks * block.tiles;
    on.run(reduce_columns_kernel<Op, T>, {grid(jobs), block.width * block.height}, args, block);
  }
  on.check(name);
}

template <class T, class Op>
void run(const char* name, const Op& op, const void* x, const Tensor& out, ReduceSizes sizes,
         const Launch& on) {
  using Acc = typename Op::Acc;
  using Rest = std::decay_t<decltype(rest_of(op))>;
  const auto [outer, n, inner] = sizes;
  const int64_t chunk = chunk_of(sizes, kVec<T>), chunks = n == 0 ? 1 : ceil_div(n, chunk);
  ReduceArgs<Op, T> args{.op = op,
                         .x = static_cast<const T*>(x),
                         .outer = outer,
                         .n = n,
                         .inner = inner,
                         .chunk = chunk,
                         .chunks = chunks,
                         .out = pointer<char>(out),
                         .out_dtype = out.dtype()};
  if (chunks == 1) return launch(name, args, on);

  const Scratch partials(size_t(outer * chunks * inner) * sizeof(Acc), on.device);
  Acc* const parts = args.partials = partials.as<Acc>();
  launch(name, args, on);
  launch<Rest, Acc>(name,
                    {.op = rest_of(op),
                     .x = parts,
                     .outer = outer,
                     .n = chunks,
                     .inner = inner,
                     .chunk = chunks,
                     .chunks = 1,
                     .out = args.out,
                     .out_dtype = args.out_dtype},
                    on);
}

// Calls f(tag, elements). Floating types and int64 are passed directly, other integers as int64.
template <class F> void visit_elements(const Tensor& x, const Launch& on, F&& f) {
  if (is_floating_point(x.dtype())) {
    return visit_floating(x.dtype(), [&](auto tag) { f(tag, x.data_ptr()); });
  }
  if (x.dtype() == kInt64) return f(TypeTag<int64_t>{}, x.data_ptr());
  const Scratch elements(size_t(x.numel()) * sizeof(int64_t), on.device);
  copy(make_iterator(elements.data(), kInt64, x.data_ptr(), x.dtype(), x.numel(), on.device));
  f(TypeTag<int64_t>{}, elements.data());
}

void reduce_truth(ReductionOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes,
                  const Launch& on) {
  const auto go = [&]<class T>(TypeTag<T>, const void* elements) {
    if (op == ReductionOp::kAll) return run<T>("all", Truth<true>{}, elements, out, sizes, on);
    run<T>("any", Truth<false>{}, elements, out, sizes, on);
  };
  if (x.dtype() == kBool) return go(TypeTag<bool>{}, x.data_ptr());
  visit_elements(x, on, go);
}

}  // namespace

void reduce(ReductionOp op, const Tensor& out, const Tensor& x, ReduceSizes sizes, ReduceMap map) {
  assert(x.is_contiguous() && out.is_contiguous());
  if (sizes.outer == 0 || sizes.inner == 0) return;
  const Launch on(x);
  if (op == ReductionOp::kAll || op == ReductionOp::kAny)
    return reduce_truth(op, out, x, sizes, on);
  const char* name = name_of(op);
  if (op == ReductionOp::kSum && x.dtype() == kBool) {
    return run<bool>(name, Sum<int64_t>{{}, 1}, x.data_ptr(), out, sizes, on);
  }
  visit_elements(x, on, [&]<class T>(TypeTag<T>, const void* elements) {
    using C = Compute<T>;
    const auto by = [&](const auto& of) { run<T>(name, of, elements, out, sizes, on); };
    if (map == ReduceMap::kNonzero) return by(Mapped<Sum<int64_t>>{{{}, 1}, map});
    if constexpr (std::is_floating_point_v<C>) {
      const bool largest = op == ReductionOp::kAmax;
      if (map != ReduceMap::kNone && largest) return by(Mapped<Extreme<C, true>>{{}, map});
      if (map != ReduceMap::kNone) return by(Mapped<Sum<C>>{{{}, C(1)}, map});
    }
    switch (op) {
      case ReductionOp::kSum: return by(Sum<C>{{}, C(1)});
      case ReductionOp::kMean: return by(Sum<C>{{}, C(sizes.n)});
      case ReductionOp::kProd: return by(Product<C>{});
      case ReductionOp::kAmax: return by(Extreme<C, true>{});
      default: return by(Extreme<C, false>{});
    }
  });
}

void arg_reduce(bool largest, const Tensor& out, const Tensor& values, const Tensor& x,
                ReduceSizes sizes) {
  assert(x.is_contiguous() && out.is_contiguous());
  if (sizes.outer == 0 || sizes.inner == 0) return;
  const Launch on(x);
  visit_elements(x, on, [&]<class T>(TypeTag<T>, const void* elements) {
    const ArgExtreme<Compute<T>> op{largest, pointer<char>(values), x.dtype()};
    run<T>(largest ? "argmax" : "argmin", op, elements, out, sizes, on);
  });
}

void logsumexp(const Tensor& out, const Tensor& x, ReduceSizes sizes) {
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    run<T>("logsumexp", LogSumExp<Compute<T>>{}, x.data_ptr(), out, sizes, on);
  });
}

void variance(bool root, const Tensor& out, const Tensor& x, ReduceSizes sizes, double freedom) {
  assert(x.is_contiguous() && out.is_contiguous());
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const Variance op{double(sizes.n), freedom, root};
    run<T>(root ? "std" : "var", op, x.data_ptr(), out, sizes, on);
  });
}

}  // namespace taper::v0::kernels::cuda
