#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Softmax = Tensor (*)(const Tensor&, IntArg, std::optional<DType>);

void append(Row& row, const std::vector<std::vector<Shape>>& samples) {
  row.samples.insert(row.samples.end(), samples.begin(), samples.end());
}

std::vector<Row> softmax_rows(const std::string& name, Softmax f, bool log) {
  std::vector<Row> rows;
  for (const int64_t dim : {-1, 0, 1}) {
    rows.push_back(
        {.name = name,
         .variant = concat_to_string("dim ", dim),
         .f = [f, dim](const Tensors& x) { return f(x[0], dim, {}); },
         .reference = [log,
                       dim](const std::vector<Array>& x) { return normalised(x[0], dim, log); },
         .samples = {{{3, 5}}, {{1, 1}}, {{2, 3, 4}}, {{3, 17, 2}}, {{2, 1025}}, {{0, 3}}},
         .domains = {{-6, 6}},
         .dtypes = floating(),
         .tolerance = {.float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 1.6e-2}});
    if (dim == 0) rows.back().samples.pop_back();
    // Vectorized and single columns; more rows than one pass of a block, and fewer.
    if (dim == 0) append(rows.back(), {{{5, 8}}, {{600, 3}}, {{530, 4}}});
    if (dim == 1) append(rows.back(), {{{2, 3, 16}}, {{2, 140, 8}}});
  }
  rows[0].samples.push_back({{}});
  rows[0].samples.push_back({{7}});
  rows.push_back(rows[0]);
  rows.back().variant = "in float64";
  rows.back().f = [f](const Tensors& x) { return f(x[0], -1, kFloat64); };
  rows.back().dtypes = everything();
  rows.back().gives = Gives::kFloat64;
  rows[0].refusals = {
      {"integers", [f](Device d) { return f(ones({2}, {.dtype = kInt64, .device = d}), 0, {}); },
       concat_to_string("\"", name, "\" not implemented for 'Long'")},
      {"dim", [f](Device d) { return f(ones({2}, {.device = d}), 1, {}); },
       "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}};
  return rows;
}

}  // namespace

std::vector<Row> softmax_rows() {
  std::vector<Row> rows = softmax_rows("softmax", softmax, false);
  for (Row& row : softmax_rows("log_softmax", log_softmax, true)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace taper::v0::test
