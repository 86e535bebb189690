// Runs functions of lists of tensors on the CPU. The sums of chunks are added in double, in order.
#include "framework/kernels/optim/foreach.h"

#include "framework/kernels/optim/tensor_list_cpu.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

template <class C, class R>
TAPER_CLONES void step_span(const R& given, C* x, const C* y, C* values, int64_t n) {
  const R rule = given;
  const C number = C(rule.prepare());
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = rule.step(x[i], y[i], number);
}

// Returns the reduced values of a chunk.
template <class C, class R> double run_chunk(const ListChunk<2>& chunk, const R& rule) {
  C wide[2][kListChunk], values[kListChunk];
  const int64_t n = chunk.end - chunk.begin;
  C* const x = load_span(chunk, 0, wide[0]);
  step_span(rule, x, R::kPair ? load_span(chunk, 1, wide[1]) : x, values, n);
  if (R::kWrites && x == wide[0]) store_span(x, chunk, 0);
  if (R::kJoin == Join::kSum) return double(combine_run<SumOf, C>(values, n));
  return R::kJoin == Join::kMax ? double(combine_run<MaxOf, C>(values, n)) : 0;
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

}  // namespace taper::v0::kernels::cpu
