#include "framework/kernels/optim/foreach.h"

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {
namespace {

// Tensors with gaps between their elements, or with elements that share memory, are processed
// through a dense copy.
void run(const char* op, const ListRule& rule, const std::vector<Tensor>& xs,
         const std::vector<Tensor>& ys, const Root& root) {
  const bool writes = std::visit([](const auto& r) { return r.kWrites; }, rule);
  const Device device = xs.at(0).device();
  std::vector<Tensor> lent_x, lent_y;
  std::vector<ListEntry<2>> entries;
  for (size_t i = 0; i < xs.size(); ++i) {
    lent_x.push_back(is_dense(xs[i].shape(), xs[i].strides()) ? xs[i] : dense(xs[i]));
    lent_y.push_back(ys.empty() ? lent_x[i] : ys[i]);
    if (lent_y[i].strides() != lent_x[i].strides()) {
      lent_y[i] = empty_like_layout(lent_x[i], ys[i].dtype());
      copy_into(lent_y[i], ys[i]);
    }
    entries.push_back(list_entry(lent_x[i], lent_y[i]));
  }
  dispatch(
      device, [&] { cpu::run_list(entries, rule, root); },
      [&] { cuda::run_list(op, device.index(), entries, rule, root); }, op);
  for (size_t i = 0; writes && i < xs.size(); ++i) {
    if (!xs[i].is_same(lent_x[i])) copy_into(xs[i], lent_x[i]);
    xs[i].storage()->version.fetch_add(1);
  }
}

}  // namespace

void run_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs,
              const std::vector<Tensor>& ys) {
  run(op, rule, xs, ys, {});
}

Tensor join_list(const char* op, const ListRule& rule, const std::vector<Tensor>& xs, DType dtype,
                 double p) {
  Tensor out = Tensor::make({}, dtype, xs.at(0).device());
  run(op, rule, xs, {}, {out.data_ptr(), dtype == kFloat64, p});
  return out;
}

}  // namespace taper::v0::kernels
