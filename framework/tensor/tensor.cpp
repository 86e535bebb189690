#include "framework/tensor/tensor.h"

#include "framework/base/error.h"
#include "framework/memory/small_blocks.h"
#include "framework/tensor/low_precision_table.h"

namespace taper::v0 {
namespace {

IntrusivePtr<TensorImpl> make_impl(StoragePtr storage, const Shape& shape, const Shape& strides,
                                   int64_t offset, DType dtype) {
  auto* impl = new (allocate_block(sizeof(TensorImpl))) TensorImpl;
  impl->dtype = dtype;
  impl->storage = std::move(storage);
  impl->offset = offset;
  impl->shape = shape;
  impl->strides = strides;
  return IntrusivePtr<TensorImpl>::adopt(impl);
}

}  // namespace

void TensorImpl::destroy(TensorImpl* impl) noexcept {
  if (impl->is_parameter) forget_low_precision_copy(impl);
  if (Node* node = impl->accumulator) impl->free_accumulator(node);
  impl->~TensorImpl();
  free_block(impl, sizeof(TensorImpl));
}

Tensor Tensor::make(const Shape& shape, DType dtype, Device device, bool pinned) {
  const auto nbytes = size_t(shape.nbytes(size_of(dtype)));
  return Tensor(make_impl(pinned ? allocate_pinned(nbytes) : allocate(nbytes, device), shape,
                          contiguous_strides(shape), 0, dtype));
}

Tensor Tensor::make(StoragePtr storage, const Shape& shape, const Shape& strides, int64_t offset,
                    DType dtype) {
  (void)shape.nbytes(size_of(dtype));
  return Tensor(make_impl(std::move(storage), shape, strides, offset, dtype));
}

Tensor view_as(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset) {
  (void)shape.nbytes(x.element_size());
  return Tensor(make_impl(x.storage(), shape, strides, offset, x.dtype()));
}

Tensor empty_like_layout(const Tensor& x, DType dtype) {
  Tensor y = Tensor::make(x.shape(), dtype, x.device());
  if (!x.is_contiguous() && is_dense(x.shape(), x.strides())) y.impl()->strides = x.strides();
  return y;
}

int64_t Tensor::size(IntArg dim) const {
  require<IndexError>(this->dim() != 0, "Dimension specified as ", dim,
                      " but tensor has no dimensions");
  return shape()[wrap_dim(dim, this->dim())];
}
int64_t Tensor::stride(IntArg dim) const { return strides()[wrap_dim(dim, this->dim())]; }
bool Tensor::is_pinned() const { return storage()->pinned; }

std::string Tensor::type() const {
  return concat_to_string(is_cuda() ? "cuda." : "", scalar_type_name(dtype()), "Tensor");
}

void Tensor::refuse_undefined() {
  throw Error("Expected a proper Tensor but got an undefined Tensor");
}

Tensor Tensor::requires_grad_(BoolArg on) const {
  require(!on || is_floating_point(),
          "Only Tensors of floating point and complex dtype can require gradients (got ", dtype(),
          ")");
  if (!is_leaf()) {
    if (on) return *this;
    throw Error(
        "you can only change requires_grad flags of leaf variables. If you want to use a computed "
        "variable in a subgraph that doesn't require differentiation use var_no_grad = "
        "var.detach().");
  }
  checked().requires_grad = on;
  return *this;
}

Tensor Tensor::detach() const {
  Tensor y = taper::view_as(*this, shape(), strides(), storage_offset());
  y.impl()->wrapped_number = impl()->wrapped_number;
  return y;
}

}  // namespace taper::v0
