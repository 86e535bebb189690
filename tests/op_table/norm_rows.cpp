#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// The group of elements that shares statistics with an element, and the channel whose parameters it
// uses.
struct Place {
  int64_t group, channel;
};
using PlaceOf = std::function<Place(const Shape& shape, int64_t flat)>;

// Computes (x - mean) / sqrt(variance + eps) * weight + bias for the arguments x, weight, bias.
Array normalised(const std::vector<Array>& x, const PlaceOf& place_of, double eps, bool rms) {
  const Shape& shape = x[0].shape;
  std::vector<double> count(x[0].v.size()), sum(count), squares(count);
  for (size_t i = 0; i < count.size(); ++i) {
    const size_t g = size_t(place_of(shape, int64_t(i)).group);
    ++count[g];
    sum[g] += x[0].v[i];
  }
  const auto mean = [&](size_t g) { return rms ? 0 : sum[g] / count[g]; };
  for (size_t i = 0; i < count.size(); ++i) {
    const size_t g = size_t(place_of(shape, int64_t(i)).group);
    squares[g] += std::pow(x[0].v[i] - mean(g), 2);
  }
  Array y = x[0];
  for (size_t i = 0; i < count.size(); ++i) {
    const Place place = place_of(shape, int64_t(i));
    const size_t g = size_t(place.group), c = size_t(place.channel);
    y.v[i] = (x[0].v[i] - mean(g)) / std::sqrt(squares[g] / count[g] + eps);
    if (x.size() > 1) y.v[i] *= x[1].v[c];
    if (x.size() > 2) y.v[i] += x[2].v[c];
  }
  return y;
}

Reference reference(PlaceOf place, double eps, bool rms = false) {
  return [=](const std::vector<Array>& x) { return normalised(x, place, eps, rms); };
}

// Each slice of the last `dims` dimensions is a group.
PlaceOf in_rows(int dims) {
  return [dims](const Shape& shape, int64_t i) {
    const int64_t n = Shape(shape.end() - dims, shape.end()).numel();
    return Place{i / n, i % n};
  };
}
// Each group of channels of each image is a group of elements.
PlaceOf in_groups(int64_t groups) {
  return [groups](const Shape& shape, int64_t i) {
    const int64_t inner = shape.numel() / (shape[0] * shape[1]), c = i / inner % shape[1];
    return Place{i / inner / shape[1] * groups + c / (shape[1] / groups), c};
  };
}
Place in_channel(const Shape& shape, int64_t i) {
  const int64_t inner = shape.numel() / (shape[0] * shape[1]);
  return {i / inner % shape[1], i / inner % shape[1]};
}

Tensor at(const Tensors& x, size_t i) { return i < x.size() ? x[i] : Tensor(); }
Shape tail(const Tensor& x, int dims) { return Shape(x.shape().end() - dims, x.shape().end()); }

// Each sample without parameters, with a weight, and with a weight and a bias, up to `most` of
// them.
std::vector<Row> with_parameters(const Row& row, size_t most,
                                 const std::function<Shape(const Shape&)>& shape_of) {
  const char* names[] = {"", "weight", "weight and bias"};
  std::vector<Row> rows;
  for (size_t n = 0; n <= most; ++n) {
    rows.push_back(row);
    rows.back().variant =
        concat_to_string(row.variant, row.variant.empty() || n == 0 ? "" : ", ", names[n]);
    for (std::vector<Shape>& sample : rows.back().samples) {
      sample.insert(sample.end(), n, shape_of(sample[0]));
    }
    if (n > 0) rows.back().refusals.clear();
  }
  return rows;
}

// Each group has at least a few different elements, which keeps rstd small, and with it every
// rounding error.
const Tolerance kTolerance = {
    .float64 = 1e-10, .float32 = 2e-5, .float16 = 8e-3, .bfloat16 = 6e-2, .gradient = 6};

