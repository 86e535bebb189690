#include "modules/data_parallel.h"

#include <algorithm>
#include <sstream>

#include "autograd/node.h"
#include "autograd/tensor_hooks.h"
#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/optim/foreach.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0 {
namespace {

constexpr bool kAsync = true;  // concurrently with the backward pass
// for gradients of at least this size, a copy costs more than a separate collective
constexpr size_t kStays = size_t(1) << 20;

// Returns the first line in which the texts differ.
std::string difference(const std::string& a, const std::string& b) {
  std::istringstream ours(a), theirs(b);
  std::string own, other;
  do {
    if (!std::getline(ours, own)) own = "nothing more";
    if (!std::getline(theirs, other)) other = "nothing more";
  } while (own == other);
  return concat_to_string(other, ", and not ", own);
}

int leaves_a_rank(const DataParallelOptions& options, int ranks) {
  if (options.order == ReduceOrder::kFastest) return 1;
  const int shards = options.shards ? options.shards : ranks;
  if (shards > 0 && (shards & (shards - 1)) == 0 && shards % ranks == 0) return shards / ranks;
  throw ValueError("DataParallel: shards must be a power of two and a multiple of the ", ranks,
                   " ranks, got ", shards);
}

void add(const Tensor& out, const Tensor& a, const Tensor& b) {
  kernels::binary_into(kernels::BinaryOp::kAdd, out, a, b);
}

// Writes the mean of the parts [ranks, part], which have a half type, to the first part. Rounds
// only once, while an all_reduce in a half type would round after each addition.
void average_in_float32(const Tensor& parts) {
  const Tensor wide = parts.to(kFloat32);
  kernels::copy_into(parts.select(0, 0), kernels::reduce(kernels::ReductionOp::kMean, wide, {0}));
}

}  // namespace

struct DataParallel::Slot {
  NamedTensor param;
  size_t bucket = 0;
  int64_t offset = 0;
  // A view of the bucket in the parameter's shape and memory order. Undefined if the gradient is
  // reduced in place.
  Tensor view = {};
  bool ready = false;
};
struct DataParallel::Bucket {
  std::vector<size_t> slots;
  Tensor flat = {};    // [numel], the gradients that have a view
  Tensor padded = {};  // with `parts` or a tree: `flat` with padding, so that parts are equal
  size_t ready = 0;
  distributed::Work work = {};
  // for a tree: sums of this rank's leaves so far, of 4, 2 and 1 leaves, say
  std::vector<Tensor> sums = {};
  Tensor parts = {};  // for more than two ranks, in a tree or another dtype: [ranks, part], one
                      // part from every rank
};

DataParallel::DataParallel(Module& module, distributed::Communicator ranks,
                           DataParallelOptions options)
    : module_(module),
      ranks_(std::move(ranks)),
      options_(options),
      leaves_(leaves_a_rank(options, ranks_.size())) {
  require<ValueError>(!module.is_placed(),
                      "DataParallel: the module is placed on several devices (Module::place), and "
                      "a rank trains on one device; call to(device) first");
  std::vector<NamedTensor> all = module.named_parameters();
  for (const NamedTensor& p : all) {
    if (p.tensor.requires_grad()) slots_.push_back({p});
  }
  const std::vector<NamedTensor> buffers = module.named_buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  std::string listing;
  for (const auto& [name, x] : all)
    listing += concat_to_string(name, " ", x.dtype(), " ", x.shape(), "\n");
  const std::vector<std::string> listings = ranks_.all_gather_text(listing);
  for (size_t r = 1; r < listings.size(); ++r) {
    if (listings[r] == listings[0]) continue;
    throw Error("DataParallel: the module of ", ranks_.name_of(int(r)),
                " differs from rank 0's: ", difference(listings[0], listings[r]));
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
      throw Error("DataParallel: the backward pass before gave no gradient to ", unused(),
                  "; call finish() after it, with allow_unused where that is meant");
    }
    return Tensor();
  });
}

DataParallel::~DataParallel() {
  for (HookHandle& hook : hooks_) hook.remove();
  forward_hook_.remove();
}

void DataParallel::broadcast(const std::vector<Tensor>& tensors) {
  ranks_.broadcast_strided(tensors, std::vector<int>(tensors.size(), 0));
}

void DataParallel::broadcast_buffers() {
  std::vector<Tensor> tensors;
  for (const NamedTensor& b : module_.named_buffers()) tensors.push_back(b.tensor);
  broadcast(tensors);
}

