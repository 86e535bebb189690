#include "framework/io/dlpack.h"

#include <memory>

#include <dlpack/dlpack.h>

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

constexpr auto kDlpackBool = DLDataTypeCode(6);  // kDLBool, since version 0.8

DLDataType dlpack_type(DType t) {
  const uint8_t code = t == kBFloat16         ? kDLBfloat
                       : is_floating_point(t) ? kDLFloat
                       : t == kBool           ? kDlpackBool
                       : t == kUInt8          ? kDLUInt
                                              : kDLInt;
  return {code, uint8_t(8 * size_of(t)), 1};
}

// The data behind an exported handle: the tensor, and the arrays that the description points to.
struct Exported {
  Tensor tensor;
  Shape shape, strides;
  DLManagedTensor managed;
};

DType dtype_of_dlpack(const DLDataType& type) {
  for (const DType t : kAllDTypes) {
    const DLDataType own = dlpack_type(t);
    if (type.lanes == 1 && type.code == own.code && type.bits == own.bits) return t;
  }
  throw TypeError("from_dlpack: elements of type code ", int(type.code), ", ", int(type.bits),
                  " bits and ", int(type.lanes), " lanes have no dtype in Taper");
}

Device device_of_dlpack(const DLDevice& device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return {};
  if (device.device_type == kDLCUDA) {
    return cuda::resolve(Device(DeviceType::kCuda, device.device_id));
  }
  throw ValueError("from_dlpack: memory of DLPack's device type ", int(device.device_type),
                   " cannot be used; CPU (1) and CUDA (2) can");
}

void delete_managed(DLManagedTensor* managed) {
  if (managed->deleter) managed->deleter(managed);
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& x) {
  require(!x.requires_grad(), "Can't export tensors that require gradient, use tensor.detach()");
  auto shared = std::make_unique<Exported>(x, x.shape(), x.strides());
  DLTensor& t = shared->managed.dl_tensor;
  t.dtype = dlpack_type(x.dtype());
  t.data = x.data_ptr();
  t.device = x.is_cuda() ? DLDevice{kDLCUDA, x.device().index()}
                         : DLDevice{x.is_pinned() ? kDLCUDAHost : kDLCPU, 0};
  t.ndim = x.dim();
  t.shape = shared->shape.begin();
  t.strides = shared->strides.begin();
  t.byte_offset = 0;
  shared->managed.manager_ctx = shared.get();
  shared->managed.deleter = [](DLManagedTensor* m) {
    delete static_cast<Exported*>(m->manager_ctx);
  };
  return &shared.release()->managed;
}

Tensor from_dlpack(DLManagedTensor* managed) {
  if (!managed) throw ValueError("from_dlpack: there is no tensor, for the pointer is null");
  std::unique_ptr<DLManagedTensor, decltype(&delete_managed)> owner(managed, delete_managed);
  const DLTensor& t = managed->dl_tensor;
  const Shape shape(t.shape, t.shape + t.ndim);
  const Shape strides =
      t.strides ? Shape(t.strides, t.strides + t.ndim) : contiguous_strides(shape);
  const DType dtype = dtype_of_dlpack(t.dtype);
  const Tensor x = from_blob(static_cast<char*>(t.data) + t.byte_offset, shape, strides,
                             [managed](void*) { delete_managed(managed); },
                             {.dtype = dtype, .device = device_of_dlpack(t.device)});
  owner.release();
  return x;
}

}  // namespace taper::v0