Tensor make(const Shape& shape, Device d, DType dtype = kFloat32) {
  return ones(shape, {.dtype = dtype, .device = d});
}

std::vector<Refusal> row_refusals(
    const std::string& star, const std::string& kernel,
    const std::function<Tensor(const Tensor&, const Shape&, const Tensor&)>& f) {
  return {{"shape",
           [f](Device d) {
             return f(make({2, 3}, d), {4}, {});
           },
           "Given normalized_shape=[4], expected input with shape [" + star +
               "4], but got input of size[2, 3]"},
          {"more dimensions",
           [f](Device d) {
             return f(make({2, 3}, d), {5, 2, 3}, {});
           },
           "Given normalized_shape=[5, 2, 3], expected input with shape [" + star +
               "5, 2, 3], but got input of size[2, 3]"},
          {"no dimension",
           [f](Device d) {
             return f(make({2, 3}, d), {}, {});
           },
           "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
           "element, but got normalized_shape = []"},
          {"weight",
           [f](Device d) {
             return f(make({2, 3}, d), {3}, make({4}, d));
           },
           "Expected weight to be of same shape as normalized_shape, but got weight of shape [4] "
           "and normalized_shape = [3]"},
          {"weight's dtype",
           [f](Device d) {
             return f(make({2, 3}, d), {3}, make({3}, d, kFloat64));
           },
           "expected scalar type Float but found Double"},
          {"integers",
           [f](Device d) {
             return f(make({2, 3}, d, kInt64), {3}, {});
           },
           "\"" + kernel + "\" not implemented for 'Long'"}};
}

std::vector<Row> row_norms() {
  std::vector<Row> rows;
  for (const int dims : {1, 2}) {
    const auto shape = [dims](const Shape& x) { return Shape(x.end() - dims, x.end()); };
    const std::vector<std::vector<Shape>> samples =
        dims == 1 ? std::vector<std::vector<Shape>>{{{3, 5}},    {{2, 3, 4}}, {{7}},     {{3, 64}},
                                                    {{2, 1025}}, {{0, 3}},    {{70, 33}}}
                  : std::vector<std::vector<Shape>>{{{3, 2, 3}}, {{2, 5, 8, 3}}, {{2, 41, 25}}};
    const Row layer{.name = "layer_norm",
                    .variant = concat_to_string(dims, "d"),
                    .f =
                        [=](const Tensors& x) {
                          return layer_norm(x[0], tail(x[0], dims), at(x, 1), at(x, 2));
                        },
                    .reference = reference(in_rows(dims), 1e-5),
                    .samples = samples,
                    .dtypes = floating(),
                    .tolerance = kTolerance,
                    .refusals = row_refusals("*, ", "LayerNormKernelImpl",
                                             [](const Tensor& x, const Shape& s, const Tensor& w) {
                                               return layer_norm(x, s, w);
                                             })};
    const Row rms{
        .name = "rms_norm",
        .variant = concat_to_string(dims, "d"),
        .f = [=](const Tensors& x) { return rms_norm(x[0], tail(x[0], dims), at(x, 1), 1e-6); },
        .reference = reference(in_rows(dims), 1e-6, true),
        .samples = samples,
        .dtypes = floating(),
        .tolerance = kTolerance,
        .refusals = row_refusals(
            "*", "rms_norm",
            [](const Tensor& x, const Shape& s, const Tensor& w) { return rms_norm(x, s, w); })};
    for (const Row& row : with_parameters(layer, 2, shape)) rows.push_back(row);
    for (const Row& row : with_parameters(rms, 1, shape)) rows.push_back(row);
  }
  return rows;
}