// Orders parameters from the last to the first, because the backward pass computes their gradients
// in this order. A bucket has one dtype.
void DataParallel::make_buckets() {
  std::vector<size_t> slots;
  size_t bytes = 0;
  for (size_t i = slots_.size(); i-- > 0;) {
    const Tensor& p = slots_[i].param.tensor;
    const int64_t most = options_.bucket_bytes / (buckets_.empty() ? 25 : 1);
    const bool fits = slots.empty() || (slots_[slots[0]].param.tensor.dtype() == p.dtype() &&
                                        int64_t(bytes + p.nbytes()) <= most);
    if (!fits) {
      add_bucket(slots);
      slots.clear();
      bytes = 0;
    }
    slots.push_back(i);
    bytes += p.nbytes();
  }
  if (!slots.empty()) add_bucket(slots);
}

void DataParallel::add_bucket(const std::vector<size_t>& slots) {
  const DType own = slots_[slots[0]].param.tensor.dtype();
  const DType dtype = own == kFloat64 ? own : options_.reduce_dtype.value_or(own);
  const auto stays = [&](const Tensor& p) {
    return !in_tree() && dtype == own && (slots.size() == 1 || p.nbytes() >= kStays);
  };
  Bucket bucket{slots};
  std::vector<Slot*> gathered;
  int64_t numel = 0;
  for (const size_t i : slots) {
    Slot& s = slots_[i];
    s.bucket = buckets_.size();
    if (stays(s.param.tensor)) continue;
    s.offset = numel;
    numel += s.param.tensor.numel();
    gathered.push_back(&s);
  }
  if (!gathered.empty()) {
    const int64_t ranks = ranks_.size(), part = (numel + ranks - 1) / ranks;
    const Tensor padded = zeros({part * ranks}, {.dtype = dtype, .device = ranks_.device()});
    bucket.flat = padded.narrow(0, 0, numel);
    const bool in_parts = ranks > 2 && (in_tree() || dtype != own);
    if (in_tree() || in_parts) bucket.padded = padded;
    if (in_parts) bucket.parts = zeros_like(padded).view({ranks, part});
  }
  for (Slot* s : gathered) {
    const Tensor& p = s->param.tensor;
    s->view = view_as(bucket.flat, p.shape(), p.strides(), s->offset);
  }
  buckets_.push_back(std::move(bucket));
}

std::vector<int64_t> DataParallel::bucket_bytes() const {
  std::vector<int64_t> bytes;
  for (const Bucket& bucket : buckets_) {
    bytes.push_back(bucket.flat.defined() ? int64_t(bucket.flat.nbytes()) : 0);
    for (const size_t i : bucket.slots) {
      const Slot& s = slots_[i];
      if (!s.view.defined()) bytes.back() += int64_t(s.param.tensor.nbytes());
    }
  }
  return bytes;
}

void DataParallel::on_gradient(size_t slot) {
  if (!syncs_ && !in_tree()) return;
  require(!in_tree() || syncs_ == is_last_leaf(), "DataParallel: leaf ", leaf_ + 1, " of the ",
          leaves_, " of this rank runs ", syncs_ ? "outside of" : "in",
          " a no_sync() scope; all but the last do so");
  Slot& s = slots_[slot];
  require(!s.ready, "DataParallel: ", s.param.name,
          " got a second gradient before all had their first; run the backward passes "
          "but the last in a no_sync() scope");
  s.ready = true;
  ++buckets_[s.bucket].ready;
  reduce_ready();
}

// Returns the gradient's memory as [numel] in the parameter's memory order. The gradient was
// computed without recording, so it has no other owner.
Tensor DataParallel::flat_grad(const Slot& slot) const {
  const Tensor& p = slot.param.tensor;
  Tensor grad = p.grad();
  if (is_grad_enabled() || grad.strides() != p.strides()) {
    const Tensor memory = Tensor::make({p.numel()}, p.dtype(), p.device());
    grad = view_as(memory, p.shape(), p.strides(), 0);
    kernels::copy_list({grad}, {p.grad()});
    p.set_grad(grad);
  }
  return view_as(grad, {grad.numel()}, {1}, grad.storage_offset());
}

// Adds a leaf's gradients. Unless the leaf is the last one, the parameters keep no gradient,
// because the next leaf computes its own.
void DataParallel::reduce(size_t number) {
  Bucket& bucket = buckets_[number];
  const Tensor leaf = is_last_leaf()
                          ? bucket.flat
                          : Tensor::make(bucket.flat.shape(), bucket.flat.dtype(), ranks_.device());
  std::vector<Tensor> views, grads;
  for (const size_t i : bucket.slots) {
    const Slot& s = slots_[i];
    const Tensor& p = s.param.tensor;
    if (!s.view.defined()) continue;
    const Tensor grad = p.grad();
    const Tensor view = is_last_leaf() ? s.view : view_as(leaf, p.shape(), p.strides(), s.offset);
    if (grad.data_ptr() == view.data_ptr()) continue;
    views.push_back(view);
    grads.push_back(grad);
  }
  kernels::copy_list(views, grads);
  for (const size_t i : bucket.slots) {
    const Slot& s = slots_[i];
    if (!is_last_leaf()) s.param.tensor.set_grad({});
    if (is_last_leaf() && keeps_view(s)) s.param.tensor.set_grad(s.view);
  }
  // Adds sums of equal size, like the carries of a binary counter. The left operand has the earlier
  // leaves.
  for (int n = leaf_; n % 2 == 1; n /= 2) {
    add(leaf, bucket.sums.back(), leaf);
    bucket.sums.pop_back();
  }
  if (is_last_leaf()) join_ranks(number);
  if (!is_last_leaf()) bucket.sums.push_back(leaf);
}

