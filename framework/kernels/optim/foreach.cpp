#include "framework/kernels/optim/foreach.h"

#include <algorithm>
#include <span>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {
namespace {

// The entries of a list of tensors. Tensors with gaps between their elements, or with elements that
// share memory, are processed through a dense copy.
class List {
 public:
  explicit List(std::span<const Tensor> xs, const std::vector<Tensor>& ys = {}) : xs_(xs) {
    for (size_t i = 0; i < xs.size(); ++i) {
      lent_x_.push_back(is_dense(xs[i].shape(), xs[i].strides()) ? xs[i] : dense(xs[i]));
      lent_y_.push_back(ys.empty() ? lent_x_[i] : ys[i]);
      if (lent_y_[i].strides() != lent_x_[i].strides()) {
        lent_y_[i] = empty_like_layout(lent_x_[i], ys[i].dtype());
        copy_into(lent_y_[i], ys[i]);
      }
      entries_.push_back(list_entry(lent_x_[i], lent_y_[i]));
    }
  }
  const std::vector<ListEntry<2>>& entries() const { return entries_; }
  Device device() const { return xs_[0].device(); }
  // Writes the new values back, if the rule writes values.
  void finish(const ListRule& rule) const {
    const bool writes = std::visit([](const auto& r) { return r.kWrites; }, rule);
    for (size_t i = 0; writes && i < xs_.size(); ++i) {
      if (!xs_[i].is_same(lent_x_[i])) copy_into(xs_[i], lent_x_[i]);
      xs_[i].storage()->version.fetch_add(1);
    }
  }

 private:
  std::span<const Tensor> xs_;
  std::vector<Tensor> lent_x_, lent_y_;
  std::vector<ListEntry<2>> entries_;
};

void run(const char* op, const ListRule& rule, const List& list, const Root& root) {
  const Device device = list.device();
  dispatch(
      device, [&] { cpu::run_list(list.entries(), rule, root); },
      [&] { cuda::run_list(op, device.index(), list.entries(), rule, root); }, op);
  list.finish(rule);
}

// Returns the reduced values of the chunks of a part of a list, whose tensors are on one device.
// numel: the number of elements in the whole list.
Tensor values_of(const char* op, const ListRule& rule, std::span<const Tensor> xs, int64_t numel) {
  const List list(xs);
  const Device device = list.device();
  int chunk = cpu::chunk_of(numel);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) chunk = cuda::chunk_of(numel);
  }
  const Tensor values = Tensor::make({count_chunks(list.entries(), chunk)}, kFloat64, device);
  dispatch(
      device, [&] { cpu::run_values(list.entries(), rule, pointer<double>(values)); },
      [&] {
        cuda::run_values(op, device.index(), list.entries(), rule, chunk, pointer<double>(values));
      },
      op);
  list.finish(rule);
  return values;
}

// Computes what run() computes, for tensors on several devices. The values of all chunks are
// reduced on the device of the first tensor, in the order of the list.
void run_on_devices(const char* op, const ListRule& rule, std::span<const Tensor> xs,
                    const Root& root) {
  int64_t numel = 0, n = 0;
  for (const Tensor& x : xs) numel += x.numel();
  std::vector<Tensor> parts;
  for (size_t begin = 0, end; begin < xs.size(); begin = end) {
    end = begin + 1;
    while (end < xs.size() && xs[end].device() == xs[begin].device()) ++end;
    parts.push_back(values_of(op, rule, xs.subspan(begin, end - begin), numel));
    n += parts.back().numel();
  }
  const Device device = xs[0].device();
  const Tensor all = Tensor::make({n}, kFloat64, device);
  for (int64_t at = 0; const Tensor& part : parts) {
    copy_into(view_as(all, part.shape(), {1}, at), part);
    at += part.numel();
  }
  dispatch(
      device, [&] { cpu::join_values(pointer<double>(all), n, rule, root); },
      [&] { cuda::join_values(op, device.index(), pointer<double>(all), n, rule, root); }, op);
}

}  // namespace

void run_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs,
              const std::vector<Tensor>& ys) {
  run(op, rule, List(xs, ys), {});
}

void copy_list(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  if (!to.empty()) run_list("copy", Assign{}, to, from);
}

Tensor join_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs, DType dtype,
                 double p) {
  const Tensor out = Tensor::make({}, dtype, xs.at(0).device());
  const Root root{out.data_ptr(), dtype == kFloat64, p};
  const bool is_on_one =
      std::ranges::all_of(xs, [&](const Tensor& x) { return x.device() == xs[0].device(); });
  if (is_on_one) run(op, rule, List(xs), root);
  if (!is_on_one) run_on_devices(op, rule, xs, root);
  return out;
}

}  // namespace taper::v0::kernels
