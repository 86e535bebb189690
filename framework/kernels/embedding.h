// Rows of a table by index, and their gradient.
#pragma once

#include "framework/tensor.h"

namespace taper::kernels {

// table [rows, ...] (any dtype, dense), index of any shape (int64 or int32): out has index's shape
// followed by table's sizes after the first. An index out of range throws IndexError: on the CPU at
// once, on the GPU at the next synchronising call. `op` names the caller in messages.
Tensor take_rows(const char* op, const Tensor& table, const Tensor& index);
// dtable [rows, ...]: rows of dy summed by index, each in the order of positions, without atomics.
Tensor take_rows_backward(const Tensor& dy, const Tensor& index, int64_t rows);

namespace cpu {
void take_rows(const char* op, const Tensor& out, const Tensor& table, const Tensor& index);
void take_rows_backward(const Tensor& dtable, const Tensor& dy, const Tensor& index);
}  // namespace cpu
namespace cuda {
void take_rows(const char* op, const Tensor& out, const Tensor& table, const Tensor& index);
void take_rows_backward(const Tensor& dtable, const Tensor& dy, const Tensor& index);
}  // namespace cuda

}  // namespace taper::kernels
