// What an element-wise kernel walks over: one output and up to three inputs, broadcast to one
// shape, with dimensions collapsed wherever all operands allow it.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Of a table of ops: whether each stands where its number says.
template <class Row, size_t n> constexpr bool rows_are_in_order(const Row (&rows)[n]) {
  for (size_t i = 0; i < n; ++i) {
    if (size_t(rows[i].op) != i) return false;
  }
  return true;
}

struct Operand {
  void* data = nullptr;  // null on the GPU for a number: then `number` holds it
  DType dtype = kFloat32;
  int64_t strides[kMaxDims] = {};  // in elements, outermost first; 0 where broadcast
  double number = 0;
  int64_t integer = 0;
};

struct TensorIterator {
  int dims = 0;  // at least 1
  int64_t sizes[kMaxDims] = {};
  int64_t numel = 0;
  int device = Device::kNoIndex;  // the GPU that out lives on
  int inputs = 0;
  Operand out;
  Operand in[3];
  // Every operand is either one dense run in the same order (stride 1) or a single number
  // (stride 0): dims is 1.
  bool dense = false;
};

// The output, then the inputs.
template <class Iterator> auto& operand_of(Iterator& iter, int k) {
  return k == 0 ? iter.out : iter.in[k - 1];
}

// Inputs must broadcast to out's shape. On the GPU a 0-dim CPU tensor becomes a number.
TensorIterator make_iterator(const Tensor& out, std::initializer_list<const Tensor*> inputs);
// Over two dense arrays, which may be one where their dtypes are equal.
TensorIterator make_iterator(void* out, DType out_dtype, const void* in, DType in_dtype,
                             int64_t numel, int device);

// The dtype of an element-wise result: tensors with dimensions decide, then 0-dim tensors, then
// numbers, each only where it is of a higher kind (bool < integer < floating). Numbers alone give
// a number, with all its digits.
// https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType result_type(std::initializer_list<const Tensor*> operands);

// The device of an element-wise result. Throws Error in PyTorch's words for operands on two
// devices, naming `op`, shapes and dtypes; 0-dim CPU tensors may meet CUDA tensors.
Device common_device(const char* op, std::initializer_list<const Tensor*> operands);

// What a number that was made a tensor (wrap_scalar) holds.
Scalar number_of(const Tensor& x);

// For ops that let no scalar cross devices (matmul, embedding, losses). `names` are the arguments'.
Device same_device(const char* op, std::initializer_list<const Tensor*> operands,
                   std::initializer_list<const char*> names);

// Refuses other than floating dtypes, in PyTorch's words for a kernel of this name.
void check_floating(const char* kernel, const Tensor& x);

// A new tensor for an element-wise result: the layout of the first operand that has the result's
// shape and is dense, else row-major.
Tensor make_result(std::initializer_list<const Tensor*> operands, DType dtype, Device device);

}  // namespace taper::v0::kernels
