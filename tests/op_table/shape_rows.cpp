#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::test {
namespace {

using Source = std::function<Shape(const Shape&)>;
using Resize = std::function<Shape(const Shape&)>;

// Views and copies move values without changing them: exact in every dtype.
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

// The same values in order under another shape.
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
       "ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1"},
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
  narrowed.derivative = Derivative::first;
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
  selected.derivative = Derivative::first;
  selected.refusals = {{"index", refused({2, 3}, [](const Tensor& x) { return select(x, 1, 3); }),
                        "index 3 is out of bounds for dimension 1 with size 3"},
                       {"0-dim", refused({}, [](const Tensor& x) { return select(x, 0, 0); }),
                        "select() cannot be applied to a 0-dim tensor."}};
  return {narrowed, selected};
}

std::vector<Row> copies() {
  const Reference same = renamed([](const Shape& s) { return s; });
  Row to_double = row(
      "to_copy", "float64", [](const Tensors& x) { return to_copy(x[0], x[0].device(), kFloat64); },
      kAny, same);
  to_double.gives = Gives::float64;
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
  for (const auto& part : {sizes(), orders(), windows(), copies()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace taper::test
