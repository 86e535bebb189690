#include "autograd/ops/index.h"
#include "framework/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::test {
namespace {

Row embedding_row() {
  return {
      .name = "embedding",
      .f = [](const Tensors& x) { return embedding(x[0], x[1]); },
      .reference =
          [](const std::vector<Array>& x) {
            Shape shape = x[1].shape;
            shape.push_back(x[0].shape[1]);
            const int last = shape.size() - 1;
            return gathered(x[0], shape, [&](const Shape& at) {
              const Shape row(at.begin(), at.end() - 1);
              return Shape{int64_t(x[1].v[size_t(flat_index(x[1].shape, row))]), at[last]};
            });
          },
      // More rows asked for than there are: several gradients meet in one row.
      .samples = {{{5, 3}, {7}}, {{5, 3}, {2, 3}}, {{5, 1}, {}}, {{5, 4}, {0}}, {{6, 17}, {1025}}},
      .domains = {Domain(), {0, 4, 1, kInt64}},
      .dtypes = floating(),
      .derivative = Derivative::first,
      .tolerance = {.float32 = 1e-5, .gradient = 40},
      .refusals = {{"index dtype",
                    [](Device d) {
                      return embedding(ones({2, 3}, {.device = d}), ones({2}, {.device = d}));
                    },
                    "Expected tensor for argument #1 'indices' to have one of the following "
                    "scalar types: Long, Int; but got Float instead"},
                   {"index beyond",
                    [](Device d) {
                      const Tensor index = tensor({0, 2}, {.dtype = kInt64, .device = d});
                      return embedding(ones({2, 3}, {.device = d}), index).cpu();
                    },
                    "index out of range in self.",
                    "index 2 is out of bounds for a dimension with size 2"}}};
}

}  // namespace

std::vector<Row> index_rows() { return {embedding_row()}; }

}  // namespace taper::test