std::vector<Row> group_norms() {
  std::vector<Row> rows;
  for (const int64_t groups : {1, 2, 3}) {
    Row row{.name = "group_norm",
            .variant = concat_to_string(groups, " groups"),
            .f = [=](const Tensors& x) { return group_norm(x[0], groups, at(x, 1), at(x, 2)); },
            .reference = reference(in_groups(groups), 1e-5),
            .samples = {{{2, 6, 3}},
                        {{3, 12}},
                        {{1, 6, 5, 7}},
                        {{2, 6, 8, 8}},
                        {{2, 6, 2, 3, 4}},
                        {{0, 6, 2}}},
            .dtypes = floating(),
            .tolerance = kTolerance};
    if (groups == 1) row.samples.push_back({{2, 1, 1100}});
    for (const Row& r : with_parameters(row, 2, [](const Shape& x) { return Shape{x[1]}; })) {
      rows.push_back(r);
    }
  }
  rows[0].refusals = {
      {"no groups",
       [](Device d) {
         return group_norm(make({2, 3}, d), 0);
       },
       "Expected num groups to be greater than 0, got 0"},
      {"channels",
       [](Device d) {
         return group_norm(make({2, 3}, d), 2);
       },
       "Expected number of channels in input to be divisible by num_groups, but got input of shape "
       "[2, 3] and num_groups=2"},
      {"weight",
       [](Device d) {
         return group_norm(make({2, 4}, d), 2, make({3}, d));
       },
       "Expected weight to be a vector of size equal to the number of channels in input, but got "
       "weight of shape [3] and input of shape [2, 4]"},
      {"bias",
       [](Device d) {
         return group_norm(make({2, 4}, d), 2, {}, make({4, 1}, d));
       },
       "Expected bias to be a vector of size equal to the number of channels in input, but got "
       "bias of shape [4, 1] and input of shape [2, 4]"},
      {"dimensions", [](Device d) { return group_norm(make({4}, d), 2); },
       "Expected at least 2 dimensions for input tensor but received 1"},
      {"one value",
       [](Device d) {
         return group_norm(make({1, 4}, d), 4);
       },
       "Expected more than 1 value per channel when training, got input size [1, 4]"},
      {"integers",
       [](Device d) {
         return group_norm(make({2, 4}, d, kInt64), 2);
       },
       "\"GroupNormKernelImpl\" not implemented for 'Long'"}};
  return rows;
}

// Running statistics first + step * c for each channel c.
Tensor running(const Tensor& x, double first, double step) {
  std::vector<double> values;
  for (int64_t c = 0; c < x.size(1); ++c) values.push_back(first + step * double(c));
  const DType wide = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  return tensor_of(values.data(), {x.size(1)}, {.dtype = wide, .device = x.device()});
}

Array by_running(const std::vector<Array>& x) {
  Array y = x[0];
  for (size_t i = 0; i < y.v.size(); ++i) {
    const size_t c = size_t(in_channel(y.shape, int64_t(i)).channel);
    y.v[i] = (y.v[i] - (-1 + 0.25 * double(c))) / std::sqrt(1 + 0.5 * double(c) + 1e-5);
    if (x.size() > 1) y.v[i] *= x[1].v[c];
    if (x.size() > 2) y.v[i] += x[2].v[c];
  }
  return y;
}

// Returns x in the channels-last layout, which convolutions produce.
Tensor channels_last(const Tensor& x) { return movedim(movedim(x, 1, -1).contiguous(), -1, 1); }

