#include "autograd/ops/random.h"
#include "framework/factories.h"
#include "framework/philox.h"
#include "tests/op_table/op_table.h"

namespace taper::test {
namespace {

constexpr uint64_t kMaskSeed = 7;

Row dropout_row() {
  return {
      .name = "dropout",
      .f =
          [](const Tensors& x) {
            Generator generator(kMaskSeed);
            return dropout(x[0], 0.25, true, &generator);
          },
      .reference =
          [](const std::vector<Array>& x) {
            Array y = x[0];
            for (size_t i = 0; i < y.v.size(); ++i) {
              const uint32_t word = philox({kMaskSeed, 0}, i / 4).word[i % 4];
              y.v[i] = uniform_float(word) >= 0.25f ? y.v[i] / 0.75 : 0;
            }
            return y;
          },
      .samples = {{{}}, {{0}}, {{1}}, {{3}}, {{17}}, {{1025}}, {{3, 5, 7}}},
      .dtypes = floating(),
      .refusals = {{"probability", [](Device d) { return dropout(ones({2}, {.device = d}), 1.5); },
                    "dropout probability has to be between 0 and 1, but got 1.5"},
                   {"integers",
                    [](Device d) {
                      return dropout(ones({2}, {.dtype = kInt64, .device = d}), 0.5);
                    },
                    "\"dropout\" not implemented for 'Long'"}}};
}

}  // namespace

std::vector<Row> random_rows() { return {dropout_row()}; }

}  // namespace taper::test
