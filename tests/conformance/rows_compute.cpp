// Rows of operands on different devices, of different shapes and of different dtypes.
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/print.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

Tensor ones_on(Device device, const Shape& shape) { return ones(shape, {.device = device}); }

Tensor typed(DType dtype) { return ones({2}, {.dtype = dtype}); }

std::string promotions() {
  const Tensor i = typed(kInt64), f = typed(kFloat32), h = typed(kFloat16), b = typed(kBFloat16);
  return py_list((i + f).dtype(), (f + typed(kFloat64)).dtype(), (i + 1.5).dtype(), (b + i).dtype(),
                 (h + b).dtype(), (typed(kBool) + i).dtype(), (i / i).dtype(),
                 (b + tensor(1., {.dtype = kFloat64})).dtype());
}

std::string result_stays() {
  const Tensor a = ones_on("cuda:0", {2});
  const cuda::DeviceGuard guard(1);
  return to_string((a + a).device());
}

void mixed_devices(Rows& rows) {
  rows("mix.add", 1, [] { return to_string(ones_on("cuda:0", {2}) + ones_on("cpu", {2})); });
  rows("mix.add_rev", 1, [] { return to_string(ones_on("cpu", {2}) + ones_on("cuda:0", {2})); });
  rows("mix.two_gpus", 2,
       [] { return to_string(ones_on("cuda:0", {2}) + ones_on("cuda:1", {2})); });
  rows("mix.matmul", 1, [] {
    return to_string(matmul(ones_on("cuda:0", {2, 2}), ones_on("cpu", {2, 2})));
  });
  rows("mix.linear_cpu_input", 1, [] {
    return to_string(Linear(3, 1, {.device = "cuda:0"})(ones_on("cpu", {2, 3})));
  });
  rows("mix.linear_cuda_input", 1, [] {
    return to_string(Linear(3, 1)(ones_on("cuda:0", {2, 3})));
  });
  rows("mix.embedding", 1, [] {
    return to_string(embedding(ones_on("cuda:0", {4, 2}), tensor({0, 1})));
  });
  rows("mix.cross_entropy", 1, [] {
    return to_string(cross_entropy(ones_on("cuda:0", {2, 3}), tensor({0, 1})));
  });
  rows("mix.conv", 1, [] {
    return to_string(conv2d(ones_on("cpu", {1, 1, 4, 4}), ones_on("cuda:0", {1, 1, 3, 3})));
  });
  rows("mix.index", 1,
       [] { return to_string(ones_on("cpu", {3})[tensor({0}, {.device = "cuda:0"})]); });
  rows("mix.out_of_scalar_cpu", 1, [] { return to_string(ones_on("cuda:0", {2}) + tensor(1.)); });
  rows("mix.cpu_tensor_cuda_scalar", 1,
       [] { return to_string(ones_on("cpu", {2}) + tensor(1., {.device = "cuda:0"})); });
  rows("result_stays", 2, result_stays);
  rows("pow_int", 1, [] { return to_string(pow(tensor({1, 2, 3}, {.device = "cuda:0"}), 2)); });
}

void shapes_and_dtypes(Rows& rows) {
  rows("shape.add", 0, [] { return to_string(ones({2, 3}) + ones({2, 4})); });
  rows("shape.matmul", 0, [] { return to_string(matmul(ones({2, 3}), ones({4, 5}))); });
  rows("shape.linear", 0, [] { return to_string(Linear(3, 1)(ones({2, 4}))); });
  rows("shape.cross_entropy", 0, [] {
    return to_string(cross_entropy(ones({2, 3}), tensor({0, 1, 2})));
  });
  rows("embedding.out_of_range_cpu", 0, [] {
    return to_string(embedding(ones({4, 2}), tensor({4})));
  });
  rows("dtype.matmul_mix", 0, [] {
    return to_string(matmul(ones({2, 2}), ones({2, 2}, {.dtype = kFloat64})));
  });
  rows("dtype.promote", 0, promotions).differs_in(kNoTorchPrefix);
}

}  // namespace

void compute_rows(Rows& rows) {
  mixed_devices(rows);
  shapes_and_dtypes(rows);
}

}  // namespace taper::v0::conformance
