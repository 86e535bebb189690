#include "autograd/ops/linalg/linalg_checks.h"

#include <vector>

#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::linalg {

void check_matrix(const char* op, const Tensor& a) {
  require(a.is_floating_point(), op, ": Expected a floating point tensor as input. Got ",
          scalar_type_name(a.dtype()));
  require(!is_half(a.dtype()), op, ": Low precision dtypes not supported. Got ",
          scalar_type_name(a.dtype()), "; convert the tensor to float32");
  require(a.dim() >= 2, op,
          ": The input tensor A must have at least 2 dimensions, but its shape is ", a.shape());
}

void check_square(const char* op, const Tensor& a) {
  check_matrix(op, a);
  require(a.size(-1) == a.size(-2), op, ": A must be batches of square matrices, but they are ",
          a.size(-2), " by ", a.size(-1), " matrices");
}

void check_pair(const char* op, const Tensor& a, const Tensor& b) {
  kernels::same_device(op, {&a, &b}, {"A", "B"});
  require(a.dtype() == b.dtype(), op,
          ": Expected A and B to have the same dtype, but found A of type ",
          scalar_type_name(a.dtype()), " and B of type ", scalar_type_name(b.dtype()), " instead");
}

Shape batch_of(const Tensor& a) { return {a.shape().begin(), a.shape().end() - 2}; }

Tensor as_batch(const Tensor& a) {
  if (a.dim() == 3) return a;
  return reshape(a, {batch_of(a).numel(), a.size(-2), a.size(-1)});
}

Tensor from_batch(const Tensor& x, const Shape& batch) {
  if (batch.size() == 1) return x;
  const Shape last(x.shape().begin() + 1, x.shape().end());
  return reshape(x, joined(batch, last));
}

Tensor expand_batch(const Tensor& a, const Shape& batch) {
  if (batch_of(a) == batch) return a;
  return expand(a, joined(batch, {a.size(-2), a.size(-1)}));
}

Tensor transposed(const Tensor& a) { return transpose(a, -2, -1); }

void check_info(const char* op, const Tensor& info, bool is_batch,
                std::string (*text)(int64_t info)) {
  const std::vector<int64_t> values = info.cpu().to_vector<int64_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    const std::string place = is_batch ? concat_to_string("(Batch element ", i, "): ") : "";
    throw LinAlgError(op, ": ", place, text(values[i]));
  }
}

}  // namespace taper::v0::linalg
