// Tensor: a handle to a strided view of a Storage. Copying a Tensor copies the handle. The
// semantics are PyTorch's (https://pytorch.org/docs/stable/tensors.html) unless stated otherwise.
#pragma once

#include <atomic>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/base/arguments.h"
#include "framework/base/device.h"
#include "framework/base/dtype.h"
#include "framework/base/scalar.h"
#include "framework/base/shape.h"
#include "framework/memory/intrusive_ptr.h"
#include "framework/memory/storage.h"
#include "framework/tensor/method_options.h"

namespace taper::v0 {

class Generator;     // framework/factory/generator.h
struct TensorIndex;  // autograd/ops/index/indexing.h
struct DiffOptions;  // autograd/ops/index/index_ops.h
struct Node;         // autograd/node.h
struct Hooks;        // in autograd/tensor_hooks.h, like the two below
struct TensorHook;
class HookHandle;
struct TensorImpl;  // below

// The part of a tape node that this layer uses.
struct NodeBase {
  explicit NodeBase(void (*at_end)(NodeBase*) noexcept) : end(at_end) {}
  std::atomic<int> refs{1};
  void (*end)(NodeBase*) noexcept;  // called when the last reference is released
  static void destroy(NodeBase* node) noexcept { node->end(node); }
};

// Options of a factory: {.dtype = kInt64, .device = "cuda", .requires_grad = true}. The default
// dtype is float32, or follows from the values.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  Device device = DeviceType::kCpu;
  bool requires_grad = false;
};

// Options of a move: {.non_blocking = true, .copy = true}.
struct ToOptions {
  bool non_blocking = false;
  bool copy = false;
};

class Tensor {
 public:
  Tensor() = default;  // undefined
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Makes this variable a handle to another tensor: `a = b`.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  // Writes into the tensor that an expression returns, like copy_ and fill_: `x[0] = y`,
  // `x.narrow(..) = 3`. Throws Error if the expression returns a copy (x.index({mask}), gather),
  // because no other tensor shares the copy's memory and the write would be lost.
  Tensor operator=(const Tensor& source) &&;
  Tensor operator=(Scalar value) &&;
  // Returns an uninitialized contiguous tensor on a device whose index is resolved. `pinned`
  // requests page-locked CPU memory.
  static Tensor make(const Shape& shape, DType dtype, Device device, bool pinned = false);
  // Returns a view of existing memory.
  static Tensor make(StoragePtr storage, const Shape& shape, const Shape& strides, int64_t offset,
                     DType dtype);

