// The ONNX form of linear, convolution, pooling, normalization, attention and recurrent layers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"
#include "framework/kernels/conv/conv.h"
#include "modules/onnx/onnx_graph.h"

namespace taper::v0::onnx_export {
namespace {

using std::string;
using Ints = std::vector<int64_t>;

// --- products ---

string linear(OpWriter& w) {
  const auto activation = w.options<Activation>();
  string y;
  if (w.x().dim() == 2) {
    std::vector<string> inputs = {w.in(0), w.in(1)};
    if (w.has(2)) inputs.push_back(w.in(2));
    y = w.add("Gemm", inputs, {{"transB", int64_t(1)}});
  } else {
    y = w.add("MatMul", {w.in(0), w.add("Transpose", {w.in(1)}, {{"perm", Ints{1, 0}}})});
    if (w.has(2)) y = w.add("Add", {y, w.in(2)});
  }
  return activated(w, y, activation);
}

template <class Options>
string conv_node(OpWriter& w, const char* node, const Options& o, const Triple* output_padding) {
  // Returns the numbers of the weight's spatial dimensions.
  const auto sizes = [&](const Triple& t) {
    const Ints all = {t.d, t.h, t.w};
    return Ints(all.end() - (w.x(1).dim() - 2), all.end());
  };
  const Shape& weight = w.x(1).shape();
  Ints pads = sizes(o.padding);
  pads.insert(pads.end(), pads.begin(), pads.end());
  std::vector<string> inputs = {w.in(0), w.in(1)};
  if (w.has(2)) inputs.push_back(w.in(2));
  Attributes attributes = {{"kernel_shape", Ints(weight.begin() + 2, weight.end())},
                           {"strides", sizes(o.stride)},
                           {"pads", pads},
                           {"dilations", sizes(o.dilation)},
                           {"group", o.groups}};
  if (output_padding) attributes.push_back({"output_padding", sizes(*output_padding)});
  return w.add(node, inputs, attributes);
}
string conv(OpWriter& w) {
  const auto& [o, relu] = w.options<std::pair<kernels::ConvWindows, bool>>();
  const string y = conv_node(w, "Conv", o, nullptr);
  return relu ? w.add("Relu", {y}) : y;
}
string conv_transpose(OpWriter& w) {
  const auto& o = w.options<ConvTranspose3dOptions>();
  return conv_node(w, "ConvTranspose", o, &o.output_padding);
}

// --- pooling ---

void require_batch(OpWriter& w, int dims) {
  if (w.x().dim() != dims + 2)
    w.refuse(concat_to_string("of an image without a batch has no ONNX form; got shape ",
                              w.x().shape()));
}
Ints listed(Pair p) { return {p.h, p.w}; }
Ints listed(const Triple& t) { return {t.d, t.h, t.w}; }

template <class Sizes>
string pool(OpWriter& w, const char* node, const Sizes& kernel, const auto& o,
            const Attributes::value_type& own) {
  require_batch(w, int(listed(kernel).size()));
  Ints pads = listed(o.padding);
  pads.insert(pads.end(), pads.begin(), pads.end());
  return w.add(node, {w.in()},
               {{"kernel_shape", listed(kernel)},
                {"strides", listed(o.stride.value_or(kernel))},
                {"pads", pads},
                {"ceil_mode", int64_t(o.ceil_mode)},
                own});
}
template <class Sizes> string max_pool(OpWriter& w) {
  const auto& [kernel, o] = w.options<std::pair<Sizes, MaxPoolOptionsOf<Sizes>>>();
  return pool(w, "MaxPool", kernel, o, {"dilations", listed(o.dilation)});
}
template <class Sizes> string avg_pool(OpWriter& w) {
  const auto& [kernel, o] = w.options<std::pair<Sizes, AvgPoolOptionsOf<Sizes>>>();
  return pool(w, "AveragePool", kernel, o, {"count_include_pad", int64_t(o.count_include_pad)});
}
template <int kDims> string adaptive_avg_pool(OpWriter& w) {
  require_batch(w, kDims);
  const Shape in(w.x().shape().begin() + 2, w.x().shape().end()),
      out(w.y().shape().begin() + 2, w.y().shape().end());
  if (out.numel() == 1) return w.add("GlobalAveragePool", {w.in()});
  Ints kernel;
  for (int d = 0; d < kDims; ++d) {
    if (in[d] % out[d] != 0) {
      w.refuse(concat_to_string("of ", in, " to ", out,
                                " has windows of several sizes, which ONNX has not"));
    }
    kernel.push_back(in[d] / out[d]);
  }
  return w.add("AveragePool", {w.in()}, {{"kernel_shape", kernel}, {"strides", kernel}});
}
// One dimension of a resize. `scale` is set if the scale was given, and not only the size.
struct Resized {
  int64_t in, out;
  std::optional<double> scale;
};

// Returns the input index of each output by PyTorch's formula in float.
Ints nearest_inputs(const Resized& axis) {
  const auto step = float(axis.scale ? 1 / *axis.scale : double(axis.in) / double(axis.out));
  Ints inputs;
  for (int64_t o = 0; o < axis.out; ++o) {
    inputs.push_back(std::min(int64_t(std::floor(float(o) * step)), axis.in - 1));
  }
  return inputs;
}

// Returns a float near the scale from which ONNX computes the right size. A runtime may multiply in
// float or double before it rounds down, and both must give that size. Returns 0 if there is no
// such float.
float scale_for(const Resized& axis) {
  if (!axis.scale || axis.in == 1) return float(double(axis.out) / double(axis.in));
  const auto finds_size = [&](float scale) {
    return int64_t(std::floor(float(axis.in) * scale)) == axis.out &&
           int64_t(std::floor(double(axis.in) * double(scale))) == axis.out;
  };
  float down = float(*axis.scale), up = down;
  for (int step = 0; step < 8; ++step) {
    if (finds_size(down)) return down;
    if (finds_size(up)) return up;
    down = std::nextafter(down, 0.F);
    up = std::nextafter(up, std::numeric_limits<float>::max());
  }
  return 0;
}

// Returns whether ONNX selects the same inputs, although it divides by the scale.
bool divides_alike(const Resized& axis) {
  const Ints inputs = nearest_inputs(axis);
  const float scale = scale_for(axis);
  for (int64_t o = 0; o < axis.out; ++o) {
    const auto i = int64_t(std::floor(float(o) / scale));
    if (std::min(i, axis.in - 1) != inputs[size_t(o)]) return false;
  }
  return scale > 0;
}

string resize(OpWriter& w, const std::vector<Resized>& axes, bool by_scale,
              const Attributes& attributes) {
  if (!by_scale) {
    return w.add("Resize", {w.in(), "", "", w.sizes(w.y().shape(), w.twin.outputs[0].shape())},
                 attributes);
  }
  std::vector<float> scales = {1, 1};
  for (const Resized& axis : axes) {
    scales.push_back(scale_for(axis));
    if (scales.back() == 0) {
      w.refuse(concat_to_string("by a scale of ", *axis.scale, " has no ONNX form; give the size"));
    }
  }
  return w.add("Resize", {w.in(), "", w.constant(tensor(scales))}, attributes);
}

string interpolate_nearest(OpWriter& w, const std::vector<Resized>& axes) {
  if (std::ranges::all_of(axes, divides_alike)) {
    return resize(w, axes, axes[0].scale.has_value(),
                  {{"coordinate_transformation_mode", string("asymmetric")},
                   {"mode", string("nearest")},
                   {"nearest_mode", string("floor")}});
  }
  string y = w.in();
  for (size_t i = 0; i < axes.size(); ++i) {
    y = w.add("Gather", {y, w.numbers(nearest_inputs(axes[i]))}, {{"axis", int64_t(i + 2)}});
  }
  return y;
}

string interpolate(OpWriter& w) {
  const auto& o = w.options<InterpolateOptions>();
  std::vector<Resized> axes;
  for (int d = 2; d < w.x().dim(); ++d) {
    axes.push_back({w.x().size(d), w.y().size(d), o.scale_factor});
  }
  if (o.mode == Interpolation::kNearest) return interpolate_nearest(w, axes);
  // With aligned corners, only the sizes matter. ONNX's pytorch_half_pixel cannot be used: if the
  // result has length 1, it takes the corner, unlike PyTorch.
  const bool by_corners = o.align_corners.value_or(false);
  return resize(
      w, axes, o.scale_factor && !by_corners,
      {{"coordinate_transformation_mode", string(by_corners ? "align_corners" : "half_pixel")},
       {"mode", string(o.mode == Interpolation::kBicubic ? "cubic" : "linear")}});
}
string grid_sample(OpWriter& w) {
  const auto& o = w.options<GridSampleOptions>();
  return w.add("GridSample", {w.in(0), w.in(1)},
               {{"mode", string(o.mode.word())},
                {"padding_mode", string(o.padding_mode.word())},
                {"align_corners", int64_t(o.align_corners)}});
}

// --- normalisation ---

// Returns parameter i, which has one number per channel. If it is not given, returns `missing` for
// each channel.
string parameter(OpWriter& w, size_t i, const Shape& shape, double missing) {
  return w.has(i) ? w.in(i) : w.constant(full(shape, missing, {.dtype = w.x().dtype()}));
}
string layer_norm(OpWriter& w) {
  const auto& o = w.options<NormTrace>();
  const Shape& x = w.x().shape();
  const Shape own(x.end() - o.count, x.end());
  const string y =
      w.add("LayerNormalization", {w.in(), parameter(w, 1, own, 1), parameter(w, 2, own, 0)},
            {{"axis", -o.count}, {"epsilon", float(o.eps)}});
  return w.dtype() == w.x().dtype() ? y : w.cast(y, w.dtype());
}
string rms_norm(OpWriter& w) {
  const auto& o = w.options<NormTrace>();
  Ints axes;
  for (int64_t i = 0; i < o.count; ++i) axes.push_back(w.x().dim() - o.count + i);
  const string squares = w.add("ReduceMean", {w.add("Mul", {w.in(), w.in()})},
                               {{"axes", axes}, {"keepdims", int64_t(1)}});
  const string y = w.add("Div", {w.in(), w.add("Sqrt", {with(w, "Add", squares, o.eps)})});
  return w.has(1) ? w.add("Mul", {y, w.in(1)}) : y;
}
string group_norm(OpWriter& w) {
  const auto& o = w.options<NormTrace>();
  const auto& type = w.x().dtype();
  const Shape &x = w.x().shape(), &other = w.twin.inputs[0].shape();
  const string groups = w.add("Reshape", {w.in(), w.numbers({0, o.count, -1})});
  const string y = w.add("InstanceNormalization",
                         {groups, w.constant(ones({o.count}, {.dtype = type})),
                          w.constant(zeros({o.count}, {.dtype = type}))},
                         {{"epsilon", float(o.eps)}});
  string z = w.add("Reshape", {y, w.sizes(x, other)});
  Ints of_channel(size_t(x.size() - 1), 1);
  of_channel[0] = x[1];
  const auto spread = [&](size_t i) { return w.add("Reshape", {w.in(i), w.numbers(of_channel)}); };
  if (w.has(1)) z = w.add("Mul", {z, spread(1)});
  return w.has(2) ? w.add("Add", {z, spread(2)}) : z;
}
string batch_norm(OpWriter& w) {
  const Shape channels{w.x().size(1)};
  return w.add(
      "BatchNormalization",
      {w.in(), parameter(w, 1, channels, 1), parameter(w, 2, channels, 0), w.in(3), w.in(4)},
      {{"epsilon", float(w.options<NormTrace>().eps)}});
}

// --- attention, recurrent cells ---

// Writes attention of q [..., T, D], k [..., S, D] and v [..., S, Dv]. `mask` is added to the
// scores, or is empty.
string attend(OpWriter& w, const string& q, const string& k_turned, const string& v, double scale,
              const string& mask, bool may_hide_all) {
  string scores = w.add("MatMul", {with(w, "Mul", q, scale), k_turned});
  if (!mask.empty()) scores = w.add("Add", {scores, mask});
  string p = w.add("Softmax", {scores}, {{"axis", int64_t(-1)}});
  if (may_hide_all) p = w.add("Where", {w.add("IsNaN", {p}), w.number(0, w.dtype()), p});
  return w.add("MatMul", {p, v});
}
// Returns a mask with 0 for keys up to the query's own position, and -inf after it.
string causal_mask(OpWriter& w, int64_t T, int64_t S) {
  return w.constant(triu(full({T, S}, -kInfinity), 1).to(w.dtype()));
}
string attention(OpWriter& w) {
  const auto& o = w.options<AttentionTrace>();
  string mask;
  if (o.is_causal) mask = causal_mask(w, w.x(0).size(-2), w.x(1).size(-2));
  if (w.has(3) && w.x(3).dtype() == kBool) {
    mask = w.add("Where", {w.in(3), w.number(0, w.dtype()), w.number(-kInfinity, w.dtype())});
  } else if (w.has(3)) {
    mask = w.in(3, w.dtype());
  }
  Ints order(size_t(w.x(1).dim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.end()[-1], order.end()[-2]);
  const string k = w.add("Transpose", {w.in(1)}, {{"perm", order}});
  return attend(w, w.in(0), k, w.in(2), o.scale, mask, w.has(3));
}
string packed_attention(OpWriter& w) {
  const auto& o = w.options<AttentionTrace>();
  const int64_t T = w.x().size(1), C = w.x().size(2) / 3;
  const std::vector<string> parts = w.add_many("Split", 3, {w.in()}, {{"axis", int64_t(2)}});
  // Transposes [B, T, C] to [B, H, T, D], and keys to [B, H, D, T].
  const auto heads = [&](const string& x, const Ints& order) {
    const string split = w.add("Reshape", {x, w.numbers({0, 0, o.n_head, C / o.n_head})});
    return w.add("Transpose", {split}, {{"perm", order}});
  };
  const string y = attend(w, heads(parts[0], {0, 2, 1, 3}), heads(parts[1], {0, 2, 3, 1}),
                          heads(parts[2], {0, 2, 1, 3}), o.scale,
                          o.is_causal ? causal_mask(w, T, T) : "", false);
  const string merged = w.add("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  return w.add("Reshape", {merged, w.numbers({0, 0, C})});
}
string lstm_cell(OpWriter& w) {
  const auto gates =
      w.add_many("Split", 4, {w.add("Add", {w.in(0), w.in(1)})}, {{"axis", int64_t(1)}});
  const auto sigmoid = [&](const string& x) { return w.add("Sigmoid", {x}); };
  const string kept = w.add("Mul", {sigmoid(gates[1]), w.in(2)});
  const string fresh = w.add("Mul", {sigmoid(gates[0]), w.add("Tanh", {gates[2]})});
  const string c = w.add("Add", {kept, fresh});
  w.give(1, c);
  return w.add("Mul", {sigmoid(gates[3]), w.add("Tanh", {c})});
}
string gru_cell(OpWriter& w) {
  const auto x = w.add_many("Split", 3, {w.in(0)}, {{"axis", int64_t(1)}});
  const auto h = w.add_many("Split", 3, {w.in(1)}, {{"axis", int64_t(1)}});
  const auto gate = [&](size_t i) { return w.add("Sigmoid", {w.add("Add", {x[i], h[i]})}); };
  const string n = w.add("Tanh", {w.add("Add", {x[2], w.add("Mul", {gate(0), h[2]})})});
  return w.add("Add", {n, w.add("Mul", {gate(1), w.add("Sub", {w.in(2), n})})});
}

constexpr OnnxRow kLayerRows[] = {
    {"linear", nullptr, linear},
    {"conv1d", nullptr, conv},
    {"conv2d", nullptr, conv},
    {"conv3d", nullptr, conv},
    {"conv_transpose1d", nullptr, conv_transpose},
    {"conv_transpose2d", nullptr, conv_transpose},
    {"conv_transpose3d", nullptr, conv_transpose},
    {"max_pool2d", nullptr, max_pool<Pair>},
    {"max_pool3d", nullptr, max_pool<Triple>},
    {"avg_pool2d", nullptr, avg_pool<Pair>},
    {"avg_pool3d", nullptr, avg_pool<Triple>},
    {"adaptive_avg_pool2d", nullptr, adaptive_avg_pool<2>},
    {"adaptive_avg_pool3d", nullptr, adaptive_avg_pool<3>},
    {"interpolate", nullptr, interpolate},
    {"grid_sample", nullptr, grid_sample},
    {"layer_norm", nullptr, layer_norm},
    {"rms_norm", nullptr, rms_norm},
    {"group_norm", nullptr, group_norm},
    {"batch_norm", nullptr, batch_norm},
    {"scaled_dot_product_attention", nullptr, attention},
    {"packed_attention", nullptr, packed_attention},
    {"lstm_cell", nullptr, lstm_cell},
    {"gru_cell", nullptr, gru_cell},
};

}  // namespace

std::span<const OnnxRow> layer_rows() { return kLayerRows; }

}  // namespace taper::v0::onnx_export
