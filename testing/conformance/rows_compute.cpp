// Rows of operands that meet: on several devices, of other shapes, of other dtypes.
#include "autograd/ops/binary.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/print.h"
#include "framework/cuda.h"
#include "framework/factories.h"
#include "modules/linear.h"
#include "testing/conformance/families.h"
#include "testing/conformance/python.h"

namespace taper::conformance {
namespace {

Tensor ones_on(Device device, const Shape& shape) { return ones(shape, {.device = device}); }

Tensor typed(DType dtype) { return ones({2}, {.dtype = dtype}); }

std::string promotions() {
  const Tensor i = typed(kInt64), f = typed(kFloat32), h = typed(kFloat16), b = typed(kBFloat16);
  return py_list((i + f).dtype(), (f + typed(kFloat64)).dtype(), (i + 1.5).dtype(), (b + i).dtype(),
                 (h + b).dtype(), (typed(kBool) + i).dtype(), (i / i).dtype(),
                 (b + tensor(1., {.dtype = kFloat64})).dtype());
}

std::string embedding_mix() {
  return to_string(embedding(ones_on("cuda:0", {4, 2}), tensor({0, 1})));
}

std::string cross_entropy_mix() {
  return to_string(cross_entropy(ones_on("cuda:0", {2, 3}), tensor({0, 1})));
}

std::string result_stays() {
  const Tensor a = ones_on("cuda:0", {2});
  const cuda::DeviceGuard guard(1);
  return to_string((a + a).device());
}

std::vector<Row> mixed_devices() {
  return {
      {.name = "mix.add",
       .gpus = 1,
       .run = [] { return to_string(ones_on("cuda:0", {2}) + ones_on("cpu", {2})); }},
      {.name = "mix.add_rev",
       .gpus = 1,
       .run = [] { return to_string(ones_on("cpu", {2}) + ones_on("cuda:0", {2})); }},
      {.name = "mix.two_gpus",
       .gpus = 2,
       .run = [] { return to_string(ones_on("cuda:0", {2}) + ones_on("cuda:1", {2})); }},
      {.name = "mix.matmul",
       .gpus = 1,
       .run =
           [] {
             return to_string(matmul(ones_on("cuda:0", {2, 2}), ones_on("cpu", {2, 2})));
           }},
      {.name = "mix.linear_cpu_input",
       .gpus = 1,
       .run =
           [] {
             return to_string(Linear(3, 1, {.device = "cuda:0"})(ones_on("cpu", {2, 3})));
           }},
      {.name = "mix.linear_cuda_input",
       .gpus = 1,
       .run =
           [] {
             return to_string(Linear(3, 1)(ones_on("cuda:0", {2, 3})));
           }},
      {.name = "mix.embedding", .gpus = 1, .run = embedding_mix},
      {.name = "mix.cross_entropy", .gpus = 1, .run = cross_entropy_mix},
      {.name = "mix.conv",
       .gpus = 1,
       .run =
           [] {
             return to_string(
                 conv2d(ones_on("cpu", {1, 1, 4, 4}), ones_on("cuda:0", {1, 1, 3, 3})));
           }},
      {.name = "mix.index",
       .gpus = 1,
       .run = [] { return to_string(ones_on("cpu", {3})[tensor({0}, {.device = "cuda:0"})]); }},
      {.name = "mix.out_of_scalar_cpu",
       .gpus = 1,
       .run = [] { return to_string(ones_on("cuda:0", {2}) + tensor(1.)); }},
      {.name = "mix.cpu_tensor_cuda_scalar",
       .gpus = 1,
       .run = [] { return to_string(ones_on("cpu", {2}) + tensor(1., {.device = "cuda:0"})); }},
      {.name = "result_stays", .gpus = 2, .run = result_stays},
      {.name = "pow_int",
       .gpus = 1,
       .run =
           [] {
             return to_string(pow(tensor({1, 2, 3}, {.device = "cuda:0"}), 2));
           }},
  };
}

std::vector<Row> shapes_and_dtypes() {
  return {
      {.name = "shape.add",
       .run =
           [] {
             return to_string(ones({2, 3}) + ones({2, 4}));
           }},
      {.name = "shape.matmul",
       .run =
           [] {
             return to_string(matmul(ones({2, 3}), ones({4, 5})));
           }},
      {.name = "shape.linear",
       .run =
           [] {
             return to_string(Linear(3, 1)(ones({2, 4})));
           }},
      {.name = "shape.cross_entropy",
       .run =
           [] {
             return to_string(cross_entropy(ones({2, 3}), tensor({0, 1, 2})));
           }},
      {.name = "embedding.out_of_range_cpu",
       .run =
           [] {
             return to_string(embedding(ones({4, 2}), tensor({4})));
           }},
      {.name = "dtype.matmul_mix",
       .run =
           [] {
             return to_string(matmul(ones({2, 2}), ones({2, 2}, {.dtype = kFloat64})));
           }},
      {.name = "dtype.promote", .run = promotions, .differs = kNoTorchPrefix},
  };
}

}  // namespace

std::vector<Row> compute_rows() {
  std::vector<Row> rows = mixed_devices();
  for (Row& row : shapes_and_dtypes()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace taper::conformance
