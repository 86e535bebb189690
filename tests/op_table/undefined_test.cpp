// Passes an undefined tensor (never assigned, or moved from) as each argument of every operator.
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

const char* const kText = "Expected a proper Tensor but got an undefined Tensor";

// Optional arguments: weights, biases, masks, one of two bounds. Also arguments that a row does not
// use.
const std::map<std::string, std::set<size_t>> kOptional = {
    {"batch_norm", {1, 2}},
    {"bincount", {0}},
    {"clamp", {1, 2}},
    {"conv1d", {2}},
    {"conv2d", {2}},
    {"conv3d", {2}},
    {"conv_transpose1d", {2}},
    {"conv_transpose2d", {2}},
    {"conv_transpose3d", {2}},
    {"diff", {1, 2}},
    {"embedding_bag", {2}},
    {"feed_forward", {2, 4}},
    {"group_norm", {1, 2}},
    {"index_fill", {2}},
    {"instance_norm", {1, 2}},
    {"layer_norm", {1, 2}},
    {"linear", {2}},
    {"rms_norm", {1}},
    {"scaled_dot_product_attention", {3}},
};

TEST(Undefined, IsRefusedInEachPlaceOfEveryOperator) {
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.title());
    for (const DType dtype : row.dtypes) {
      const Tensors whole = arguments(row, 0, dtype, Device());
      for (size_t i = 0; i < whole.size(); ++i) {
        Tensors x = whole;
        x[i] = Tensor();
        const auto optional = kOptional.find(row.name);
        if (optional == kOptional.end() || !optional->second.count(i)) {
          EXPECT_TRUE(refuses<Error>([&] { return row.f(x); }, kText)) << "argument " << i;
          continue;
        }
        try {
          (void)row.f(x);
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(Undefined, IsRefusedBesideNumbersAndByEveryOperatorOfTheLanguage) {
  const Tensor u, x = ones({2}), whole = tensor({0, 1});
  const std::function<Tensor()> calls[] = {
      [&] { return u + x; },
      [&] { return x + u; },
      [&] { return u + u; },
      [&] { return u * 2; },
      [&] { return 2 * u; },
      [&] { return u - 1; },
      [&] { return 1 - u; },
      [&] { return u / x; },
      [&] { return 1 / u; },
      [&] { return -u; },
      [&] { return ~u; },
      [&] { return u > 0; },
      [&] { return 0 > u; },
      [&] { return u == x; },
      [&] { return u != 1; },
      [&] { return u & u; },
      [&] { return u | whole; },
      [&] { return u ^ 1; },
      [&] { return maximum(u, 1); },
      [&] { return pow(u, 2); },
      [&] { return pow(x, u); },
      [&] { return add(u, x, 2); },
      [&] { return clamp(u, 0, 1); },
      [&] { return where(x > 0, u, x); },
      [&] { return where(x > 0, u, 1); },
      [&] { return where(x > 0, 1, u); },
      [&] { return where(u, x, 1); },
      [&] { return embedding(u, x); },
      [&] { return embedding(x, u); },
  };
  for (size_t i = 0; i < std::size(calls); ++i) {
    EXPECT_TRUE(refuses<Error>(calls[i], kText)) << "call " << i;
  }
  Tensor given = ones({2});
  const Tensor taken = std::move(given);
  EXPECT_TRUE(refuses<Error>([&] { return given + taken; }, kText));
}

}  // namespace
}  // namespace taper::v0::test
