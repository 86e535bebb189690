// Tensor: a handle on a strided view of a Storage. Copying a Tensor copies the handle.
// Semantics are PyTorch's (https://pytorch.org/docs/stable/tensors.html) unless said otherwise.
#pragma once

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
#include "framework/memory/atomic.h"
#include "framework/memory/intrusive_ptr.h"
#include "framework/memory/storage.h"

namespace taper::v0 {

class Generator;          // framework/factory/generator.h
struct TensorIndex;       // autograd/ops/index/indexing.h
enum class QuantileMode;  // autograd/ops/index/order.h
struct Node;              // autograd/node.h
struct Hooks;             // autograd/tensor_hooks.h, as are the two below
struct TensorHook;
class HookHandle;
struct TensorImpl;  // below

// What this layer knows of a node of the tape.
struct NodeBase {
  explicit NodeBase(void (*at_end)(NodeBase*) noexcept) : end(at_end) {}
  Atomic<int> refs{1};
  void (*end)(NodeBase*) noexcept;  // called with the last reference
  static void destroy(NodeBase* node) noexcept { node->end(node); }
};

// What a factory makes: {.dtype = kInt64, .device = "cuda", .requires_grad = true}.
// Without a dtype: float32, or what the values say.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  Device device = DeviceType::cpu;
  bool requires_grad = false;
};

