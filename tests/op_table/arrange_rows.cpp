// Rows of views and joins that are composed of other operators (autograd/ops/arrange.cpp), and of
// diagonals.
#include <functional>

#include <gtest/gtest.h>

#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Samples = std::vector<std::vector<Shape>>;

// Values are moved, not changed, so results are exact in every dtype.
Row row(const std::string& name, const std::string& variant, Function f, Samples samples,
        Reference reference, std::vector<Refusal> refusals = {}) {
  return {.name = name,
          .variant = variant,
          .f = std::move(f),
          .reference = std::move(reference),
          .samples = std::move(samples),
          .dtypes = everything(),
          .tolerance = {.float64 = 0, .float32 = 0, .float16 = 0, .bfloat16 = 0, .gradient = 1},
          .refusals = std::move(refusals)};
}

std::function<Tensor(Device)> refused(std::vector<Shape> shapes, Function f) {
  return [=](Device d) {
    Tensors x;
    for (const Shape& shape : shapes) x.push_back(ones(shape, {.device = d}));
    return f(x);
  };
}

// Selects a range of dimension 1; first_and_length(its size) returns {first, length}.
Reference part(std::function<Shape(int64_t)> first_and_length, bool without_dim = false) {
  return [=](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    const Shape range = first_and_length(shape[1]);
    shape[1] = range[1];
    Array y = gathered(x[0], shape, [range](Shape at) {
      at[1] += range[0];
      return at;
    });
    if (without_dim) y.shape.erase(1);
    return y;
  };
}

