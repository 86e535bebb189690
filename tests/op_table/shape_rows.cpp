#include <functional>

#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

using Source = std::function<Shape(const Shape&)>;
using Resize = std::function<Shape(const Shape&)>;

// Views and copies move values without changing them, so results are exact in every dtype.
Row row(const std::string& name, const std::string& variant, Function f,
        std::vector<std::vector<Shape>> samples, Reference reference) {
  return {.name = name,
          .variant = variant,
          .f = std::move(f),
          .reference = std::move(reference),
          .samples = std::move(samples),
          .dtypes = everything(),
          .tolerance = {.float64 = 0, .float32 = 0, .float16 = 0, .bfloat16 = 0, .gradient = 1}};
}

// The same values in the same order with another shape.
Reference renamed(Resize resize) {
  return [resize](const std::vector<Array>& x) { return Array{resize(x[0].shape), x[0].v}; };
}

Reference moved(Resize resize, Source source) {
  return [=](const std::vector<Array>& x) { return gathered(x[0], resize(x[0].shape), source); };
}

const std::vector<std::vector<Shape>> kAny = {{{}}, {{0}}, {{1}}, {{17}}, {{2, 3, 5}}, {{1025}}};

std::function<Tensor(Device)> refused(Shape shape, std::function<Tensor(const Tensor&)> f) {
  return [=](Device d) { return f(ones(shape, {.device = d})); };
}

