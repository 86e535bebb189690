#include "framework/kernels/elementwise/broadcast.h"

#include <algorithm>
#include <optional>
#include <span>

namespace taper::v0::kernels {
namespace {

using Operands = std::initializer_list<const Tensor*>;

bool counts(const Tensor* t) { return t && t->defined(); }

bool all_numbers(Operands operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Tensor* x) { return counts(x) && x->impl()->wrapped_number; });
}

// --- loops ---

void set_operand(Operand& operand, const Tensor& x, bool on_gpu) {
  operand.dtype = x.dtype();
  if (on_gpu && x.is_cpu()) {
    const Scalar number = number_of(x);
    operand.number = number.to_double();
    operand.integer = is_floating_point(x.dtype()) ? 0 : number.to_int();
  } else {
    operand.data = x.data_ptr();
  }
}

// Returns whether each operand is a single broadcast number or dense, all in the same order of
// dimensions.
bool is_one_run(const Tensor& out, Operands inputs) {
  if (!is_dense(out.shape(), out.strides())) return false;
  return std::all_of(inputs.begin(), inputs.end(), [&](const Tensor* x) {
    return x->dim() == 0 || (x->shape() == out.shape() && x->strides() == out.strides());
  });
}

void swap_dims(TensorIterator& iter, int a, int b) {
  std::swap(iter.sizes[a], iter.sizes[b]);
  for (int k = 0; k <= iter.inputs; ++k) {
    int64_t* strides = operand_of(iter, k).strides;
    std::swap(strides[a], strides[b]);
  }
}

// Returns whether dimension a should be inside dimension b. The first operand whose strides differ
// decides. The output is the first operand.
bool lies_inside(const TensorIterator& iter, int a, int b) {
  for (int k = 0; k <= iter.inputs; ++k) {
    const int64_t sa = operand_of(iter, k).strides[a], sb = operand_of(iter, k).strides[b];
    if (sa != 0 && sb != 0 && sa != sb) return sa < sb;
  }
  return false;
}

bool can_merge(const TensorIterator& iter, int outer, int inner) {
  for (int k = 0; k <= iter.inputs; ++k) {
    const int64_t* strides = operand_of(iter, k).strides;
    if (strides[outer] != strides[inner] * iter.sizes[inner]) return false;
  }
  return true;
}

// Orders dimensions by stride, and merges adjacent ones that are contiguous for all operands.
void collapse(TensorIterator& iter) {
  for (int i = 1; i < iter.dims; ++i) {
    for (int j = i; j > 0 && lies_inside(iter, j - 1, j); --j) swap_dims(iter, j - 1, j);
  }
  int last = 0;
  for (int i = 1; i < iter.dims; ++i) {
    const bool merged = can_merge(iter, last, i);
    iter.sizes[merged ? last : last + 1] =
        merged ? iter.sizes[last] * iter.sizes[i] : iter.sizes[i];
    if (!merged) ++last;
    for (int k = 0; k <= iter.inputs; ++k) {
      int64_t* strides = operand_of(iter, k).strides;
      strides[last] = strides[i];
    }
  }
  iter.dims = last + 1;
}

// Returns the stride of x along out's dimension d, or 0 if x broadcasts along it.
int64_t stride_along(const Tensor& x, const Tensor& out, int d) {
  const int own = d - (out.dim() - x.dim());
  return own < 0 || x.shape()[own] == 1 ? 0 : x.strides()[own];
}

// --- messages ---

std::string describe(const char* op, Operands operands) {
  std::string text = concat_to_string(" (when computing ", op, " of ");
  const char* separator = "";
  for (const Tensor* x : operands) {
    if (!counts(x)) continue;
    text += concat_to_string(separator, x->shape(), " ", x->dtype());
    separator = " and ";
  }
  return text + ")";
}

// --- promotion ---

using Category = std::optional<DType>;

int kind_of(DType t) { return t == kBool ? 0 : is_floating_point(t) ? 2 : 1; }

// Returns the promoted dtype. Operands of the lower category count only if they are of a higher
// kind, such as floating instead of integer.
Category combine(Category higher, Category lower) {
  if (!higher || !lower) return higher ? higher : lower;
  return kind_of(*lower) > kind_of(*higher) ? promote_types(*higher, *lower) : higher;
}

}  // namespace