// How a tensor is moved: {.non_blocking = true, .copy = true}.
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
  // A variable becomes another handle: `a = b`.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  // Writes into the tensor that an expression gives, as copy_ and fill_ do: `x[0] = y`,
  // `x.narrow(..) = 3`. Throws Error for an expression that gives a copy (x.index({mask}), gather):
  // its memory has no other owner, so the write would be lost.
  Tensor operator=(const Tensor& source) &&;
  Tensor operator=(Scalar value) &&;
  // Uninitialised, dense row-major, on a device whose index is resolved; `pinned`: of the CPU's, in
  // page-locked memory.
  static Tensor make(const Shape& shape, DType dtype, Device device, bool pinned = false);
  // A view of given memory.
  static Tensor make(StoragePtr storage, const Shape& shape, const Shape& strides, int64_t offset,
                     DType dtype);

  bool defined() const { return bool(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  // The same handle: PyTorch's `a is b`.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // --- shape and place ---
  int dim() const;
  // Counts a negative dimension from the end; throws IndexError beyond.
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
  // "FloatTensor", "cuda.FloatTensor": PyTorch's older type strings.
  std::string type() const;

  // --- reading on the host ---
  // Address of the first element, wherever it is.
  void* data_ptr() const;
  // The elements of a dense CPU tensor. Throws TypeError for another dtype, for a CUDA tensor
  // (with the advice to use cpu()) and for one that is not contiguous.
  template <class T> T* data() const { return static_cast<T*>(host_data(dtype_of<T>)); }
  template <class T> std::span<T> span() const { return {data<T>(), size_t(numel())}; }
  // Returns the one element of a tensor on any device as a T. Synchronizes. Throws Error when there
  // is not exactly one, and when T cannot hold it: beyond T's range, or a fraction for an integer
  // T.
  template <class T> T item() const { return item().to_exact<T>(); }
  Scalar item() const;
  // Returns all elements in row-major order as T; a bool is true for what is not 0. Throws
  // TypeError for a CUDA tensor like data(), and Error, with its place, for an element that T
  // cannot hold: beyond T's range, or a fraction for an integer T. Float types round to the
  // nearest.
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
  // Returns *this (the same handle) when nothing changes and no copy is asked for. Recorded on the
  // tape; the gradient comes back on this device in this dtype.
  [[nodiscard]] Tensor to(Device device, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(DType dtype, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(Device device, DType dtype, ToOptions options = {}) const;
  [[nodiscard]] Tensor to(const Tensor& other, ToOptions options = {}) const;
  [[nodiscard]] Tensor cuda() const;
  [[nodiscard]] Tensor cuda(Device device, ToOptions options = {}) const;
  [[nodiscard]] Tensor cpu() const;
  // A copy in page-locked memory (CPU tensors only).
  [[nodiscard]] Tensor pin_memory() const;

  // --- the tape ---
  bool requires_grad() const;
  // Refused for integers and for tensors that are not leaves.
  Tensor requires_grad_(BoolArg on = true) const;
  bool is_leaf() const;
  // Undefined until a backward pass has reached this tensor.
  [[nodiscard]] Tensor grad() const;
  // Undefined clears it. Refused when shape, dtype or device differ from this tensor's.
  void set_grad(const Tensor& grad) const;
  // The name of the op that made this tensor ("AddBackward0"), or null for a leaf.
  const char* grad_fn() const;
  void retain_grad() const;
  // Runs the tape from this tensor. Without a gradient it must have one element.
  void backward(const Tensor& gradient = {}, BoolArg retain_graph = false,
                BoolArg create_graph = false) const;
  // hook(dy) runs whenever the gradient of this tensor is computed, before it goes on (or into
  // grad()), in order of registration; a tensor that it returns, of the same shape, dtype and
  // device, replaces dy. autograd/tensor_hooks.h has the types.
  HookHandle register_hook(TensorHook hook) const;
  // hook(*this) runs when a backward pass has added to grad() of this leaf.
  HookHandle register_post_accumulate_grad_hook(TensorHook hook) const;
  // The same data, outside the tape.
  [[nodiscard]] Tensor detach() const;
  // Version of the memory: how often it was changed in place.
  uint32_t version() const;

  // Matrix transpose of a tensor with at most two dimensions.
  [[nodiscard]] Tensor t() const;
  [[nodiscard]] Tensor operator[](IntArg index) const { return select(0, index); }
  // Rows named by an integer tensor of any shape; negative numbers count from the end. A copy, and
  // const, for assigning to it would change nothing.
  [[nodiscard]] const Tensor operator[](const Tensor& index) const;

  // --- in place; each returns this handle ---
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
  // value where mask (broadcast to this shape) is true.
  Tensor masked_fill_(const Tensor& mask, Scalar value) const;
  Tensor operator+=(const Tensor& other) const& { return add_(other); }
  Tensor operator-=(const Tensor& other) const& { return sub_(other); }
  Tensor operator*=(const Tensor& other) const& { return mul_(other); }
  Tensor operator/=(const Tensor& other) const& { return div_(other); }
  Tensor operator+=(Scalar other) const& { return add_(other); }
  Tensor operator-=(Scalar other) const& { return sub_(other); }
  Tensor operator*=(Scalar other) const& { return mul_(other); }
  Tensor operator/=(Scalar other) const& { return div_(other); }
  // `x[0] += y`. On an expression that gives a copy they throw as `=` does.
  Tensor operator+=(const Tensor& other) const&& { return assigned().add_(other); }
  Tensor operator-=(const Tensor& other) const&& { return assigned().sub_(other); }
  Tensor operator*=(const Tensor& other) const&& { return assigned().mul_(other); }
  Tensor operator/=(const Tensor& other) const&& { return assigned().div_(other); }
  Tensor operator+=(Scalar other) const&& { return assigned().add_(other); }
  Tensor operator-=(Scalar other) const&& { return assigned().sub_(other); }
  Tensor operator*=(Scalar other) const&& { return assigned().mul_(other); }
  Tensor operator/=(Scalar other) const&& { return assigned().div_(other); }

  // --- operators: x.exp() is exp(x), whose contract stands in autograd/ops/ ---
  // One for each function there whose first argument is a tensor, but for those of nn/. The build
  // makes them (scripts/methods.sh); in the header that is installed they stand here.
#include "framework/tensor/tensor_methods.h"

 private:
  // Throws for an undefined tensor.
  TensorImpl& checked() const {
    if (!impl_) [[unlikely]]
      refuse_undefined();
    return *impl_.get();
  }
  [[noreturn]] static void refuse_undefined();
  void* host_data(DType wanted) const;
  void copy_to_host(void* out, DType dtype) const;
  void check_elements_fit(DType wanted) const;
  // Returns *this, an expression on the left of an assignment. Throws for an undefined tensor, and
  // for a copy that nobody else can read.
  const Tensor& assigned() const;

  IntrusivePtr<TensorImpl> impl_;
};

// Marks tensors for cat of framework/base/error.h, which joins text and refuses them.
void marks_a_tensor(const Tensor&);

// A tensor and its path in a module or file: {"net.0.weight", w}.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// What a handle points to. Users reach it through Tensor; ops and the tape use it directly.
struct TensorImpl {
  Atomic<int> refs{1};
  DType dtype = kFloat32;
  bool requires_grad = false;
  bool is_parameter = false;
  // A view that was made while nothing was recorded: of a constant, or of what is on the tape.
  enum NoGradView : uint8_t { none, of_constant, of_recorded } no_grad_view = none;
  // Made of a C++ number, or of such numbers alone: takes part in type promotion by its kind only.
  bool wrapped_number = false;
  // Which output of grad_fn this is.
  uint32_t output = 0;
  // How often in-place functions gave this tensor another grad_fn. In a view: the base's count at
  // the time of the view's own grad_fn, which is made anew when they differ.
  Atomic<uint32_t> history{0};
  StoragePtr storage;
  int64_t offset = 0;  // in elements
  Shape shape, strides;

  // The op that made this tensor; none for leaves.
  IntrusivePtr<NodeBase> grad_fn;
  // The node that adds into `grad`: made when first asked for, and freed with this tensor.
  Atomic<Node*> accumulator{nullptr};
  void (*free_accumulator)(Node*) = nullptr;
  IntrusivePtr<TensorImpl> grad;
  // The tensor that this is a view of, itself no view; none when the tape does not care.
  IntrusivePtr<TensorImpl> base;

  // Made by an op, or a view of memory into which a recorded op wrote since. (Asked in this order,
  // for another thread may be giving that view its grad_fn.)
  bool on_tape() const { return (base && base->history != history) || grad_fn.get(); }
  // The first element, for the host or for a kernel; host memory that an asynchronous copy still
  // uses is waited for.
  void* data() const {
    if (const auto settle = storage->settle.load(__ATOMIC_ACQUIRE)) settle(*storage);
    return address();
  }
  // The same without waiting, for copies in stream order.
  void* address() const {
    // As a number, because an empty tensor may have an offset and no memory.
    const auto place = reinterpret_cast<uintptr_t>(storage->data);
    return reinterpret_cast<void*>(place + uintptr_t(offset) * size_of(dtype));
  }
  static void destroy(TensorImpl* impl) noexcept;
};

// --- views without a tape, for ops ---
// The same memory seen with other sizes; the result is detached.
Tensor view_as(const Tensor& x, const Shape& shape, const Shape& strides, int64_t offset);
// Uninitialised, with the layout of x when x is dense, else row-major.
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
