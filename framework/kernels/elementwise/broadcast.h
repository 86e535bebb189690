// The iteration space of an element-wise kernel: one output and up to three inputs, broadcast to
// one shape. Dimensions are collapsed where the strides of all operands allow it.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Returns whether each row of a table of ops is at the index given by its op.
template <class Row, size_t n> constexpr bool rows_are_in_order(const Row (&rows)[n]) {
  for (size_t i = 0; i < n; ++i) {
    if (size_t(rows[i].op) != i) return false;
  }
  return true;
}

struct Operand {
  void* data = nullptr;  // null for a number on the GPU, which `number` holds
  DType dtype = kFloat32;
  int64_t strides[kMaxDims] = {};  // in elements, outermost first; 0 where broadcast
  double number = 0;
  int64_t integer = 0;
};

struct TensorIterator {
  int dims = 0;  // at least 1
  int64_t sizes[kMaxDims] = {};
  int64_t numel = 0;
  int device = Device::kNoIndex;  // the GPU of `out`
  int inputs = 0;
  Operand out;
  Operand in[3];
  // Whether each operand is a dense array in the same order (stride 1) or a single number (stride
  // 0). If so, dims is 1.
  bool dense = false;
};

// Returns the output for k = 0 and the inputs for k >= 1.
template <class Iterator> auto& operand_of(Iterator& iter, int k) {
  return k == 0 ? iter.out : iter.in[k - 1];
}

// Inputs must broadcast to out's shape. On the GPU, a 0-dim CPU tensor becomes a number.
TensorIterator make_iterator(const Tensor& out, std::initializer_list<const Tensor*> inputs);
// Iterates over two dense arrays, which may be the same if their dtypes are equal.
TensorIterator make_iterator(void* out, DType out_dtype, const void* in, DType in_dtype,
                             int64_t numel, int device);

// Returns the dtype of an element-wise result. Tensors with dimensions decide first, then 0-dim
// tensors, then numbers; the later ones count only if they are of a higher kind (bool < integer <
// floating). If all operands are numbers, the result is a number in its widest dtype.
// https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType result_type(std::initializer_list<const Tensor*> operands);

// Returns the device of an element-wise result. 0-dim tensors on "cpu" may be combined with tensors
// of any other device. Otherwise throws Error for operands on two devices, with PyTorch's message,
// `op`, shapes and dtypes.
Device common_device(const char* op, std::initializer_list<const Tensor*> operands);

// Returns the number that a tensor made by wrap_scalar contains.
Scalar number_of(const Tensor& x);

// Returns the device of all operands, for ops that do not accept scalars from another device
// (matmul, embedding, losses). `names` are the names of the arguments.
Device same_device(const char* op, std::initializer_list<const Tensor*> operands,
                   std::initializer_list<const char*> names);

// Throws Error unless x is floating-point. The message is PyTorch's for a kernel with the name
// `kernel`.
void check_floating(const char* kernel, const Tensor& x);

// Creates a tensor for an element-wise result. It has the layout of the first dense operand with
// the result's shape, and is row-major if there is none.
Tensor make_result(std::initializer_list<const Tensor*> operands, DType dtype, Device device);

}  // namespace taper::v0::kernels