std::vector<Row> sizes() {
  Row viewed = row(
      "view", "",
      [](const Tensors& x) {
        return view(x[0].contiguous(), {3, -1});
      },
      {{{6}}, {{2, 3}}, {{3, 1, 5}}, {{3, 1025}}}, renamed([](const Shape& s) {
        return Shape{3, s.numel() / 3};
      }));
  viewed.refusals = {
      {"layout", refused({2, 3}, [](const Tensor& x) { return view(x.t(), {6}); }),
       "view size is not compatible with input tensor's size and stride (at least one dimension "
       "spans across two contiguous subspaces). Use .reshape(...) instead."},
      {"size", refused({2, 3}, [](const Tensor& x) { return view(x, {4}); }),
       "shape '[4]' is invalid for input of size 6"},
      {"two unknown",
       refused({6},
               [](const Tensor& x) {
                 return view(x, {-1, -1});
               }),
       "only one dimension can be inferred"}};
  Row reshaped = row(
      "reshape", "",
      [](const Tensors& x) {
        return reshape(x[0], {-1, 2});
      },
      {{{6}}, {{2, 3}}, {{2, 3, 5}}, {{0, 4}}, {{2050}}, {{2, 1, 3, 1}}},
      renamed([](const Shape& s) {
        return Shape{s.numel() / 2, 2};
      }));
  reshaped.refusals = {{"size",
                        refused({3},
                                [](const Tensor& x) {
                                  return reshape(x, {-1, 2});
                                }),
                        "shape '[-1, 2]' is invalid for input of size 3"}};
  Row flat = row(
      "flatten", "", [](const Tensors& x) { return flatten(x[0]); }, kAny,
      renamed([](const Shape& s) { return Shape{s.numel()}; }));
  Row partly_flat = row(
      "flatten", "from 1", [](const Tensors& x) { return flatten(x[0], 1); },
      {{{2, 3, 5}}, {{4, 1, 1}}, {{3, 2}}}, renamed([](const Shape& s) {
        return Shape{s[0], s.numel() / s[0]};
      }));
  partly_flat.refusals = {{"order",
                           refused({2, 3}, [](const Tensor& x) { return flatten(x, 1, 0); }),
                           "flatten() has invalid args: start_dim cannot come after end_dim"}};
  Row squeezed = row(
      "squeeze", "", [](const Tensors& x) { return squeeze(x[0], 1); },
      {{{2, 1, 3}}, {{2, 3}}, {{1, 1}}, {{0, 1}}}, renamed([](const Shape& s) {
        Shape out = s;
        if (s[1] == 1) out.erase(1);
        return out;
      }));
  squeezed.refusals = {{"dim", refused({2}, [](const Tensor& x) { return squeeze(x, 1); }),
                        "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}};
  Row unsqueezed = row(
      "unsqueeze", "", [](const Tensors& x) { return unsqueeze(x[0], -1); }, kAny,
      renamed([](const Shape& s) {
        Shape out = s;
        out.push_back(1);
        return out;
      }));
  unsqueezed.refusals = {
      {"dim", refused({2}, [](const Tensor& x) { return unsqueeze(x, 2); }),
       "Dimension out of range (expected to be in range of [-2, 1], but got 2)"}};
  return {viewed, reshaped, flat, partly_flat, squeezed, unsqueezed};
}

std::vector<Row> orders() {
  Row swapped = row(
      "transpose", "", [](const Tensors& x) { return transpose(x[0], 0, -1); },
      {{{2, 3}}, {{2, 3, 5}}, {{7}}, {{1, 17}}, {{0, 3}}, {{33, 65}}},
      moved(
          [](const Shape& s) {
            Shape out = s;
            std::swap(out[0], out[s.size() - 1]);
            return out;
          },
          [](const Shape& at) {
            Shape out = at;
            std::swap(out[0], out[at.size() - 1]);
            return out;
          }));
  swapped.refusals = {{"dim", refused({2}, [](const Tensor& x) { return transpose(x, 0, 1); }),
                       "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}};
  Row permuted = row(
      "permute", "",
      [](const Tensors& x) {
        return permute(x[0], {2, 0, -2});
      },
      {{{2, 3, 5}}, {{1, 1, 1}}, {{17, 2, 3}}, {{2, 0, 3}}},
      moved(
          [](const Shape& s) {
            return Shape{s[2], s[0], s[1]};
          },
          [](const Shape& at) {
            return Shape{at[1], at[2], at[0]};
          }));
  permuted.refusals = {
      {"length", refused({2, 3}, [](const Tensor& x) { return permute(x, {0}); }),
       "permute: number of dimensions in the tensor input does not match the length of the desired "
       "ordering of dimensions i.e. input.dim() = 2 is not equal to dims.size() = 1"},
      {"twice",
       refused({2, 3},
               [](const Tensor& x) {
                 return permute(x, {1, -1});
               }),
       "permute(): duplicate dims are not allowed."}};
  Row expanded = row(
      "expand", "",
      [](const Tensors& x) {
        return expand(x[0], {4, 3, -1});
      },
      {{{3, 1}}, {{1, 5}}, {{4, 1, 2}}, {{1, 1, 17}}},
      moved(
          [](const Shape& s) {
            return Shape{4, 3, s.back()};
          },
          [](const Shape& at) { return at; }));
  expanded.reference = [](const std::vector<Array>& x) {
    const Array zeros{{4, 3, x[0].shape.back()},
                      std::vector<double>(size_t(12 * x[0].shape.back()))};
    return of_pairs([](double, double b) { return b; })({zeros, x[0]});
  };
  // Up to twelve gradients are summed for each element.
  expanded.tolerance = {.float32 = 1e-5, .float16 = 8e-3, .bfloat16 = 6e-2};
  expanded.refusals = {
      {"size",
       refused({2, 3},
               [](const Tensor& x) {
                 return expand(x, {2, 4});
               }),
       "The expanded size of the tensor (4) must match the existing size (3) at non-singleton "
       "dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]"},
      {"rank", refused({2, 3}, [](const Tensor& x) { return expand(x, {3}); }),
       "expand(FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or "
       "equal to the number of dimensions in the tensor (2)",
       "expand(cuda.FloatTensor{[2, 3]}, size=[3])"}};
  return {swapped, permuted, expanded};
}

std::vector<Row> windows() {
  Row narrowed = row(
      "narrow", "", [](const Tensors& x) { return narrow(x[0], 1, -2, 2); },
      {{{2, 3}}, {{3, 5, 2}}, {{1, 2}}, {{0, 3}}, {{2, 1025}}},
      [](const std::vector<Array>& x) {
        Shape shape = x[0].shape;
        const int64_t from = shape[1] - 2;
        shape[1] = 2;
        return gathered(x[0], shape, [from](Shape at) {
          at[1] += from;
          return at;
        });
      });
  narrowed.refusals = {{"length", refused({3}, [](const Tensor& x) { return narrow(x, 0, 2, 2); }),
                        "start (2) + length (2) exceeds dimension size (3)."},
                       {"0-dim", refused({}, [](const Tensor& x) { return narrow(x, 0, 0, 1); }),
                        "narrow() cannot be applied to a 0-dim tensor."}};
  Row selected = row(
      "select", "", [](const Tensors& x) { return select(x[0], 1, -1); },
      {{{2, 3}}, {{3, 5, 2}}, {{1, 1}}, {{0, 3}}, {{17, 2}}},
      [](const std::vector<Array>& x) {
        Shape shape = x[0].shape;
        const int64_t last = shape[1] - 1;
        shape.erase(1);
        return gathered(x[0], shape, [last](Shape at) {
          at.insert(1, last);
          return at;
        });
      });
  selected.refusals = {{"index", refused({2, 3}, [](const Tensor& x) { return select(x, 1, 3); }),
                        "index 3 is out of bounds for dimension 1 with size 3"},
                       {"0-dim", refused({}, [](const Tensor& x) { return select(x, 0, 0); }),
                        "select() cannot be applied to a 0-dim tensor."}};
  return {narrowed, selected};
}

std::vector<Row> more_sizes() {
  const auto without_ones = [](const Shape& s) {
    Shape out;
    for (const int64_t n : s) {
      if (n != 1) out.push_back(n);
    }
    return out;
  };
  Row bare = row(
      "squeeze", "all", [](const Tensors& x) { return squeeze(x[0]); },
      {{{2, 1, 3, 1}}, {{1}}, {{}}, {{1, 0, 1}}, {{2, 3}}}, renamed(without_ones));
  Row named = row(
      "squeeze", "dims",
      [](const Tensors& x) {
        return squeeze(x[0], {0, -1});
      },
      {{{1, 3, 1}}, {{2, 3, 1}}, {{1, 1, 2}}}, renamed([](const Shape& s) {
        Shape out = s;
        if (s.back() == 1) out.erase(s.size() - 1);
        if (s[0] == 1) out.erase(0);
        return out;
      }));
  named.refusals = {{"twice",
                     refused({2, 1},
                             [](const Tensor& x) {
                               return squeeze(x, {1, -1});
                             }),
                     "dim 1 appears multiple times in the list of dims"}};
  Row unflat = row(
      "unflatten", "",
      [](const Tensors& x) {
        return unflatten(x[0], 1, {-1, 2});
      },
      {{{3, 4}}, {{2, 6, 3}}, {{1, 2}}, {{0, 4}}}, renamed([](const Shape& s) {
        Shape out = s;
        out[1] /= 2;
        out.insert(2, 2);
        return out;
      }));
  unflat.f = [](const Tensors& x) { return unflatten(x[0].contiguous(), 1, {-1, 2}); };
  unflat.refusals = {
      {"sizes",
       refused({6},
               [](const Tensor& x) {
                 return unflatten(x, 0, {2, 2});
               }),
       "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 0 (6) in the input "
       "tensor"},
      {"none", refused({6}, [](const Tensor& x) { return unflatten(x, 0, {}); }),
       "unflatten: sizes must be non-empty"}};
  Row like = row(
      "view_as", "",
      [](const Tensors& x) {
        return view_as(x[0].contiguous(), empty({x[0].numel()}, {.device = x[0].device()}));
      },
      kAny, renamed([](const Shape& s) { return Shape{s.numel()}; }));
  like.refusals = {{"size", refused({2, 3}, [](const Tensor& x) { return view_as(x, ones({3})); }),
                    "shape '[3]' is invalid for input of size 6"}};
  Row spread = row(
      "expand_as", "",
      [](const Tensors& x) {
        return expand_as(x[0], empty({2, x[0].numel()}, {.device = x[0].device()}));
      },
      {{{3}}, {{1}}, {{17}}},
      [](const std::vector<Array>& x) {
        Array y{{2, x[0].shape[0]}, x[0].v};
        y.v.insert(y.v.end(), x[0].v.begin(), x[0].v.end());
        return y;
      });
  spread.tolerance = {.float32 = 1e-6, .float16 = 2e-3, .bfloat16 = 2e-2};
  Row movedim_row = row(
      "movedim", "", [](const Tensors& x) { return movedim(x[0], 0, -1); },
      {{{2, 3}}, {{2, 3, 5}}, {{7}}, {{0, 3}}},
      moved(
          [](const Shape& s) {
            Shape out = s;
            out.erase(0);
            out.push_back(s[0]);
            return out;
          },
          [](const Shape& at) {
            Shape out = at;
            out.erase(at.size() - 1);
            out.insert(0, at.back());
            return out;
          }));
  movedim_row.refusals = {
      {"dim", refused({2, 3, 4}, [](const Tensor& x) { return movedim(x, 0, 3); }),
       "Dimension out of range (expected to be in range of [-3, 2], but got 3)"}};
  return {bare, named, unflat, like, spread, movedim_row};
}

// Selects elements of dimension 1; range(its size) returns {from, length, step}.
Reference picked(std::function<Shape(int64_t)> range) {
  return [range](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    const Shape r = range(shape[1]);
    shape[1] = r[1];
    return gathered(x[0], shape, [r](Shape at) {
      at[1] = r[0] + at[1] * r[2];
      return at;
    });
  };
}

std::vector<Row> parts() {
  const std::vector<std::vector<Shape>> samples = {
      {{2, 5}}, {{3, 7, 2}}, {{1, 3}}, {{0, 4}}, {{2, 33}}};
  const auto sliced = [&](const char* variant, Function f, std::function<Shape(int64_t)> range) {
    return row("slice", variant, std::move(f), samples, picked(std::move(range)));
  };
  Row stepped = sliced(
      "", [](const Tensors& x) { return slice(x[0], 1, 1, {}, 2); },
      [](int64_t n) {
        return Shape{1, n / 2, 2};
      });
  stepped.refusals = {
      {"step", refused({3}, [](const Tensor& x) { return slice(x, 0, {}, {}, -1); }),
       "step must be greater than zero"},
      {"0-dim", refused({}, [](const Tensor& x) { return slice(x); }),
       "slice() cannot be applied to a 0-dim tensor."}};
  std::vector<Row> rows = {
      stepped,
      sliced(
          "negative ends", [](const Tensors& x) { return slice(x[0], -x[0].dim() + 1, -3, -1); },
          [](int64_t n) {
            return Shape{n - 3, 2, 1};
          }),
      sliced(
          "beyond the ends", [](const Tensors& x) { return slice(x[0], 1, -100, 100, 3); },
          [](int64_t n) {
            return Shape{0, (n + 2) / 3, 3};
          }),
      sliced(
          "nothing", [](const Tensors& x) { return slice(x[0], 1, 2, 1); },
          [](int64_t) {
            return Shape{0, 0, 1};
          }),
      row(
          "split", "", [](const Tensors& x) { return split(x[0], 2, 1)[1]; }, samples,
          picked([](int64_t n) {
            return Shape{2, std::min<int64_t>(2, n - 2), 1};
          })),
      row(
          "split", "sizes",
          [](const Tensors& x) {
            const auto p = split(x[0], {1, 0, x[0].size(1) - 1}, 1);
            return cat({p[2], p[1], p[0]}, 1);
          },
          samples,
          [](const std::vector<Array>& x) {
            const int64_t n = x[0].shape[1];
            return gathered(x[0], x[0].shape, [n](Shape at) {
              at[1] = (at[1] + 1) % n;
              return at;
            });
          }),
      row(
          "chunk", "", [](const Tensors& x) { return chunk(x[0], 2, 1)[0]; }, samples,
          picked([](int64_t n) {
            return Shape{0, (n + 1) / 2, 1};
          }))};
  for (Row& r : rows) {
    if (r.name == "split" || r.variant == "negative ends") r.samples.erase(r.samples.begin() + 2);
  }
  Row& by_size = rows[4];
  by_size.refusals = {
      {"size", refused({3}, [](const Tensor& x) { return split(x, 0)[0]; }),
       "split_size can only be 0 if dimension size is 0, but got dimension size of 3"},
      {"negative", refused({3}, [](const Tensor& x) { return split(x, -1)[0]; }),
       "split expects split_size be non-negative, but got split_size=-1"},
      {"0-dim", refused({}, [](const Tensor& x) { return split(x, 1)[0]; }),
       "split expects at least a 1-dimensional tensor"},
      {"sum",
       refused({3},
               [](const Tensor& x) {
                 return split(x, {1, 1})[0];
               }),
       "split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at dimension "
       "0), but got split_sizes=[1, 1]"},
      {"negative part",
       refused({3},
               [](const Tensor& x) {
                 return split(x, {4, -1})[0];
               }),
       "split_with_sizes expects split_sizes have only non-negative entries, but got "
       "split_sizes=[4, -1]"}};
  rows.back().refusals = {{"chunks", refused({3}, [](const Tensor& x) { return chunk(x, 0)[0]; }),
                           "chunk expects `chunks` to be greater than 0, got: 0"}};
  return rows;
}

// Concatenates a and b along dimension d.
Array joined(const Array& a, const Array& b, int d) {
  Array y{a.shape, {}};
  y.shape[d] += b.shape[d];
  for (int64_t i = 0; i < y.shape.numel(); ++i) {
    Shape at = index_of(y.shape, i);
    const bool first = at[d] < a.shape[d];
    if (!first) at[d] -= a.shape[d];
    const Array& from = first ? a : b;
    y.v.push_back(from.v[size_t(flat_index(from.shape, at))]);
  }
  return y;
}

std::vector<Row> joins() {
  const auto failing = [](std::vector<Shape> shapes, int64_t dim,
                          Tensor (*f)(const Tensors&, IntArg)) {
    return [=](Device d) {
      Tensors x;
      for (const Shape& s : shapes) x.push_back(ones(s, {.device = d}));
      return f(x, dim);
    };
  };
  Row cat_row = row(
      "cat", "",
      [](const Tensors& x) {
        return cat({x[0], x[1]}, 1);
      },
      {{{2, 3}, {2, 1}},
       {{3, 2, 5}, {3, 4, 5}},
       {{1, 0}, {1, 2}},
       {{0, 2}, {0, 1}},
       {{2, 1025}, {2, 3}}},
      [](const std::vector<Array>& x) { return joined(x[0], x[1], 1); });
  cat_row.refusals = {
      {"none", failing({}, 0, cat), "taper::cat(): expected a non-empty list of Tensors"},
      {"0-dim", failing({{}, {1}}, 0, cat),
       "zero-dimensional tensor (at position 0) cannot be concatenated"},
      {"ranks", failing({{2, 3}, {2}}, 0, cat),
       "Tensors must have same number of dimensions: got 2 and 1"},
      {"sizes", failing({{2, 3}, {3, 3}}, 1, cat),
       "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for "
       "tensor number 1 in the list."},
      {"dim", failing({{2, 3}}, 2, cat),
       "Dimension out of range (expected to be in range of [-2, 1], but got 2)"}};
  Row same = row(
      "cat", "the same twice, from the end",
      [](const Tensors& x) {
        return cat({x[0], x[0]}, -1);
      },
      {{{2, 3}}, {{5}}},
      [](const std::vector<Array>& x) { return joined(x[0], x[0], x[0].shape.size() - 1); });
  same.tolerance = {.float32 = 1e-6, .float16 = 2e-3, .bfloat16 = 2e-2};
  Row empty_one = row(
      "cat", "an empty one",
      [](const Tensors& x) {
        const Tensor none = empty({0}, {.dtype = x[0].dtype(), .device = x[0].device()});
        return cat({none, x[0], none}, 1);
      },
      {{{2, 3}}, {{0, 2}}}, renamed([](const Shape& s) { return s; }));
  Row stacked = row(
      "stack", "",
      [](const Tensors& x) {
        return stack({x[0], x[1]}, -1);
      },
      {{{3}, {3}}, {{2, 3}, {2, 3}}, {{}, {}}, {{0}, {0}}},
      [](const std::vector<Array>& x) {
        Array a = x[0], b = x[1];
        a.shape.push_back(1);
        b.shape.push_back(1);
        return joined(a, b, a.shape.size() - 1);
      });
  stacked.refusals = {{"none", failing({}, 0, stack), "stack expects a non-empty TensorList"},
                      {"sizes", failing({{2}, {3}}, 0, stack),
                       "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] "
                       "at entry 1"},
                      {"dim", failing({{2}, {2}}, 2, stack),
                       "Dimension out of range (expected to be in range of [-2, 1], but got 2)"}};
  Row repeated = row(
      "repeat", "",
      [](const Tensors& x) {
        return repeat(x[0], {2, 1, 3});
      },
      {{{2, 3}}, {{1}}, {{2, 1, 2}}, {{0, 2}}, {{}}},
      [](const std::vector<Array>& x) {
        Shape full = x[0].shape;
        while (full.size() < 3) full.insert(0, 1);
        const Array from{full, x[0].v};
        return gathered(from, {full[0] * 2, full[1], full[2] * 3}, [full](Shape at) {
          at[0] %= full[0];
          at[2] %= full[2];
          return at;
        });
      });
  repeated.tolerance = {.float32 = 1e-5, .float16 = 8e-3, .bfloat16 = 6e-2};
  repeated.refusals = {{"rank", refused({2, 3}, [](const Tensor& x) { return repeat(x, {2}); }),
                        "Number of dimensions of repeat dims can not be smaller than number of "
                        "dimensions of tensor"},
                       {"negative", refused({2}, [](const Tensor& x) { return repeat(x, {-1}); }),
                        "Trying to create tensor with negative dimension -2: [-2]"}};
  return {cat_row, same, empty_one, stacked, repeated};
}

std::vector<Row> copies() {
  const Reference same = renamed([](const Shape& s) { return s; });
  Row to_double = row(
      "to_copy", "float64", [](const Tensors& x) { return to_copy(x[0], x[0].device(), kFloat64); },
      kAny, same);
  to_double.gives = Gives::kFloat64;
  return {
      row(
          "clone", "", [](const Tensors& x) { return clone(x[0]); }, kAny, same),
      row(
          "contiguous", "", [](const Tensors& x) { return contiguous(x[0].clone()); }, kAny, same),
      row(
          "to_copy", "copy",
          [](const Tensors& x) {
            return to_copy(x[0], x[0].device(), x[0].dtype(), {.copy = true});
          },
          kAny, same),
      to_double};
}

}  // namespace

std::vector<Row> shape_rows() {
  std::vector<Row> rows;
  for (const auto& part :
       {sizes(), more_sizes(), orders(), windows(), parts(), joins(), copies()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::v0::test