  bool defined() const { return bool(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  // Returns whether both are handles to the same tensor: PyTorch's `a is b`.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // --- shape and place ---
  int dim() const;
  // Returns the size of a dimension. A negative dimension counts from the end. Throws IndexError if
  // it is out of range.
  int64_t size(IntArg dim) const;
  // Returns by value on rvalues so that the result does not dangle.
  const Shape& shape() const&;
  Shape shape() const&& { return shape(); }
  const Shape& sizes() const& { return shape(); }
  Shape sizes() const&& { return shape(); }
  const Shape& strides() const&;
  Shape strides() const&& { return strides(); }
  int64_t stride(IntArg dim) const;
  int64_t storage_offset() const;
  int64_t numel() const;
  DType dtype() const;
  Device device() const;
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  size_t element_size() const { return size_of(dtype()); }
  size_t nbytes() const { return element_size() * size_t(numel()); }
  bool is_floating_point() const { return taper::is_floating_point(dtype()); }
  bool is_contiguous() const;
  bool is_pinned() const;
  const StoragePtr& storage() const&;
  StoragePtr storage() const&& { return storage(); }
  // Returns PyTorch's older type strings: "FloatTensor", "cuda.FloatTensor".
  std::string type() const;

  // --- reading on the host ---
  // Returns the address of the first element, in host or device memory.
  void* data_ptr() const;
  // Returns the elements of a contiguous CPU tensor. Throws TypeError for another dtype, for a CUDA
  // tensor (with the advice to use cpu()), and for a tensor that is not contiguous.
  template <class T> T* data() const { return static_cast<T*>(host_data(dtype_of<T>)); }
  template <class T> std::span<T> span() const { return {data<T>(), size_t(numel())}; }
  // Returns the only element of a tensor on any device as a T. Synchronizes. Throws Error if the
  // tensor does not have exactly one element, or if T cannot represent it: it is out of T's range,
  // or a fraction for an integer T.
  template <class T> T item() const { return item().to_exact<T>(); }
  Scalar item() const;
  // Returns all elements in row-major order as T. A bool is true for nonzero elements. Throws
  // TypeError for a CUDA tensor, like data(). Throws Error, with the position, for an element that
  // T cannot represent: it is out of T's range, or a fraction for an integer T. Floating-point
  // types round to nearest.
  template <class T> std::vector<T> to_vector() const {
    using Element = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;
    std::vector<Element> out{};
    out.resize(size_t(numel()));
    copy_to_host(out.data(), dtype_of<T>);
    if constexpr (std::same_as<T, bool>) {
      return {out.begin(), out.end()};
    } else {
      return out;
    }
  }
  std::vector<float> to_floats() const;

  // --- moving: never changes *this ---
  // Returns the same handle if nothing changes and no copy is requested. Differentiable: the
  // gradient is returned on this device in this dtype.
  [[nodiscard]] Tensor to(Device device, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(DType dtype, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(Device device, DType dtype, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(const Tensor& other, ToOptions options = {}) const;
  [[nodiscard]] Tensor cuda() const;
  [[nodiscard]] Tensor cuda(Device device, ToOptions options = {}) const;
  [[nodiscard]] Tensor cpu() const;
  // Returns a copy in page-locked memory. For CPU tensors only.
  [[nodiscard]] Tensor pin_memory() const;

  // --- the tape ---
  bool requires_grad() const;
  // Sets whether gradients are recorded. Throws Error for integer tensors, and if it is switched
  // off for a tensor that is not a leaf.
  Tensor requires_grad_(BoolArg on = true) const;
  bool is_leaf() const;
  // Returns an undefined tensor until a backward pass has reached this tensor.
  [[nodiscard]] Tensor grad() const;
  // Sets the gradient; an undefined tensor clears it. Throws Error if its shape, dtype or device
  // differ from this tensor's.
  void set_grad(const Tensor& grad) const;
  // Returns the name of the op that produced this tensor ("AddBackward0"), or null for a leaf.
  const char* grad_fn() const;
  void retain_grad() const;
  // Runs the backward pass from this tensor, which has one element if no gradient is given.
  void backward(const BackwardOptions& options = {}) const;
  void backward(const Tensor& gradient, const BackwardOptions& options) const;
  template <class = void>
  void backward(const Tensor& gradient, BoolArg retain_graph = false,
                BoolArg create_graph = false) const {
    backward(gradient, BackwardOptions{retain_graph, create_graph});
  }
  // Registers a hook that is called as hook(dy) whenever the gradient of this tensor has been
  // computed, before it is propagated or accumulated into grad(). Hooks run in the order of
  // registration. A tensor that a hook returns, of the same shape, dtype and device, replaces dy.
  // The types are in autograd/tensor_hooks.h.
  HookHandle register_hook(TensorHook hook) const;
  // Registers a hook that is called as hook(*this) after a backward pass has added to grad() of
  // this leaf.
  HookHandle register_post_accumulate_grad_hook(TensorHook hook) const;
  // Returns a view of the same data that is not on the tape.
  [[nodiscard]] Tensor detach() const;
  // Returns the number of in-place changes of the memory.
  uint32_t version() const;

  // Transposes a tensor of at most two dimensions.
  [[nodiscard]] Tensor t() const;
  [[nodiscard]] Tensor operator[](IntArg index) const { return select(0, index); }
  // Returns a copy of the rows that an integer tensor of any shape selects. Negative indices count
  // from the end. The result is const, because assigning to a copy would have no effect.
  [[nodiscard]] const Tensor operator[](const Tensor& index) const;

  // --- in-place functions; each returns this handle ---
  Tensor zero_() const { return fill_(0); }
  Tensor add_(const Tensor& other, Scalar alpha = 1) const;
  Tensor sub_(const Tensor& other, Scalar alpha = 1) const;
  Tensor mul_(const Tensor& other) const;
  Tensor div_(const Tensor& other) const;
  Tensor pow_(const Tensor& exponent) const;
  Tensor add_(Scalar other) const;
  Tensor sub_(Scalar other) const;
  Tensor mul_(Scalar other) const;
  Tensor div_(Scalar other) const;
  Tensor pow_(Scalar exponent) const;
  Tensor neg_() const;
  Tensor abs_() const;
  Tensor exp_() const;
  Tensor log_() const;
  Tensor sqrt_() const;
  Tensor relu_() const;
  Tensor sigmoid_() const;
  Tensor tanh_() const;
  Tensor clamp_(RealArg low, RealArg high) const;
  // Writes the value where the mask, broadcast to this shape, is true.
  Tensor masked_fill_(const Tensor& mask, Scalar value) const;
  Tensor operator+=(const Tensor& other) const& { return add_(other); }
  Tensor operator-=(const Tensor& other) const& { return sub_(other); }
  Tensor operator*=(const Tensor& other) const& { return mul_(other); }
  Tensor operator/=(const Tensor& other) const& { return div_(other); }
  Tensor operator+=(Scalar other) const& { return add_(other); }
  Tensor operator-=(Scalar other) const& { return sub_(other); }
  Tensor operator*=(Scalar other) const& { return mul_(other); }
  Tensor operator/=(Scalar other) const& { return div_(other); }
  // These allow `x[0] += y`. On an expression that returns a copy they throw, like `=`.
  Tensor operator+=(const Tensor& other) const&& { return assigned().add_(other); }
  Tensor operator-=(const Tensor& other) const&& { return assigned().sub_(other); }
  Tensor operator*=(const Tensor& other) const&& { return assigned().mul_(other); }
  Tensor operator/=(const Tensor& other) const&& { return assigned().div_(other); }
  Tensor operator+=(Scalar other) const&& { return assigned().add_(other); }
  Tensor operator-=(Scalar other) const&& { return assigned().sub_(other); }
  Tensor operator*=(Scalar other) const&& { return assigned().mul_(other); }
  Tensor operator/=(Scalar other) const&& { return assigned().div_(other); }

  // --- operators: x.exp() calls exp(x); the contracts are in autograd/ops/ ---
  // The installed copy of this header contains the declarations in place of the include.
#include "framework/tensor/tensor_methods.h"

 private:
  // Throws Error for an undefined tensor.
  TensorImpl& checked() const {
    if (!impl_) [[unlikely]]
      refuse_undefined();
    return *impl_.get();
  }
  [[noreturn]] static void refuse_undefined();
  void* host_data(DType wanted) const;
  void copy_to_host(void* out, DType dtype) const;
  void check_elements_fit(DType wanted) const;
  // Returns *this, the left side of an assignment to an expression. Throws Error for an undefined
  // tensor, and for a copy that no other tensor shares.
  const Tensor& assigned() const;

  IntrusivePtr<TensorImpl> impl_;
};

// A tensor with its path in a module or file: {"net.0.weight", w}.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// The object behind the handle. Users access it through Tensor; ops and the tape use it directly.
struct TensorImpl {
  std::atomic<int> refs{1};
  DType dtype = kFloat32;
  bool requires_grad = false;
  bool is_parameter = false;
  // Whether this is a view that was created in no-grad mode, of a constant or of a recorded tensor.
  enum NoGradView : uint8_t { kNone, kOfConstant, kOfRecorded } no_grad_view = kNone;
  // Whether the tensor was created from a C++ number, or only from such tensors. In type promotion
  // only its kind counts.
  bool wrapped_number = false;
  // The number of places in modules that hold this tensor as a parameter or buffer. Optimizers use
  // it to detect a parameter that its module has given up.
  std::atomic<uint16_t> module_places{0};
  // The index of this tensor among the outputs of grad_fn.
  uint32_t output = 0;
  // The number of times that in-place functions gave this tensor another grad_fn. In a view, it is
  // the base's number when the view's own grad_fn was created. If the numbers differ, the view's
  // grad_fn is created again.
  std::atomic<uint32_t> history{0};
  StoragePtr storage;
  int64_t offset = 0;  // in elements
  Shape shape, strides;

  // The node of the op that produced this tensor; null for leaves.
  IntrusivePtr<NodeBase> grad_fn;
  // The node that accumulates into `grad`. It is created on first use and freed with this tensor.
  std::atomic<Node*> accumulator{nullptr};
  void (*free_accumulator)(Node*) = nullptr;
  IntrusivePtr<TensorImpl> grad;
  // The tensor that this is a view of, which is itself not a view; null if the tape does not need
  // it.
  IntrusivePtr<TensorImpl> base;

  // Returns whether an op produced this tensor, or it is a view of memory that a recorded op has
  // since written. (The order of the checks matters: another thread may be setting grad_fn of that
  // view.)
  bool on_tape() const { return (base && base->history != history) || grad_fn.get(); }
  // Returns the address of the first element, for the host or a kernel. Waits if an asynchronous
  // copy still uses the host memory.
  void* data() const {
    if (const auto wait = storage->wait_for_transfers.load(std::memory_order_acquire))
      wait(*storage);
    return address();
  }
  // Like data(), but does not wait. Used for copies in stream order.
  void* address() const {
    // Computed as an integer, because an empty tensor may have an offset but no memory.
    const auto place = reinterpret_cast<uintptr_t>(storage->data);
    return reinterpret_cast<void*>(place + uintptr_t(offset) * size_of(dtype));
  }
  static void destroy(TensorImpl* impl) noexcept;
};

// --- views that are not on the tape, for ops ---
// Returns a view of the same memory with other sizes. The result is detached.
Tensor view_as(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset);
// Returns an uninitialized tensor with the layout of x if x is dense, otherwise a contiguous one.
Tensor empty_like_layout(const Tensor& x, DType dtype);

inline int Tensor::dim() const { return checked().shape.size(); }
inline const Shape& Tensor::shape() const& { return checked().shape; }
inline const Shape& Tensor::strides() const& { return checked().strides; }
inline int64_t Tensor::storage_offset() const { return checked().offset; }
inline int64_t Tensor::numel() const { return checked().shape.numel(); }
inline DType Tensor::dtype() const { return checked().dtype; }
inline Device Tensor::device() const { return checked().storage->device; }
inline const StoragePtr& Tensor::storage() const& { return checked().storage; }
inline void* Tensor::data_ptr() const { return checked().data(); }
inline bool Tensor::is_contiguous() const {
  return taper::is_contiguous(checked().shape, checked().strides);
}
inline bool Tensor::requires_grad() const { return checked().requires_grad || checked().on_tape(); }
inline bool Tensor::is_leaf() const { return !checked().on_tape(); }
inline uint32_t Tensor::version() const { return checked().storage->version.load(); }

}  // namespace taper::v0