TensorIterator make_iterator(const Tensor& out, Operands inputs) {
  TensorIterator iter;
  const bool on_gpu = out.is_cuda();
  iter.numel = out.numel();
  iter.device = out.device().index();
  iter.inputs = int(inputs.size());
  set_operand(iter.out, out, on_gpu);
  int at = 0;
  for (const Tensor* x : inputs) set_operand(iter.in[at++], *x, on_gpu);

  iter.dims = 1;
  if (iter.numel <= 1 || is_one_run(out, inputs)) {
    iter.sizes[0] = iter.numel;
    iter.out.strides[0] = 1;
    for (at = 0; const Tensor* x : inputs) iter.in[at++].strides[0] = x->dim() == 0 ? 0 : 1;
    iter.dense = true;
    return iter;
  }

  int dims = 0;
  for (int d = 0; d < out.dim(); ++d) {
    if (out.shape()[d] == 1) continue;
    iter.sizes[dims] = out.shape()[d];
    iter.out.strides[dims] = out.strides()[d];
    for (at = 0; const Tensor* x : inputs) iter.in[at++].strides[dims] = stride_along(*x, out, d);
    ++dims;
  }
  iter.dims = dims;
  collapse(iter);
  iter.dense = iter.dims == 1 && iter.out.strides[0] == 1;
  for (int k = 0; k < iter.inputs; ++k) {
    iter.dense = iter.dense && (iter.in[k].strides[0] == 0 || iter.in[k].strides[0] == 1);
  }
  return iter;
}

TensorIterator make_iterator(void* out, DType out_dtype, const void* in, DType in_dtype,
                             int64_t numel, int device) {
  TensorIterator iter;
  iter.dims = iter.inputs = 1;
  iter.sizes[0] = iter.numel = numel;
  iter.device = device;
  iter.dense = true;
  iter.out.data = out;
  iter.out.dtype = out_dtype;
  iter.in[0].data = const_cast<void*>(in);
  iter.in[0].dtype = in_dtype;
  iter.out.strides[0] = iter.in[0].strides[0] = 1;
  return iter;
}

Scalar number_of(const Tensor& x) {
  return visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T value = *static_cast<const T*>(x.data_ptr());
    if constexpr (std::is_integral_v<T>) {
      return Scalar(value);
    } else {
      return Scalar(double(value));
    }
  });
}

DType result_type(Operands operands) {
  const bool numbers = all_numbers(operands);
  Category with_dims, zero_dim, number;
  for (const Tensor* x : operands) {
    const DType own = x->dtype();
    const bool wrapped = x->impl()->wrapped_number;
    // If a tensor is among the operands, a C++ floating-point number counts as the default dtype.
    const DType t = wrapped && is_floating_point(own) && !numbers ? kFloat32 : own;
    Category& category = wrapped ? number : x->dim() > 0 ? with_dims : zero_dim;
    category = category ? promote_types(*category, t) : t;
  }
  return *combine(with_dims, combine(zero_dim, number));
}

Device common_device(const char* op, Operands operands) {
  Device common;
  for (const Tensor* x : operands) {
    if (counts(x) && common == Device()) common = x->device();
  }
  if (common == Device()) return common;

  for (const Tensor* x : operands) {
    if (!counts(x) || x->device() == common) continue;
    const bool scalar = x->device() == Device() && x->dim() == 0;
    if (!scalar) {
      throw Error("Expected all tensors to be on the same device, but found at least two devices, ",
                  common, " and ", x->device(), "!", describe(op, operands));
    }
  }
  return common;
}

Device same_device(const char* op, Operands operands, std::initializer_list<const char*> names) {
  const std::span<const Tensor* const> given(operands.begin(), operands.size());
  const auto votes = [&](Device device) {
    return std::count_if(given.begin(), given.end(),
                         [&](const Tensor* x) { return counts(x) && x->device() == device; });
  };
  // The reference is the device of most operands. In a tie, it is the device of the first.
  const Tensor* reference = nullptr;
  for (const Tensor* x : given) {
    if (!counts(x)) continue;
    if (!reference || votes(x->device()) > votes(reference->device())) reference = x;
  }
  if (!reference) return Device();
  for (size_t i = 0; i < given.size(); ++i) {
    if (!counts(given[i]) || given[i]->device() == reference->device()) continue;
    throw Error("Expected all tensors to be on the same device, but got ", names.begin()[i],
                " is on ", given[i]->device(), ", different from other tensors on ",
                reference->device(), " (when checking argument in method ", op, ")");
  }
  return reference->device();
}

void check_floating(const char* kernel, const Tensor& x) {
  if (x.is_floating_point()) return;
  throw NotImplementedError("\"", kernel, "\" not implemented for '", scalar_type_name(x.dtype()),
                            "'");
}

Tensor make_result(Operands operands, DType dtype, Device device) {
  Shape shape = (*operands.begin())->shape();
  for (const Tensor* x : operands) {
    if (x->shape() != shape) shape = broadcast_shapes(shape, x->shape());
  }
  Tensor out = Tensor::make(shape, dtype, device);
  out.impl()->wrapped_number = all_numbers(operands);
  for (const Tensor* x : operands) {
    if (x->shape() != shape || !is_dense(shape, x->strides())) continue;
    if (!x->is_contiguous()) out.impl()->strides = x->strides();
    return out;
  }
  return out;
}

}  // namespace taper::v0::kernels
