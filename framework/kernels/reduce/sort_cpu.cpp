// Order, running sums and products of rows (`=`): one thread a row, from its first element to its
// last.
#include "framework/kernels/reduce/sort.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "framework/kernels/dispatch.h"
#include "framework/kernels/parallel_cpu.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::inline v0::kernels::cpu {

void argsort(const Tensor& order, const Tensor& keys, int64_t n) {
  const int64_t work = n * std::bit_width(uint64_t(n));
  parallel_each(order.numel() / n, work, [&](int64_t r) {
    int64_t* row = pointer<int64_t>(order) + r * n;
    const int64_t* key = pointer<const int64_t>(keys) + r * n;
    std::iota(row, row + n, 0);
    std::stable_sort(row, row + n,
                     [&](int64_t a, int64_t b) { return uint64_t(key[a]) < uint64_t(key[b]); });
  });
}

namespace {

template <class F, class T> void cumulate_rows(const Tensor& y, const Tensor& x, int64_t n) {
  parallel_each(y.numel() / n, n, [&](int64_t r) {
    const T* row = pointer<const T>(x) + r * n;
    std::partial_sum(row, row + n, pointer<T>(y) + r * n, F());
  });
}

}  // namespace

void cumulate(ReduceOp op, const Tensor& y, const Tensor& x, int64_t n) {
  visit_computed(y.dtype(), [&]<class T>(TypeTag<T>) {
    op == ReduceOp::prod ? cumulate_rows<ProdOf, T>(y, x, n) : cumulate_rows<SumOf, T>(y, x, n);
  });
}

}  // namespace taper::inline v0::kernels::cpu