std::vector<Row> parts() {
  const Samples samples = {{{2, 5}}, {{3, 7, 2}}, {{1, 3}}, {{0, 4}}, {{2, 33}}};
  const auto zero_dims = [](Function f) { return refused({{}}, std::move(f)); };
  return {
      row("unbind", "", [](const Tensors& x) { return unbind(x[0], 1)[2]; }, samples,
          part(
              [](int64_t) {
                return Shape{2, 1};
              },
              true),
          {{"0-dim", zero_dims([](const Tensors& x) { return unbind(x[0])[0]; }),
            "Dimension specified as 0 but tensor has no dimensions"},
           {"dim", refused({{2, 3}}, [](const Tensors& x) { return unbind(x[0], 2)[0]; }),
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)"}}),
      row(
          "unbind", "all of them", [](const Tensors& x) { return stack(unbind(x[0], -1), -1); },
          {{{3}}, {{2, 3}}, {{4, 1}}}, [](const std::vector<Array>& x) { return x[0]; }),
      row("tensor_split", "sections", [](const Tensors& x) { return tensor_split(x[0], 3, 1)[1]; },
          samples, part([](int64_t n) {
            return Shape{(n + 2) / 3, (n + 1) / 3};
          }),
          {{"sections", refused({{3}}, [](const Tensors& x) { return tensor_split(x[0], 0)[0]; }),
            "number of sections must be larger than 0, got 0"},
           {"0-dim", zero_dims([](const Tensors& x) { return tensor_split(x[0], 1)[0]; }),
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 "
            "dims"}}),
      row("tensor_split", "indices",
          [](const Tensors& x) {
            return tensor_split(x[0], {1, -1}, 1)[1];
          },
          samples, part([](int64_t n) {
            return Shape{1, n - 2};
          }),
          {{"0-dim", zero_dims([](const Tensors& x) {
              return tensor_split(x[0], std::vector<int64_t>())[0];
            }),
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 "
            "dims"}}),
      row(
          "tensor_split", "indices that fall",
          [](const Tensors& x) {
            const Tensors p = tensor_split(x[0], {2, 1}, 1);
            return cat({p[1], p[2]}, 1);
          },
          samples, part([](int64_t n) {
            return Shape{1, n - 1};
          }))};
}

// Concatenates the elements of both arrays into an array of the given shape.
Array behind(const Array& a, const Array& b, const Shape& shape) {
  Array y{shape, a.v};
  y.v.insert(y.v.end(), b.v.begin(), b.v.end());
  return y;
}

std::vector<Row> joins() {
  const auto both = [](auto f) { return [f](const Tensors& x) { return f({x[0], x[1]}); }; };
  const auto columns = [](const std::vector<Array>& x) {
    const int64_t a = x[0].shape.back(), b = x[1].shape.back();
    Array y{{x[0].shape[0], a + b}, {}};
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      const int64_t r = i / (a + b), c = i % (a + b);
      y.v.push_back(c < a ? x[0].v[size_t(r * a + c)] : x[1].v[size_t(r * b + c - a)]);
    }
    return y;
  };
  return {
      row("hstack", "matrices", both(hstack),
          {{{2, 3}, {2, 1}}, {{0, 2}, {0, 1}}, {{3, 1}, {3, 17}}}, columns,
          {{"none", [](Device) { return hstack({}); }, "hstack expects a non-empty TensorList"},
           {"sizes", refused({{2, 3}, {3, 3}}, [](const Tensors& x) { return hstack(x); }),
            "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for "
            "tensor number 1 in the list."}}),
      row("hstack", "vectors and numbers", both(hstack), {{{2}, {3}}, {{}, {2}}, {{}, {}}},
          [](const std::vector<Array>& x) {
            return behind(x[0], x[1], {x[0].shape.numel() + x[1].shape.numel()});
          }),
      row("vstack", "", both(vstack), {{{3}, {3}}, {{3}, {2, 3}}, {{}, {}}, {{2, 3}, {1, 3}}},
          [](const std::vector<Array>& x) {
            const int64_t n = x[0].shape.empty() ? 1 : x[0].shape.back();
            return behind(x[0], x[1], {(x[0].shape.numel() + x[1].shape.numel()) / n, n});
          },
          {{"none", [](Device) { return vstack({}); }, "vstack expects a non-empty TensorList"}})};
}

// Both grids of meshgrid. The first argument varies along dimension `of_a`.
Reference grids(int of_a) {
  return [of_a](const std::vector<Array>& x) {
    const int64_t n = x[0].shape.numel(), m = x[1].shape.numel();
    const Shape shape = of_a == 0 ? Shape{n, m} : Shape{m, n};
    const auto along = [&](const Array& a, int d) {
      return gathered({{a.shape.numel()}, a.v}, shape,
                      [d](const Shape& at) { return Shape{at[d]}; });
    };
    return behind(along(x[0], of_a), along(x[1], 1 - of_a), {2, shape[0], shape[1]});
  };
}

std::vector<Row> grids() {
  const Samples samples = {{{3}, {4}}, {{}, {2}}, {{1}, {17}}, {{0}, {2}}};
  Row matrix = row(
      "meshgrid", "ij",
      [](const Tensors& x) {
        return stack(meshgrid({x[0], x[1]}));
      },
      samples, grids(0),
      {{"none", [](Device) { return meshgrid({})[0]; }, "meshgrid expects a non-empty TensorList"},
       {"matrix", refused({{2, 2}}, [](const Tensors& x) { return meshgrid(x)[0]; }),
        "taper::meshgrid: Expected 0D or 1D tensor in the tensor list but got: "},
       {"dtypes",
        [](Device d) {
          return meshgrid({ones({2}, {.device = d}), ones({2}, {.dtype = kInt64, .device = d})})[0];
        },
        "meshgrid expects all tensors to have the same dtype"}});
  Row cartesian = row(
      "meshgrid", "xy",
      [](const Tensors& x) {
        return stack(meshgrid({x[0], x[1]}, MeshIndexing::kXy));
      },
      samples, grids(1));
  // Up to seventeen gradients are summed for each element.
  matrix.tolerance = cartesian.tolerance = {.float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 8e-2};
  return {matrix, cartesian};
}

// Both views of broadcast_tensors, one behind the other.
Row broadcast_row() {
  return row(
      "broadcast_tensors", "",
      [](const Tensors& x) {
        return stack(broadcast_tensors({x[0], x[1]}));
      },
      {{{3}, {3}}, {{2, 1}, {4}}, {{}, {2, 3}}, {{0, 1}, {1, 3}}, {{17, 1}, {1, 5}}},
      [](const std::vector<Array>& x) {
        const Array first = of_pairs([](double a, double) { return a; })(x);
        const Array second = of_pairs([](double, double b) { return b; })(x);
        Shape shape = {2};
        for (const int64_t n : first.shape) shape.push_back(n);
        return behind(first, second, shape);
      },
      {{"sizes", refused({{2}, {3}}, [](const Tensors& x) { return broadcast_tensors(x)[0]; }),
        "The size of tensor a (2) must match the size of tensor b (3)"}});
}

TEST(Arrange, BroadcastTensorsReturnsViews) {
  EXPECT_TRUE(broadcast_tensors({}).empty());
  const Tensor x = ones({3, 1}), one = ones({2});
  const std::vector<Tensor> views = broadcast_tensors({x, one, full({}, 4.0)});
  ASSERT_EQ(views.size(), 3u);
  for (const Tensor& view : views) EXPECT_EQ(view.shape(), Shape({3, 2}));
  EXPECT_EQ(views[0].storage(), x.storage());
  EXPECT_EQ(views[1].storage(), one.storage());
}

std::vector<Row> rolls() {
  const auto rolled = [](const Array& x, const Shape& by) {
    return gathered(x, x.shape, [&](Shape at) {
      for (int d = 0; d < at.size(); ++d) {
        const int64_t n = x.shape[d];
        at[d] = ((at[d] - by[d]) % n + n) % n;
      }
      return at;
    });
  };
  return {row(
              "roll", "two dims",
              [](const Tensors& x) {
                return roll(x[0], {1, -2}, {0, -1});
              },
              {{{2, 3}}, {{5, 7}}, {{1, 1}}, {{0, 3}}, {{33, 17}}},
              [rolled](const std::vector<Array>& x) {
                return rolled(x[0], {1, -2});
              },
              {{"no shifts", refused({{2}}, [](const Tensors& x) { return roll(x[0], {}); }),
                "`shifts` required"},
               {"lengths",
                refused({{2, 3}},
                        [](const Tensors& x) {
                          return roll(x[0], {1}, {0, 1});
                        }),
                "shifts and dimensions must align. shifts: 1, dims:2"},
               {"dim", refused({{2, 3}}, [](const Tensors& x) { return roll(x[0], {1}, {2}); }),
                "Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
               {"0-dim", refused({{}}, [](const Tensors& x) { return roll(x[0], {1}, {0}); }),
                "Dimension specified as 0 but tensor has no dimensions"}}),
          row(
              "roll", "flattened", [](const Tensors& x) { return roll(x[0], {-4}); },
              {{{}}, {{3}}, {{2, 3}}, {{1025}}, {{0}}},
              [rolled](const std::vector<Array>& x) {
                return Array{x[0].shape, rolled({{x[0].shape.numel()}, x[0].v}, {-4}).v};
              })};
}

// An array of zeros of `shape` with x's elements at the indices that `place` returns.
Array spread(const Array& x, const Shape& shape, const std::function<Shape(const Shape&)>& place) {
  Array y{shape, std::vector<double>(size_t(shape.numel()))};
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    y.v[size_t(flat_index(shape, place(index_of(x.shape, i))))] = x.v[size_t(i)];
  }
  return y;
}

std::vector<Row> diagonals() {
  const auto main = [](const std::vector<Array>& x) {
    const Shape& s = x[0].shape;
    return gathered(x[0], {std::min(s[0], s[1])}, [](const Shape& at) {
      return Shape{at[0], at[0]};
    });
  };
  const auto matrix = [](const std::vector<Array>& x) {
    const int64_t n = x[0].shape[0];
    return spread(x[0], {n, n}, [](const Shape& at) { return Shape{at[0], at[0]}; });
  };
  const Samples samples = {{{3, 3}}, {{2, 5}}, {{4, 1}}, {{0, 3}}, {{17, 33}}};
  return {
      row("diagonal", "", [](const Tensors& x) { return diagonal(x[0]); }, samples, main,
          {{"vector", refused({{2}}, [](const Tensors& x) { return diagonal(x[0]); }),
            "Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
           {"one dim", refused({{2, 2}}, [](const Tensors& x) { return diagonal(x[0], 0, 1, -1); }),
            "diagonal dimensions cannot be identical 1, -1"}}),
      row(
          "diagonal", "below, of the last and the first",
          [](const Tensors& x) { return diagonal(x[0], -1, -1, 0); },
          {{{3, 2, 4}}, {{2, 3, 2}}, {{1, 2, 1}}},
          [](const std::vector<Array>& x) {
            const Shape& s = x[0].shape;
            return gathered(x[0], {s[1], std::min(s[0], s[2] - 1)}, [](const Shape& at) {
              return Shape{at[1], at[0], at[1] + 1};
            });
          }),
      row(
          "diagonal", "far off", [](const Tensors& x) { return diagonal(x[0], 100); }, {{{2, 3}}},
          [](const std::vector<Array>&) {
            return Array{{0}, {}};
          }),
      row("diag_embed", "", [](const Tensors& x) { return diag_embed(x[0]); },
          {{{3}}, {{1}}, {{0}}, {{33}}}, matrix,
          {{"one dim", refused({{2}}, [](const Tensors& x) { return diag_embed(x[0], 0, 1, 1); }),
            "diagonal dimensions cannot be identical 1, 1"},
           {"0-dim", refused({{}}, [](const Tensors& x) { return diag_embed(x[0]); }),
            "Dimension out of range (expected to be in range of [-1, 0], but got -2)"}}),
      row(
          "diag_embed", "above, the last and the first",
          [](const Tensors& x) { return diag_embed(x[0], 2, -1, 0); },
          {{{2, 3}}, {{1, 1}}, {{3, 0}}},
          [](const std::vector<Array>& x) {
            const int64_t k = x[0].shape[0], n = x[0].shape[1] + 2;
            return spread(x[0], {n, k, n}, [](const Shape& at) {
              return Shape{at[1] + 2, at[0], at[1]};
            });
          }),
      row("diag", "of a matrix", [](const Tensors& x) { return diag(x[0]); }, samples, main,
          {{"rank", refused({{2, 2, 2}}, [](const Tensors& x) { return diag(x[0]); }),
            "diag(): Supports 1D or 2D tensors. Got 3D"}}),
      row(
          "diag", "of a vector", [](const Tensors& x) { return diag(x[0]); }, {{{3}}, {{1}}, {{0}}},
          matrix)};
}

}  // namespace

std::vector<Row> arrange_rows() {
  std::vector<Row> rows;
  for (const auto& family :
       {parts(), joins(), grids(), std::vector<Row>{broadcast_row()}, rolls(), diagonals()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  return rows;
}

}  // namespace taper::v0::test