std::vector<Refusal> batch_refusals() {
  return {{"no statistics",
           [](Device d) {
             return batch_norm(make({2, 3}, d));
           },
           "running_mean must be defined in evaluation mode"},
          {"no variance",
           [](Device d) {
             return batch_norm(make({2, 3}, d), make({3}, d));
           },
           "running_var must be defined in evaluation mode"},
          {"mean alone",
           [](Device d) {
             return batch_norm(make({2, 3}, d), make({3}, d), {}, {.training = true});
           },
           "running_mean and running_var must either both be defined or both be undefined"},
          {"one value",
           [](Device d) {
             return batch_norm(make({1, 3, 1}, d), {}, {}, {.training = true});
           },
           "Expected more than 1 value per channel when training, got input size [1, 3, 1]"},
          {"running_mean",
           [](Device d) {
             return batch_norm(make({2, 3}, d), make({4}, d), make({3}, d));
           },
           "running_mean should contain 3 elements not 4"},
          {"weight",
           [](Device d) {
             return batch_norm(make({2, 3}, d), {}, {}, {.weight = make({4}, d), .training = true});
           },
           "weight should contain 3 elements not 4"},
          {"eps",
           [](Device d) {
             return batch_norm(make({2, 3}, d), {}, {}, {.training = true, .eps = 0});
           },
           "batch_norm eps must be positive, but got 0"},
          {"integers",
           [](Device d) {
             return batch_norm(make({2, 3}, d, kInt64), {}, {}, {.training = true});
           },
           "\"batch_norm\" not implemented for 'Long'"},
          {"statistics' dtype",
           [](Device d) {
             return batch_norm(make({2, 3}, d), make({3}, d, kFloat64), make({3}, d, kFloat64));
           },
           "expected scalar type Float but found Double"}};
}

std::vector<Row> batch_norms() {
  Row training{.name = "batch_norm",
               .variant = "training",
               .f =
                   [](const Tensors& x) {
                     return batch_norm(x[0], {}, {},
                                       {.weight = at(x, 1), .bias = at(x, 2), .training = true});
                   },
               .reference = reference(in_channel, 1e-5),
               .samples = {{{5, 3}},
                           {{4, 2, 3}},
                           {{6, 1}},
                           {{2, 3, 5, 7}},
                           {{2, 8, 4, 4}},
                           {{2, 3, 2, 3, 4}},
                           {{0, 3}},
                           {{1100, 2}},
                           {{65, 40}}},
               .dtypes = floating(),
               .tolerance = kTolerance,
               .refusals = batch_refusals()};
  Row last = training, evaluation = training;
  last.variant = "training, channels last";
  last.f = [](const Tensors& x) {
    return batch_norm(channels_last(x[0]), {}, {},
                      {.weight = at(x, 1), .bias = at(x, 2), .training = true});
  };
  last.samples = {{{3, 2, 2, 1}}, {{2, 3, 5, 7}},    {{2, 8, 4, 4}},    {{5, 24, 6, 6}},
                  {{0, 3, 2, 2}}, {{2, 3, 2, 3, 4}}, {{3, 24, 4, 3, 6}}};
  evaluation.variant = "evaluation";
  evaluation.f = [](const Tensors& x) {
    return batch_norm(x[0], running(x[0], -1, 0.25), running(x[0], 1, 0.5),
                      {.weight = at(x, 1), .bias = at(x, 2)});
  };
  evaluation.reference = by_running;
  last.refusals = evaluation.refusals = {};
  std::vector<Row> rows;
  for (const Row& row : {training, last, evaluation}) {
    for (const Row& r : with_parameters(row, 2, [](const Shape& x) { return Shape{x[1]}; })) {
      rows.push_back(r);
    }
  }
  return rows;
}

