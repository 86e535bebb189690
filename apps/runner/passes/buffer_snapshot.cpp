#include "apps/runner/passes/buffer_snapshot.h"

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/optim/foreach.h"

namespace taper::v0::runner {
namespace {

// Returns a float64 view of the memory of an int64 tensor on a GPU. The list kernels take
// floating-point tensors only, and the copy below moves bits without computing with them.
Tensor as_float64(const Tensor& x) {
  return from_blob(x.data_ptr(), x.shape(), {.dtype = kFloat64, .device = x.device()});
}

// Copies from[i] to to[i] for all i in one launch. Uses the kernel that updates averages: if its
// step counter is `zero`, it makes the first update, which is a copy.
void copy_list(const std::vector<Tensor>& to, const std::vector<Tensor>& from, const Tensor& zero) {
  if (to.empty()) return;
  const kernels::Average copies{{}, kernels::pointer<int64_t>(zero), 0, false};
  kernels::run_list("buffer_snapshot", copies, to, from);
}

}  // namespace

BufferSnapshot::BufferSnapshot(Module& model, bool copies_all)
    : model_(model), copies_all_(copies_all) {
  for (const NamedTensor& b : model.named_buffers()) {
    entries_.push_back({b.tensor, {}, b.tensor.version(), b.tensor.version()});
  }
  if (entries_.empty()) return;
  zero_ = zeros({}, {.dtype = kInt64, .device = entries_[0].buffer.device()});
}

void BufferSnapshot::accept() {
  for (Entry& e : entries_) e.accepted = e.buffer.version();
}

void BufferSnapshot::begin() {
  is_taken_ = false;
  for (Entry& e : entries_) e.begun = e.buffer.version();
}

void BufferSnapshot::take() {
  const NoGradGuard no_grad;
  std::vector<Tensor> to, from, counters_to, counters_from;
  for (Entry& e : entries_) {
    const bool changes = copies_all_ || e.buffer.version() != e.accepted;
    if (!e.copy.defined() && changes) e.copy = e.buffer.clone();
    e.accepted = e.buffer.version();
    if (!e.copy.defined()) continue;
    const bool is_dense = e.buffer.is_contiguous() && e.buffer.device() == zero_.device();
    if (is_dense && e.buffer.is_floating_point()) {
      to.push_back(e.copy);
      from.push_back(e.buffer);
    } else if (is_dense && e.buffer.is_cuda() && e.buffer.dtype() == kInt64) {
      counters_to.push_back(as_float64(e.copy));
      counters_from.push_back(as_float64(e.buffer));
    } else {
      e.copy.copy_(e.buffer);
    }
  }
  copy_list(to, from, zero_);
  copy_list(counters_to, counters_from, zero_);
  is_taken_ = true;
}

bool BufferSnapshot::restore() const {
  const std::vector<NamedTensor> now = model_.named_buffers();
  if (now.size() != entries_.size()) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    const Entry& e = entries_[i];
    if (!now[i].tensor.is_same(e.buffer)) return false;
    const bool has_copy = is_taken_ && e.copy.defined();
    if (e.buffer.version() != e.begun && !has_copy) return false;
  }
  const NoGradGuard no_grad;
  for (const Entry& e : entries_) {
    if (e.buffer.version() != e.begun) e.buffer.copy_(e.copy);
  }
  return true;
}

void BufferSnapshot::restore_where(const Tensor& condition) const {
  const NoGradGuard no_grad;
  for (const Entry& e : entries_) {
    e.buffer.copy_(where(ne(condition.to(e.buffer.device()), 0), e.copy, e.buffer));
  }
}

}  // namespace taper::v0::runner
