#include "framework/kernels/embedding.h"

#include "framework/kernels/copy.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/loop.h"

namespace taper::kernels {
namespace {

void check_index(const char* op, const Tensor& index) {
  if (index.dtype() == kInt64 || index.dtype() == kInt32) return;
  throw Error(
      cat("Expected tensor for argument #1 'indices' to have one of the following scalar "
          "types: Long, Int; but got ",
          scalar_type_name(index.dtype()), " instead (while checking arguments for ", op, ")"));
}

}  // namespace

Tensor take_rows(const char* op, const Tensor& table, const Tensor& index) {
  same_device(op, {&table, &index}, {"self", "index"});
  check_index(op, index);
  if (table.dim() == 0) throw Error(cat(op, " needs a table with at least one dimension"));
  Shape shape = index.shape();
  for (int i = 1; i < table.dim(); ++i) shape.push_back(table.shape()[i]);
  Tensor out = Tensor::make(shape, table.dtype(), table.device());
  if (out.numel() == 0) return out;
  const Tensor rows = dense(table), at = dense(index);
  dispatch(
      table.device(), [&] { cpu::take_rows(op, out, rows, at); },
      [&] { cuda::take_rows(op, out, rows, at); });
  return out;
}

Tensor take_rows_backward(const Tensor& dy, const Tensor& index, int64_t rows) {
  Shape shape = {rows};
  for (int i = index.dim(); i < dy.dim(); ++i) shape.push_back(dy.shape()[i]);
  Tensor dtable = Tensor::make(shape, dy.dtype(), dy.device());
  if (dtable.numel() == 0) return dtable;
  const Tensor from = dense(dy), at = dense(index);
  dispatch(
      dy.device(), [&] { cpu::take_rows_backward(dtable, from, at); },
      [&] { cuda::take_rows_backward(dtable, from, at); });
  return dtable;
}

}  // namespace taper::kernels
