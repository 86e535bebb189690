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

int chunk_of(int64_t) { return kListChunk; }

void run_values(const std::vector<ListEntry<2>>& entries, const ListRule& any_rule,
                double* values) {
  const auto run = [&](const auto& rule) {
    for_each_chunk(entries, [&](const ListChunk<2>& chunk) {
      const bool wide = chunk.dtype[0] == kFloat64;
      values[chunk.number] = wide ? run_chunk<double>(chunk, rule) : run_chunk<float>(chunk, rule);
    });
  };
  std::visit(run, any_rule);
}

void join_values(const double* values, int64_t n, const ListRule& any_rule, const Root& root) {
  const auto join = [&]<class R>(const R&) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total = Joiner<R::kJoin>()(total, values[i]);
    root(total);
  };
  std::visit(join, any_rule);
}

void run_list(const std::vector<ListEntry<2>>& entries, const ListRule& rule, const Root& root) {
  std::vector<double> values(size_t(count_chunks(entries, kListChunk)));
  run_values(entries, rule, values.data());
  if (root.out) join_values(values.data(), std::ssize(values), rule, root);
}

}  // namespace taper::v0::kernels::cpu
