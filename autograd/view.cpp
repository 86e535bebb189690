#include "autograd/view.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

// Describes a view as a strided window of its base.
struct Window {
  Shape base_shape, base_strides, shape, strides;
  int64_t offset;  // in elements, relative to the base's first element
  Window(const Tensor& base, const Tensor& view)
      : base_shape(base.shape()),
        base_strides(base.strides()),
        shape(view.shape()),
        strides(view.strides()),
        offset(view.storage_offset() - base.storage_offset()) {}
};

// Returns x's values in new memory with the strides of the window's base.
Tensor laid_out(const Tensor& x, const Window& w) {
  int64_t extent = x.numel() == 0 ? 0 : 1;
  for (int i = 0; extent > 0 && i < x.dim(); ++i) extent += (x.shape()[i] - 1) * w.base_strides[i];
  const Tensor memory = Tensor::make({extent}, x.dtype(), x.device());
  Tensor y = view_as(memory, w.base_shape, w.base_strides, 0);
  kernels::copy_into(y, x);
  return y;
}

Tensor look(const Tensor& base, const Window& w) {
  return view_as(base, w.shape, w.strides, base.storage_offset() + w.offset);
}

Tensor window_of(const Tensor& x, const Window& w);
Tensor with_window(const Tensor& x, const Tensor& part, const Window& w);

struct WindowReplaced {
  Window window;
  void operator()(Gradients& g) const {
    if (g.needs(0)) g.dx(0) = with_window(g.dy(), {}, window);
    if (g.needs(1)) g.dx(1) = window_of(g.dy(), window);
  }
};

bool repeats(const Tensor& x) {
  for (int i = 0; i < x.dim(); ++i) {
    if (x.strides()[i] == 0 && x.shape()[i] > 1) return true;
  }
  return false;
}

// Computes the gradient of window_of: dy inside the window and 0 outside. Sums over expanded
// dimensions.
Tensor scatter(const Tensor& dy, Window w) {
  struct Step {
    int64_t stride, size;
  };
  std::vector<Step> steps;
  for (int i = 0; i < w.shape.size(); ++i) {
    if (w.strides[i] == 0) w.shape[i] = 1;
    if (w.shape[i] > 1) steps.push_back({w.strides[i], w.shape[i]});
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    require<NotImplementedError>(stride > reach, "the gradient of a view that overlaps itself (",
                                 w.shape, " with strides ", w.strides,
                                 "), after its base was changed in place");
    reach += (size - 1) * stride;
  }
  const Tensor zero = zeros(w.base_shape, {.dtype = dy.dtype(), .device = dy.device()});
  return with_window(zero, sum_to(dy, w.shape), w);
}

// Returns the part of x that the window covers. x has base_shape and any strides. Differentiable.
Tensor window_of(const Tensor& x, const Window& w) {
  Tensor y = look(x.strides() == w.base_strides ? x : laid_out(x, w), w);
  if (!needs_grad({x})) return y;
  return record("AsStridedBackward0", y, {x}, [w](Gradients& g) { g.dx(0) = scatter(g.dy(), w); });
}

// Returns x with the window replaced by `part`, or by zeros if it is undefined. The window must not
// overlap itself. Differentiable.
Tensor with_window(const Tensor& x, const Tensor& part, const Window& w) {
  Tensor y = laid_out(x, w);
  if (part.defined()) {
    kernels::copy_into(look(y, w), part);
  } else {
    kernels::fill(look(y, w), 0);
  }
  if (!needs_grad({x, part})) return y;
  return record("CopySlices", y, {x, part}, WindowReplaced{w});
}

// Gives the view a new grad_fn, derived from its base's.
void renew(const Tensor& view) {
  static std::mutex mutex;  // several threads may use the view
  const std::lock_guard lock(mutex);
  const Tensor base(view.impl()->base);
  const uint32_t latest = base.impl()->history;
  if (view.impl()->history == latest) return;
  const AutoGradMode recording(true);  // independent of the caller's mode
  const Tensor y = window_of(base, Window(base, view));
  set_node(view, NodePtr::share(node_of(y)), 0);
  view.impl()->history = latest;
}

}  // namespace

Node* node_of(const Tensor& x) {
  const TensorImpl* impl = x.impl();
  if (!impl) return nullptr;
  if (impl->base && impl->base->history != impl->history) renew(x);
  return static_cast<Node*>(impl->grad_fn.get());
}

void track_view(const Tensor& y, const Tensor& x) {
  TensorImpl *view = y.impl(), *from = x.impl();
  if (!is_grad_enabled()) {
    // In no_grad mode the view gets no base, which would keep the graph and the gradient of x
    // alive.
    const bool recorded = x.requires_grad() || from->no_grad_view == TensorImpl::kOfRecorded;
    view->no_grad_view = recorded ? TensorImpl::kOfRecorded : TensorImpl::kOfConstant;
    return;
  }
  view->no_grad_view = from->no_grad_view;
  view->base = from->base ? from->base : IntrusivePtr<TensorImpl>::share(from);
  view->history.store(view->base->history, std::memory_order_relaxed);
}

void check_changeable(const char* op, const Tensor& x, bool recorded) {
  const TensorImpl* impl = x.impl();
  const Tensor base(impl->base);
  require(
      !repeats(x) && !(recorded && base.defined() && repeats(base)),
      "unsupported operation: more than one element of the written-to tensor refers to a single "
      "memory location. Please clone() the tensor before performing the operation. (",
      op, ")");
  if (!is_grad_enabled()) return;
  require(!base.defined() || !base.requires_grad() || !base.is_leaf(),
          "a view of a leaf Variable that requires grad is being used in an in-place operation. (",
          op, ")");
  require(!x.requires_grad() || !x.is_leaf(),
          "a leaf Variable that requires grad is being used in an in-place operation. (", op, ")");
  require(
      impl->no_grad_view != TensorImpl::kOfRecorded &&
          !(impl->no_grad_view == TensorImpl::kOfConstant && recorded),
      "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
      "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
      "your code by moving both the view and the inplace either both inside the no_grad block "
      "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
      "be tracked). (",
      op, ")");
}

void rebase(const Tensor& x, const Tensor& y) {
  TensorImpl* impl = x.impl();
  if (!impl->base) {
    ++impl->history;
    return set_node(x, NodePtr::share(node_of(y)), y.impl()->output);
  }
  // The view itself becomes outdated, and its grad_fn is recreated on the next use, like that of
  // every other view.
  const Tensor base(impl->base), before = alias_of(base);
  const Tensor changed =
      record("CopySlices", base.detach(), {before, y}, WindowReplaced{Window(base, x)});
  ++base.impl()->history;
  set_node(base, NodePtr::share(node_of(changed)), 0);
}

}  // namespace taper::v0
