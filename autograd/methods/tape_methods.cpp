// The methods of Tensor that belong to the tape. Operators are defined in autograd/ops/.
#include <algorithm>

#include "autograd/engine.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/shape_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

Tensor Tensor::to(Device device, ToOptions options) const {
  return to_copy(*this, device, dtype(), options);
}
Tensor Tensor::to(DType dtype, ToOptions options) const {
  return to_copy(*this, device(), dtype, options);
}
Tensor Tensor::to(Device device, DType dtype, ToOptions options) const {
  return to_copy(*this, device, dtype, options);
}
Tensor Tensor::to(const Tensor& other, ToOptions options) const {
  return to_copy(*this, other.device(), other.dtype(), options);
}
Tensor Tensor::cuda() const { return cuda(Device(DeviceType::kCuda)); }
Tensor Tensor::cuda(Device device, ToOptions options) const {
  require(device.is_cuda(), "Invalid device, must be cuda device (got ", device, ")");
  return to_copy(*this, device, dtype(), options);
}
Tensor Tensor::cpu() const { return to_copy(*this, Device(), dtype()); }

Tensor Tensor::grad() const {
  const Node* node = node_of(*this);
  if (!node) return Tensor(checked().grad);
  for (const auto& [output, kept] : node->retained) {
    if (output == checked().output) return kept;
  }
  return {};
}

void Tensor::set_grad(const Tensor& grad) const {
  const auto check = [](const char* what, bool same, const auto& got, const auto& own) {
    require(same, "attempting to assign a gradient ", what, " '", got, "' to a tensor ", what, " '",
            own, "'. Please ensure that the gradient and the tensor are the same");
  };
  if (grad.defined()) {
    check("of size", grad.shape() == shape(), grad.shape(), shape());
    check("with device type", grad.device() == device(), grad.device(), device());
    check("with dtype", grad.dtype() == dtype(), grad.dtype(), dtype());
  }
  checked().grad = IntrusivePtr<TensorImpl>::share(grad.impl());
}

const char* Tensor::grad_fn() const {
  const Node* node = node_of(*this);
  return node ? node->name : nullptr;
}

void Tensor::retain_grad() const {
  require(requires_grad(), "can't retain_grad on a Tensor that does not require grad");
  if (is_leaf()) return;
  auto& retained = node_of(*this)->retained;
  const bool known = std::any_of(retained.begin(), retained.end(),
                                 [&](const auto& r) { return r.first == checked().output; });
  if (!known) retained.push_back({checked().output, Tensor()});
}

void Tensor::backward(const BackwardOptions& options) const { backward(Tensor(), options); }
void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  taper::backward({this, 1}, {&gradient, 1}, options.retain_graph, options.create_graph);
}

Tensor Tensor::t() const {
  require(dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", dim(), "D");
  return dim() < 2 ? *this : transpose(0, 1);
}
const Tensor Tensor::operator[](const Tensor& index) const { return taper::index(*this, index); }

}  // namespace taper::v0
