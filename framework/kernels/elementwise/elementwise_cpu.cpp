#include "framework/kernels/elementwise/elementwise_cpu.h"

#include <algorithm>

#include "framework/host/parallel.h"
#include "framework/kernels/elementwise/convert_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

// Rows of at least this length are split separately, so that their operands can be used directly.
constexpr int64_t kLongRow = 256;
// The chunk size if no operand needs a buffer.
constexpr int64_t kDirectChunk = 16 * kChunk;

// How one operand is converted to or from a plain array.
struct Port {
  char* data = nullptr;
  const int64_t* strides = nullptr;
  int64_t element = 0;  // bytes
  ConvertFn convert = nullptr;
  bool same_type = false;
  bool linear = false;  // element i of the iterator is at data[i]
  bool number = false;  // one value for all elements
};

Port make_port(const TensorIterator& iter, const Operand& operand, DType compute, bool is_output) {
  Port port;
  port.data = static_cast<char*>(operand.data);
  port.strides = operand.strides;
  port.element = int64_t(size_of(operand.dtype));
  port.same_type = operand.dtype == compute;
  port.convert = is_output ? converter(compute, operand.dtype) : converter(operand.dtype, compute);
  port.linear = true;
  port.number = !is_output;
  int64_t expected = 1;
  for (int d = iter.dims - 1; d >= 0; --d) {
    port.linear = port.linear && operand.strides[d] == expected;
    port.number = port.number && operand.strides[d] == 0;
    expected *= iter.sizes[d];
  }
  return port;
}

struct SpanPlan {
  const TensorIterator& iter;
  int64_t item;  // bytes of the compute type
  SpanFn span;
  const void* functor;
  Port in[3];
  Port out;
  bool by_rows;     // whether no chunk crosses a row
  int64_t chunk;    // elements
  int64_t per_row;  // chunks per row
  int64_t chunks;

  int64_t row() const { return iter.sizes[iter.dims - 1]; }
};

SpanPlan make_plan(const TensorIterator& iter, DType compute, SpanFn span, const void* functor) {
  SpanPlan plan{iter, int64_t(size_of(compute)), span, functor, {}, {}, false, kChunk, 1, 0};
  const int64_t row = plan.row();
  plan.by_rows = iter.dims == 1 || row >= kLongRow;
  const auto in_place = [&](const Port& p) {
    return p.same_type && p.strides[iter.dims - 1] == 1 && plan.by_rows;
  };
  plan.out = make_port(iter, iter.out, compute, true);
  bool all_in_place = plan.out.data && in_place(plan.out);
  for (int k = 0; k < iter.inputs; ++k) {
    plan.in[k] = make_port(iter, iter.in[k], compute, false);
    all_in_place = all_in_place && in_place(plan.in[k]);
  }
  if (all_in_place) plan.chunk = kDirectChunk;
  plan.per_row = (row + plan.chunk - 1) / plan.chunk;
  plan.chunks =
      plan.by_rows ? iter.numel / row * plan.per_row : (iter.numel + plan.chunk - 1) / plan.chunk;
  return plan;
}

// A range of the iteration, given by the index of its first element along every dimension and by
// its length.
struct Stretch {
  int64_t begin, n;
  int64_t index[kMaxDims];
};

Stretch make_stretch(const SpanPlan& plan, int64_t chunk) {
  const TensorIterator& iter = plan.iter;
  const int last = iter.dims - 1;
  Stretch s;
  if (plan.by_rows) {
    const int64_t column = chunk % plan.per_row * plan.chunk;
    s.begin = chunk / plan.per_row * plan.row() + column;
    s.n = std::min(plan.chunk, plan.row() - column);
  } else {
    s.begin = chunk * plan.chunk;
    s.n = std::min(plan.chunk, iter.numel - s.begin);
  }
  int64_t rest = s.begin;
  for (int d = last; d > 0; --d) {
    s.index[d] = rest % iter.sizes[d];
    rest /= iter.sizes[d];
  }
  s.index[0] = rest;
  return s;
}

