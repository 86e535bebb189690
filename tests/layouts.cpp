#include "tests/layouts.h"

#include "autograd/ops/index/inplace.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::test {
namespace {

constexpr double kBeside = 77;  // the value of elements outside of the tensor

Tensor spacious(const Shape& shape, const Tensor& x) {
  return full(shape, kBeside, {.dtype = x.dtype(), .device = x.device()});
}

// Returns x with its dimensions in another order in memory.
Tensor permuted(const Tensor& x, const Shape& order) {
  Shape inverse = order;
  for (int d = 0; d < order.size(); ++d) inverse[order[d]] = d;
  return permute(permute(x, order).clone().contiguous(), inverse).detach();
}

Tensor transposed(const Tensor& x) {
  Shape order;
  for (int d = x.dim() - 1; d >= 0; --d) order.push_back(d);
  return permuted(x, order);
}

Tensor channels_last(const Tensor& x) {
  if (x.dim() < 3) return transposed(x);
  Shape order = {0};
  for (int d = 2; d < x.dim(); ++d) order.push_back(d);
  order.push_back(1);
  return permuted(x, order);
}

// Every second element of a larger storage, beginning with the second.
Tensor strided(const Tensor& x) {
  Shape strides = contiguous_strides(x.shape());
  for (int64_t& s : strides) s *= 2;
  return view_as(spacious({2 * x.numel() + 1}, x), x.shape(), strides, 1).copy_(x);
}

// The interior of a larger tensor.
Tensor narrowed(const Tensor& x) {
  Shape larger = x.shape();
  for (int64_t& size : larger) size += 2;
  Tensor out = spacious(larger, x);
  for (int d = 0; d < x.dim(); ++d) out = narrow(out, d, 1, x.size(d));
  return out.copy_(x);
}

// Contiguous, but not at the beginning of its storage.
Tensor offset(const Tensor& x) {
  constexpr int64_t kOffset = 3;
  const Tensor memory = spacious({x.numel() + kOffset}, x);
  return narrow(memory, 0, kOffset, x.numel()).view(x.shape()).copy_(x);
}

// Repeats one slice along the first dimension without a copy.
Tensor expanded(const Tensor& x) {
  if (x.dim() == 0 || x.size(0) < 2) return x;
  return expand(narrow(x, 0, 0, 1), x.shape()).detach();
}

Tensor without_rows(const Tensor& x) { return x.dim() == 0 ? x : narrow(x, 0, 0, 0).detach(); }

}  // namespace

const std::array<Layout, 6> kLayouts = {{{"transposed", transposed},
                                         {"strided", strided},
                                         {"narrowed", narrowed},
                                         {"offset", offset},
                                         {"expanded", expanded},
                                         {"channels-last", channels_last}}};
const Layout kEmptyLayout = {"empty", without_rows};

}  // namespace taper::v0::test