// Adds the sums of the ranks. With two ranks, one addition is enough, and the order does not
// matter. With more, in a tree or another dtype, each rank adds one part of all ranks' sums. While
// a part is received, the previous bucket is added.
void DataParallel::join_ranks(size_t number) {
  Bucket& bucket = buckets_[number];
  if (!in_tree() && !bucket.parts.defined()) {
    std::vector<Tensor> all;
    if (bucket.flat.defined()) all.push_back(bucket.flat);
    for (const size_t i : bucket.slots) {
      if (!slots_[i].view.defined()) all.push_back(flat_grad(slots_[i]));
    }
    bucket.work = ranks_.all_reduce(all, distributed::ReduceOp::kAvg, kAsync);
  } else if (bucket.parts.defined()) {
    bucket.work = ranks_.all_to_all(bucket.parts.view({-1}), bucket.padded, kAsync);
    if (number > 0) join_parts(buckets_[number - 1]);
  } else {
    bucket.work = ranks_.all_reduce(bucket.flat, distributed::ReduceOp::kSum, kAsync);
  }
}

void DataParallel::join_parts(Bucket& bucket) {
  bucket.work.wait();
  const int64_t ranks = bucket.parts.size(0), part = bucket.parts.size(1);
  if (!in_tree()) average_in_float32(bucket.parts);
  for (int64_t width = 1; in_tree() && width < ranks; width *= 2) {
    const Shape pairs{ranks / (2 * width), part}, strides{2 * width * part, 1};
    const Tensor left = view_as(bucket.parts, pairs, strides, 0);
    add(left, left, view_as(bucket.parts, pairs, strides, width * part));
  }
  bucket.work = ranks_.all_gather(bucket.padded, bucket.parts.select(0, 0), kAsync);
}

// Returns whether the bucket's view can become the parameter's gradient. Otherwise the result is
// copied back.
bool DataParallel::keeps_view(const Slot& slot) {
  return slot.view.defined() && slot.view.dtype() == slot.param.tensor.dtype();
}

// Starts reductions in the same order on all ranks, whatever the order in which gradients are
// computed.
void DataParallel::reduce_ready() {
  for (; next_ < buckets_.size(); ++next_) {
    Bucket& bucket = buckets_[next_];
    if (bucket.ready < bucket.slots.size()) return;
    reduce(next_);
  }
  const bool joins_ranks = is_last_leaf();
  if (joins_ranks && !buckets_.empty() && buckets_.back().parts.defined()) {
    join_parts(buckets_.back());
  }
  std::vector<Tensor> views, grads;
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    bucket.ready = 0;
    for (const size_t i : bucket.slots) {
      Slot& s = slots_[i];
      s.ready = false;
      if (!joins_ranks || !s.view.defined() || keeps_view(s)) continue;
      views.push_back(s.view);
      grads.push_back(s.param.tensor.grad());
    }
  }
  next_ = 0;
  leaf_ = joins_ranks ? 0 : leaf_ + 1;
  kernels::copy_list(grads, views);
}

std::string DataParallel::unused() const {
  std::string names;
  for (const Slot& s : slots_) {
    if (!s.ready) names += concat_to_string(names.empty() ? "" : ", ", s.param.name);
  }
  return names;
}

void DataParallel::finish() {
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.ready; })) return;
  if (!options_.allow_unused) {
    throw Error("DataParallel: no gradient came to ", unused(),
                "; freeze what is not trained, or set allow_unused");
  }
  for (Slot& s : slots_) {
    if (s.ready) continue;
    const Tensor& p = s.param.tensor;
    if (!p.grad().defined()) p.set_grad(zeros_like(p));
    ++buckets_[s.bucket].ready;
  }
  reduce_ready();
}

void DataParallel::skip_leaf() {
  if (!syncs_ && !in_tree()) return;
  for (const Slot& s : slots_) {
    const Tensor& p = s.param.tensor;
    if (in_tree() || !p.grad().defined()) p.set_grad(zeros_like(p));
  }
  for (size_t i = slots_.size(); i-- > 0;) on_gradient(i);
}

}  // namespace taper::v0