// Returns the address if the range can be accessed directly, otherwise null.
char* in_place(const SpanPlan& plan, const Port& port, const Stretch& s) {
  if (!port.same_type) return nullptr;
  if (port.linear) return port.data + s.begin * port.element;
  const int last = plan.iter.dims - 1;
  if (s.index[last] + s.n > plan.row() || port.strides[last] != 1) return nullptr;
  int64_t offset = 0;
  for (int d = 0; d <= last; ++d) offset += s.index[d] * port.strides[d];
  return port.data + offset * port.element;
}

// Calls f(address, stride, position in the range, length) for every piece within one row.
template <class F>
void for_pieces(const TensorIterator& iter, const Port& port, const Stretch& s, F&& f) {
  if (port.linear) return f(port.data + s.begin * port.element, 1, 0, s.n);
  const int last = iter.dims - 1;
  int64_t index[kMaxDims];
  std::copy(s.index, s.index + iter.dims, index);
  int64_t done = 0;
  while (true) {
    int64_t offset = 0;
    for (int d = 0; d <= last; ++d) offset += index[d] * port.strides[d];
    const int64_t n = std::min(s.n - done, iter.sizes[last] - index[last]);
    f(port.data + offset * port.element, port.strides[last], done, n);
    done += n;
    if (done == s.n) return;
    index[last] = 0;
    for (int d = last - 1; d >= 0 && ++index[d] == iter.sizes[d]; --d) index[d] = 0;
  }
}

void run_chunks(const SpanPlan& plan, int64_t first, int64_t last) {
  alignas(64) char buffers[4][kChunk * 8];
  const TensorIterator& iter = plan.iter;
  for (int k = 0; k < iter.inputs; ++k) {
    const Port& port = plan.in[k];
    if (port.number) port.convert(port.data, 0, buffers[k], 1, std::min(kChunk, iter.numel));
  }
  for (int64_t chunk = first; chunk < last; ++chunk) {
    const Stretch s = make_stretch(plan, chunk);
    const void* in[3] = {};
    for (int k = 0; k < iter.inputs; ++k) {
      const Port& port = plan.in[k];
      const void* direct = port.number ? buffers[k] : in_place(plan, port, s);
      in[k] = direct ? direct : buffers[k];
      if (direct) continue;
      for_pieces(iter, port, s, [&](char* data, int64_t stride, int64_t at, int64_t n) {
        port.convert(data, stride, buffers[k] + at * plan.item, 1, n);
      });
    }
    char* direct = plan.out.data ? in_place(plan, plan.out, s) : nullptr;
    plan.span(plan.functor, direct ? direct : buffers[3], in, s.n);
    if (direct || !plan.out.data) continue;
    for_pieces(iter, plan.out, s, [&](char* data, int64_t stride, int64_t at, int64_t n) {
      plan.out.convert(buffers[3] + at * plan.item, 1, data, stride, n);
    });
  }
}

// If all operands are short, dense and of the compute type, a single call of the functor is enough.
bool run_directly(const TensorIterator& iter, DType compute, SpanFn span, const void* functor) {
  if (!iter.dense || iter.numel > kChunk || iter.out.dtype != compute || !iter.out.data) {
    return false;
  }
  const void* in[3] = {};
  for (int k = 0; k < iter.inputs; ++k) {
    const bool usable = iter.in[k].strides[0] == 1 || iter.numel == 1;
    if (!usable || iter.in[k].dtype != compute) return false;
    in[k] = iter.in[k].data;
  }
  span(functor, iter.out.data, in, iter.numel);
  return true;
}

}  // namespace

void run_elementwise(const TensorIterator& iter, DType compute, SpanFn span, const void* functor) {
  if (iter.numel == 0 || run_directly(iter, compute, span, functor)) return;
  const SpanPlan plan = make_plan(iter, compute, span, functor);
  const int64_t work = plan.by_rows ? std::min(plan.chunk, plan.row()) : plan.chunk;
  parallel_for(plan.chunks, host::grain_of(work),
               [&](int64_t first, int64_t last) { run_chunks(plan, first, last); });
}

}  // namespace taper::v0::kernels::cpu
