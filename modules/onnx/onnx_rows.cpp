// The ONNX form of reductions, views and indexing (https://onnx.ai/onnx/operators/, opset 17), and
// the lookup of the rows of all ops.
#include <limits>

#include "framework/kernels/reduce/reduce.h"
#include "modules/onnx/onnx_graph.h"

namespace taper::v0::onnx_export {
namespace {

using std::string;
using Ints = std::vector<int64_t>;

// --- reductions ---

struct Axes {
  Ints dims;
  int64_t keepdim;
};
Axes axes_of(OpWriter& w) {
  const auto& o = w.options<kernels::ReduceTrace>();
  Axes axes{{}, o.keepdim};
  for (const int64_t d : o.dims) axes.dims.push_back(wrap_dim(d, w.x().dim()));
  for (int d = 0; o.dims.empty() && d < w.x().dim(); ++d) axes.dims.push_back(d);
  return axes;
}
string mapped(OpWriter& w) {
  using kernels::ReduceMap;
  const ReduceMap map = w.options<kernels::ReduceTrace>().map;
  if (map == ReduceMap::kNonzero) return w.cast(w.cast(w.in(), kBool), kInt64);
  const string x = x_of(w);
  if (map == ReduceMap::kNone) return x;
  return map == ReduceMap::kAbs ? w.add("Abs", {x}) : w.add("Mul", {x, x});
}
string reduced(OpWriter& w, const string& x) {
  const Axes axes = axes_of(w);
  return w.add(w.onnx, {x}, {{"axes", axes.dims}, {"keepdims", axes.keepdim}});
}
string reduce(OpWriter& w) { return reduced(w, mapped(w)); }
string sum(OpWriter& w) {
  const Axes axes = axes_of(w);
  return w.add("ReduceSum", {mapped(w), w.numbers(axes.dims)}, {{"keepdims", axes.keepdim}});
}
string variance(OpWriter& w) {
  const Axes axes = axes_of(w);
  const auto mean = [&](const string& x, int64_t keepdim) {
    return w.add("ReduceMean", {x}, {{"axes", axes.dims}, {"keepdims", keepdim}});
  };
  const string x = x_of(w), d = w.add("Sub", {x, mean(x, 1)});
  const string factor = w.number(w.options<kernels::ReduceTrace>().factor, w.y().dtype());
  return w.add("Mul", {mean(w.add("Mul", {d, d}), axes.keepdim), factor});
}
string deviation(OpWriter& w) { return w.add("Sqrt", {variance(w)}); }
string of_bools(OpWriter& w) { return w.cast(reduced(w, w.cast(w.in(0, kBool), kInt32)), kBool); }
string arg(OpWriter& w) {
  const Axes axes = axes_of(w);
  return w.add(w.onnx, {w.in()}, {{"axis", axes.dims[0]}, {"keepdims", axes.keepdim}});
}
string cumsum(OpWriter& w) {
  return w.add("CumSum", {x_of(w), w.numbers({w.options<Shape>()[0]})});
}

// --- views, joining, indexing ---

string to_sizes(OpWriter& w) {
  return w.add(w.onnx, {w.in(), w.sizes(w.y().shape(), w.twin.outputs[0].shape())});
}
string permute(OpWriter& w) {
  Ints order;
  for (const int64_t d : w.options<Shape>()) order.push_back(wrap_dim(d, w.x().dim()));
  return w.add("Transpose", {w.in()}, {{"perm", order}});
}
// Writes a slice. The options are dimension, first element, number of elements, and step.
string slice(OpWriter& w) {
  const auto end_of = [](const Shape& s) {
    return Shape{s[2] == 0 ? s[1] : s[1] + (s[2] - 1) * s[3] + 1};
  };
  const Shape &here = w.options<Shape>(), &there = w.twin_options<Shape>();
  return w.add("Slice",
               {w.in(), w.sizes({here[1]}, {there[1]}), w.sizes(end_of(here), end_of(there)),
                w.numbers({here[0]}), w.numbers({here[3]})});
}
string flip(OpWriter& w) {
  const Shape& dims = w.options<Shape>();
  const auto all = [&](int64_t n) { return w.numbers(Ints(size_t(dims.size()), n)); };
  return w.add("Slice", {w.in(), all(-1), all(std::numeric_limits<int64_t>::min()),
                         w.numbers(Ints(dims.begin(), dims.end())), all(-1)});
}
string concat(OpWriter& w) {
  return w.add(w.onnx, w.all_in(w.dtype()), {{"axis", w.options<Shape>()[0]}});
}
string pad(OpWriter& w) {
  const auto& [padding, value] = w.options<std::pair<Ints, Scalar>>();
  const size_t dims = size_t(w.x().dim());
  Ints pads(2 * dims, 0);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    pads[dims - 1 - i] = padding[2 * i];
    pads[2 * dims - 1 - i] = padding[2 * i + 1];
  }
  return w.add("Pad", {w.in(), w.numbers(pads), w.number(value.to_double(), w.dtype())});
}
// Keeps one side of a diagonal, whose number is the option.
template <int64_t kUpper> string one_side(OpWriter& w) {
  const string diagonal = w.number(double(w.options<Shape>()[0]), kInt64);
  return w.add("Trilu", {w.in(), diagonal}, {{"upper", kUpper}});
}
// Joins all inputs along the dimension in the options.
string along(OpWriter& w) { return w.add(w.onnx, w.all_in(), {{"axis", w.options<Shape>()[0]}}); }

constexpr OnnxRow kRows[] = {
    {"sum", nullptr, sum},
    {"mean", "ReduceMean", reduce},
    {"std", nullptr, deviation},
    {"var", nullptr, variance},
    {"prod", "ReduceProd", reduce},
    {"amax", "ReduceMax", reduce},
    {"amin", "ReduceMin", reduce},
    {"all", "ReduceMin", of_bools},
    {"any", "ReduceMax", of_bools},
    {"logsumexp", "ReduceLogSumExp", reduce},
    {"argmax", "ArgMax", arg},
    {"argmin", "ArgMin", arg},
    {"softmax", "Softmax", along},
    {"log_softmax", "LogSoftmax", along},
    {"cumsum", nullptr, cumsum},
    {"view", "Reshape", to_sizes},
    {"expand", "Expand", to_sizes},
    {"permute", nullptr, permute},
    {"flip", nullptr, flip},
    {"slice", nullptr, slice},
    {"clone", nullptr, x_of},
    {"cat", "Concat", concat},
    {"pad", nullptr, pad},
    {"tril", nullptr, one_side<0>},
    {"triu", nullptr, one_side<1>},
    {"index_select", "Gather", along},
    {"gather", "GatherElements", along},
    {"matmul", "MatMul"},
};

}  // namespace

int onnx_type(DType dtype) {
  static constexpr int kTypes[] = {1, 11, 10, 16, 7, 6, 5, 3, 2, 9};  // in the order of DType
  return kTypes[size_t(dtype)];
}

const OnnxRow* onnx_row(const string& op) {
  for (const std::span<const OnnxRow> rows :
       {elementwise_rows(), layer_rows(), std::span<const OnnxRow>(kRows)}) {
    for (const OnnxRow& row : rows) {
      if (row.op == op) return &row;
    }
  }
  return nullptr;
}

string OpWriter::cast(const string& value, DType dtype) {
  return add("Cast", {value}, {{"to", int64_t(onnx_type(dtype))}});
}

}  // namespace taper::v0::onnx_export