std::vector<Row> instance_norms() {
  Row own{
      .name = "instance_norm",
      .f =
          [](const Tensors& x) {
            return instance_norm(x[0], {}, {}, {.weight = at(x, 1), .bias = at(x, 2)});
          },
      .reference =
          [](const std::vector<Array>& x) { return reference(in_groups(x[0].shape[1]), 1e-5)(x); },
      .samples = {{{2, 3, 5}}, {{1, 1, 7}}, {{2, 3, 5, 7}}, {{0, 3, 4}}, {{2, 8, 2, 3, 2}}},
      .dtypes = floating(),
      .tolerance = kTolerance,
      .refusals =
          {{"no inner dimension",
            [](Device d) {
              return instance_norm(make({2, 3}, d));
            },
            "Expected more than 1 spatial element when training, got input size "},
           {"one inner element",
            [](Device d) {
              return instance_norm(make({2, 3, 1}, d));
            },
            "Expected more than 1 spatial element when training, got input size "},
           {"no running statistics",
            [](Device d) {
              return instance_norm(make({2, 3, 4}, d), {}, {}, {.use_input_stats = false});
            },
            "Expected running_mean and running_var to be defined when use_input_stats is false"},
           {"one of the two",
            [](Device d) {
              return instance_norm(make({2, 3, 4}, d), make({3}, d));
            },
            "running_mean and running_var must either both be defined or both be undefined"},
           {"weight",
            [](Device d) {
              return instance_norm(make({2, 3, 4}, d), {}, {}, make({2}, d));
            },
            "weight should contain 3 elements not 2"},
           {"integers",
            [](Device d) {
              return instance_norm(make({2, 3, 4}, d, kInt64));
            },
            "\"batch_norm\" not implemented for 'Long'"}}};
  Row given = own;
  given.variant = "running";
  given.f = [](const Tensors& x) {
    return instance_norm(x[0], running(x[0], -1, 0.25), running(x[0], 1, 0.5),
                         {.weight = at(x, 1), .bias = at(x, 2), .use_input_stats = false});
  };
  given.reference = by_running;
  given.refusals.clear();
  std::vector<Row> rows;
  for (const Row& row : {own, given}) {
    for (const Row& r : with_parameters(row, 2, [](const Shape& x) { return Shape{x[1]}; })) {
      rows.push_back(r);
    }
  }
  return rows;
}

std::vector<Row> unit_lengths() {
  std::vector<Row> rows;
  for (const double p : {2.0, 1.0, 3.0}) {
    const Reference divided =
        of_pairs([](double v, double length) { return v / std::max(length, 1e-12); });
    rows.push_back({.name = "normalize",
                    .variant = concat_to_string("p ", p),
                    .f = [p](const Tensors& x) { return normalize(x[0], p); },
                    .reference =
                        [p, divided](const std::vector<Array>& x) {
                          const Array length =
                              reduced(x[0], {1}, true, [p](const std::vector<double>& s) {
                                double sum = 0;
                                for (const double v : s) sum += std::pow(std::abs(v), p);
                                return std::pow(sum, 1 / p);
                              });
                          return divided({x[0], length});
                        },
                    .samples = {{{3, 5}}, {{2, 3, 4}}, {{0, 3}}, {{2, 33}}},
                    .dtypes = floating(),
                    .tolerance = {.float32 = 1e-5, .float16 = 4e-3, .bfloat16 = 3e-2}});
  }
  rows[0].refusals = {{"integers",
                       [](Device d) {
                         return normalize(make({2, 3}, d, kInt64));
                       },
                       "linalg.vector_norm: Expected a floating point or complex tensor as input. "
                       "Got Long"},
                      {"dim", [](Device d) { return normalize(make({3}, d)); },
                       "Dimension out of range (expected to be in range of [-1, 0], but got 1)"}};
  return rows;
}

TEST(Norms, InstanceNormMovesItsRunningStatisticsAsPyTorchDoes) {
  for (const Device device : all_devices()) {
    const Tensor x = reshape(arange(12, {.dtype = kFloat32, .device = device}), {2, 2, 3});
    const Tensor mean = zeros({2}, {.device = device}), var = ones({2}, {.device = device});
    (void)instance_norm(x, mean, var, {}, {}, true, 0.5);
    EXPECT_TRUE(close(mean, {2}, {2, 3.5}, 1e-6));  // halves of (1 + 7) / 2 and of (4 + 10) / 2
    EXPECT_TRUE(close(var, {2}, {1, 1}, 1e-6));
  }
}

}  // namespace

std::vector<Row> norm_rows() {
  std::vector<Row> rows = row_norms();
  for (const Row& row : group_norms()) rows.push_back(row);
  for (const Row& row : batch_norms()) rows.push_back(row);
  for (const Row& row : instance_norms()) rows.push_back(row);
  for (const Row& row : unit_lengths()) rows.push_back(row);
  return rows;
}

}  // namespace taper::v0::test
