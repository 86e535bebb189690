// Chunks' sums are joined in double, in order.
#include "framework/kernels/optim/foreach.h"
#include "framework/kernels/optim/tensor_list_cpu.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::kernels::cpu {
namespace {

template <class C, class R>
TAPER_CLONES void step_span(const R& given, C* x, const C* y, C* values, int64_t n) {
  const R rule = given;
  const C number = C(rule.prepare());
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = rule.step(x[i], y[i], number);
}

// What the values of a chunk come to.
template <class C, class R> double run_chunk(const ListChunk<2>& chunk, const R& rule) {
  C wide[2][kListChunk], values[kListChunk];
  C* x[2];
  const int64_t n = chunk.end - chunk.begin;
  const auto at = [&](int r) {
    return static_cast<char*>(chunk.data[r]) + chunk.begin * int64_t(size_of(chunk.dtype[r]));
  };
  for (int r = 0; r < 1 + R::kPair; ++r) {
    const bool in_place = chunk.dtype[r] == dtype_of<C>;
    x[r] = in_place ? reinterpret_cast<C*>(at(r)) : wide[r];
    if (!in_place) converter(chunk.dtype[r], dtype_of<C>)(at(r), 1, x[r], 1, n);
  }
  step_span(rule, x[0], x[R::kPair], values, n);
  const bool converted = x[0] == wide[0];
  if (R::kWrites && converted) converter(dtype_of<C>, chunk.dtype[0])(x[0], 1, at(0), 1, n);
  if (R::kJoin == Join::sum) return double(combine_run<SumOf, C>(values, n));
  return R::kJoin == Join::max ? double(combine_run<MaxOf, C>(values, n)) : 0;
}

}  // namespace

void run_list(const std::vector<ListEntry<2>>& entries, const ListRule& any_rule,
              const Root& root) {
  std::vector<double> parts(size_t(count_chunks(entries, kListChunk)));
  const auto run = [&]<class R>(const R& rule) {
    for_each_chunk(entries, [&](const ListChunk<2>& chunk) {
      const bool wide = chunk.dtype[0] == kFloat64;
      parts[size_t(chunk.number)] =
          wide ? run_chunk<double>(chunk, rule) : run_chunk<float>(chunk, rule);
    });
    double total = 0;
    for (const double part : parts) total = Joiner<R::kJoin>()(total, part);
    if (root.out) root(total);
  };
  std::visit(run, any_rule);
}

}  // namespace taper::kernels::cpu
