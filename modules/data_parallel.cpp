#include "modules/data_parallel.h"

#include <algorithm>
#include <sstream>

#include "framework/factories.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/optim/foreach.h"

namespace taper {
namespace {

std::string listing(const std::vector<NamedTensor>& tensors) {
  std::string text;
  for (const auto& [name, x] : tensors) text += cat(name, " ", x.dtype(), " ", x.shape(), "\n");
  return text;
}

// The first line in which the texts differ.
std::string difference(const std::string& a, const std::string& b) {
  std::istringstream ours(a), theirs(b);
  std::string own, other;
  do {
    if (!std::getline(ours, own)) own = "nothing more";
    if (!std::getline(theirs, other)) other = "nothing more";
  } while (own == other);
  return cat(other, ", and not ", own);
}

}  // namespace

DataParallel::DataParallel(Module& module, distributed::Communicator ranks,
                           DataParallelOptions options)
    : module_(module),
      ranks_(std::move(ranks)),
      options_(options),
      zero_(zeros({}, {.dtype = kInt64, .device = ranks_.device()})) {
  std::vector<NamedTensor> all = module.named_parameters();
  for (const NamedTensor& p : all) {
    if (p.tensor.requires_grad()) slots_.push_back({p, 0, {}});
  }
  const std::vector<NamedTensor> buffers = module.named_buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  const std::vector<std::string> listings = ranks_.all_gather_text(listing(all));
  for (size_t r = 1; r < listings.size(); ++r) {
    if (listings[r] == listings[0]) continue;
    throw Error(cat("DataParallel: the module of ", ranks_.name_of(int(r)),
                    " differs from rank 0's: ", difference(listings[0], listings[r])));
  }
  std::vector<Tensor> tensors;
  for (const NamedTensor& t : all) tensors.push_back(t.tensor);
  broadcast(tensors);
  make_buckets();
  for (size_t i = 0; i < slots_.size(); ++i) {
    hooks_.push_back(slots_[i].param.tensor.register_post_accumulate_grad_hook(
        [this, i](const Tensor&) { on_gradient(i); }));
  }
  forward_hook_ = module.register_forward_pre_hook([this](Module&, const Tensor&) {
    if (std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.ready; })) {
      throw Error(cat("DataParallel: the backward pass before gave no gradient to ", unused(),
                      "; call finish() after it, with allow_unused where that is meant"));
    }
    return Tensor();
  });
}

DataParallel::~DataParallel() {
  for (HookHandle& hook : hooks_) hook.remove();
  forward_hook_.remove();
}

void DataParallel::broadcast(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> dense;
  for (const Tensor& t : tensors) dense.push_back(kernels::dense(t));
  ranks_.broadcast(dense, std::vector<int>(dense.size(), 0)).wait();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (dense[i].data_ptr() == tensors[i].data_ptr()) continue;
    kernels::copy_into(tensors[i], dense[i]);
    tensors[i].storage()->version.fetch_add(1);
  }
}

void DataParallel::broadcast_buffers() {
  std::vector<Tensor> tensors;
  for (const NamedTensor& b : module_.named_buffers()) tensors.push_back(b.tensor);
  broadcast(tensors);
}

// The last parameters first, for theirs come first; those of one dtype together.
void DataParallel::make_buckets() {
  std::vector<size_t> slots;
  int64_t numel = 0;
  for (size_t i = slots_.size(); i-- > 0;) {
    const Tensor& p = slots_[i].param.tensor;
    const int64_t most = options_.bucket_bytes / (buckets_.empty() ? 25 : 1);
    const int64_t bytes = (numel + p.numel()) * int64_t(p.element_size());
    const bool fits =
        slots.empty() || (slots_[slots[0]].param.tensor.dtype() == p.dtype() && bytes <= most);
    if (!fits) {
      add_bucket(slots, numel);
      slots.clear();
      numel = 0;
    }
    slots.push_back(i);
    numel += p.numel();
  }
  if (!slots.empty()) add_bucket(slots, numel);
}

void DataParallel::add_bucket(const std::vector<size_t>& slots, int64_t numel) {
  const DType own = slots_[slots[0]].param.tensor.dtype();
  const DType dtype = own == kFloat64 ? own : options_.reduce_dtype.value_or(own);
  Bucket bucket{zeros({numel}, {.dtype = dtype, .device = ranks_.device()}), slots, 0, {}};
  int64_t offset = 0;
  for (const size_t i : slots) {
    const Tensor& p = slots_[i].param.tensor;
    slots_[i].bucket = buckets_.size();
    slots_[i].view = view_as(bucket.flat, p.shape(), p.strides(), offset);
    offset += p.numel();
  }
  buckets_.push_back(std::move(bucket));
}

void DataParallel::on_gradient(size_t slot) {
  if (!syncs_) return;
  Slot& s = slots_[slot];
  if (s.ready) {
    throw Error(cat("DataParallel: ", s.param.name,
                    " got a second gradient before all had their first; run the backward passes "
                    "but the last in a no_sync() scope"));
  }
  s.ready = true;
  ++buckets_[s.bucket].ready;
  reduce_ready();
}

// All in one launch.
void DataParallel::copy(const std::vector<Tensor>& to, const std::vector<Tensor>& from) const {
  if (to.empty()) return;
  const kernels::Average first{{}, kernels::pointer<int64_t>(zero_), 0, false};
  kernels::run_list("DataParallel", first, to, from);
}

void DataParallel::reduce(Bucket& bucket) {
  std::vector<Tensor> views, grads;
  for (const size_t i : bucket.slots) {
    const Slot& s = slots_[i];
    const Tensor grad = s.param.tensor.grad();
    if (grad.data_ptr() == s.view.data_ptr()) continue;
    views.push_back(s.view);
    grads.push_back(grad);
  }
  copy(views, grads);
  for (const size_t i : bucket.slots) {
    const Slot& s = slots_[i];
    if (s.param.tensor.dtype() == s.view.dtype()) s.param.tensor.set_grad(s.view);
  }
  bucket.work = ranks_.all_reduce(bucket.flat, distributed::ReduceOp::avg);
}

// In one order on all ranks, whatever the order in which gradients come.
void DataParallel::reduce_ready() {
  for (; next_ < buckets_.size(); ++next_) {
    Bucket& bucket = buckets_[next_];
    if (bucket.ready < bucket.slots.size()) return;
    reduce(bucket);
  }
  std::vector<Tensor> views, grads;
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    bucket.ready = 0;
    for (const size_t i : bucket.slots) {
      Slot& s = slots_[i];
      s.ready = false;
      if (s.param.tensor.dtype() == s.view.dtype()) continue;
      views.push_back(s.view);
      grads.push_back(s.param.tensor.grad());
    }
  }
  next_ = 0;
  copy(grads, views);
}

std::string DataParallel::unused() const {
  std::string names;
  for (const Slot& s : slots_) {
    if (!s.ready) names += cat(names.empty() ? "" : ", ", s.param.name);
  }
  return names;
}

void DataParallel::finish() {
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.ready; })) return;
  if (!options_.allow_unused) {
    throw Error(cat("DataParallel: no gradient came to ", unused(),
                    "; freeze what is not trained, or set allow_unused"));
  }
  for (Slot& s : slots_) {
    if (s.ready) continue;
    const Tensor& p = s.param.tensor;
    if (!p.grad().defined()) p.set_grad(zeros_like(p));
    ++buckets_[s.bucket].ready;
  }
  reduce_ready();
}

}  // namespace taper
