// The methods of Tensor that read its elements on the host.
#include <cctype>
#include <string>

#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {
namespace {

// Returns the name of a dtype's constant: "kFloat32".
std::string constant_of(DType t) {
  std::string name = name_of(t);
  const size_t capitals = t == kBFloat16 ? 2 : t == kUInt8 ? 2 : 1;
  for (size_t i = 0; i < capitals; ++i) name[i] = char(std::toupper(name[i]));
  return "k" + name;
}

}  // namespace

void* Tensor::host_data(DType wanted) const {
  require<TypeError>(!is_cuda(), "can't read ", device(), " device type tensor on the host. ",
                     "Use Tensor.cpu() to copy the tensor to host memory first.");
  if (dtype() != wanted) {
    throw TypeError("expected scalar type ", scalar_type_name(wanted), " but found ",
                    scalar_type_name(dtype()), "; use to(", constant_of(wanted), ") or to_vector");
  }
  require(is_contiguous(), "data() needs a contiguous tensor, got shape ", shape(),
          " with strides ", strides(), "; use contiguous() first");
  note_read(*this);
  return data_ptr();
}

// Throws if an element does not fit `wanted`. Rounding between floating-point types and conversion
// to bool are never errors.
void Tensor::check_elements_fit(DType wanted) const {
  const bool is_float = is_floating_point();
  if (wanted == kBool || promote_types(dtype(), wanted) == wanted) return;
  const Tensor host = make(shape(), is_float ? kFloat64 : kInt64, Device());
  kernels::copy_into(host, *this);
  for (int64_t i = 0; i < numel(); ++i) {
    const Scalar value = is_float ? Scalar(host.data<double>()[i]) : host.data<int64_t>()[i];
    const bool is_negative = value.to_double() < 0;
    const bool fits = value.held_by(wanted) && !(wanted == kUInt8 && is_negative) &&
                      (taper::is_floating_point(wanted) || !value.is_fraction());
    if (fits) continue;
    throw Error("to_vector: element ", i, " of a tensor of dtype ", dtype(), " is ",
                value.to_double(), ", which ", wanted,
                " cannot hold; read the tensor in its own dtype, or round or clamp it first");
  }
}

void Tensor::copy_to_host(void* out, DType wanted) const {
  if (is_cuda()) host_data(wanted);  // throws with the advice to call cpu()
  note_read(*this);
  if (dtype() != wanted) check_elements_fit(wanted);
  const auto nothing = [](Storage&) noexcept {};
  StoragePtr storage = borrow(out, size_of(wanted) * size_t(numel()), Device(), nothing);
  kernels::copy_into(make(std::move(storage), shape(), contiguous_strides(shape()), 0, wanted),
                     *this);
}

std::vector<float> Tensor::to_floats() const { return to_vector<float>(); }

Scalar Tensor::item() const {
  require(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  note_read(*this);
  const Tensor host = make({}, compute_type(dtype()) == kInt64 ? kInt64 : kFloat64, Device());
  kernels::copy_into(host, taper::view_as(*this, {}, {}, storage_offset()));
  if (dtype() == kBool) return *host.data<int64_t>() != 0;
  return host.dtype() == kInt64 ? Scalar(*host.data<int64_t>()) : Scalar(*host.data<double>());
}

Tensor Tensor::pin_memory() const {
  if (is_cuda()) throw Error("cannot pin '", type(), "' only dense CPU tensors can be pinned");
  if (is_pinned()) return *this;
  Tensor out = make(shape(), dtype(), Device(), true);
  kernels::copy_into(out, *this);
  return out;
}

}  // namespace taper::v0
