#include "framework/kernels/conv/conv.h"

#include <algorithm>

#include "framework/kernels/common/channels_last.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0::kernels {
namespace {

// The maximum number of elements in `columns` at a time, unless those of one image are more.
constexpr int64_t kMaxColumns = int64_t(1) << 24;

// --- shapes and layouts ---

// Converts the shape of [N, C, L] or [N, C, H, W] to that of [N, C, D, H, W].
Shape as_3d(Shape shape) {
  while (shape.size() < 5) shape.insert(2, 1);
  return shape;
}

ConvSizes sizes_of(const Shape& x, const Shape& weight, const ConvWindows& options) {
  const Shape s = as_3d(x), k = as_3d(weight);
  const auto axis = [&](int i, int64_t Triple::*side) {
    ConvAxis a{s[i], k[i], 0, options.stride.*side, options.padding.*side, options.dilation.*side};
    const int64_t reach = a.in + 2 * a.padding - checked_mul(a.dilation, a.kernel - 1) - 1;
    if (reach >= 0) a.out = reach / a.stride + 1;
    return a;
  };
  return {s[0],
          s[1],
          k[0],
          options.groups,
          axis(2, &Triple::d),
          axis(3, &Triple::h),
          axis(4, &Triple::w)};
}

// Returns whether every output reads only the input at its own position of this dimension.
bool is_pointwise(const ConvAxis& a) { return a.kernel == 1 && a.stride == 1 && a.padding == 0; }

// Returns the sizes of an equal convolution with two spatial dimensions, if there is one. More
// kernels support it. Planes that do not depend on each other become images, and rows that do not
// become one row.
ConvSizes as_2d_if_equal(ConvSizes s) {
  if (is_pointwise(s.d)) {
    s.n *= s.d.in;
    s.d = kNoConvAxis;
  } else if (is_pointwise(s.h) && is_pointwise(s.w)) {
    s.w.in = s.w.out = s.h.in * s.w.in;
    s.h = s.d;
    s.d = kNoConvAxis;
  }
  return s;
}

// Returns a view of a logical [N, C, ...] as [N, ..., C], and a dense tensor with its elements.
Tensor channels_last_view(const Tensor& x) {
  return view_as(x, with_channels_last(x.shape()), with_channels_last(x.strides()),
                 x.storage_offset());
}
Tensor to_channels_last(const Tensor& x) { return dense(channels_last_view(x)); }

Tensor make_channels_last(const Shape& shape, const Tensor& like) {
  return Tensor::make(with_channels_last(shape), like.dtype(), like.device());
}

Tensor from_channels_last(const Tensor& x, const Shape& shape) {
  return view_as(x, shape, with_channels_second(contiguous_strides(with_channels_last(shape))), 0);
}

// --- computation ---

const Tensor& output_of(ConvPass pass, const ConvTensors& t) {
  return pass == ConvPass::kY ? t.y : pass == ConvPass::kDx ? t.x : t.weight;
}

// The matrices of the groups in one tensor. Rows are `ld` elements apart and groups `stride`
// elements.
struct Matrices {
  const Tensor& data;
  int64_t offset, ld, stride;
  void* address() const { return pointer<char>(data) + offset * int64_t(data.element_size()); }
};

// Computes for every group y = columns weight^T, columns = y weight, or weight += y^T columns.
void multiply(ConvPass pass, const ConvSizes& s, const ConvTensors& t, const Tensor& columns,
              int64_t first, int64_t images) {
  const int64_t o = s.o / s.groups, depth = s.depth(), rows = images * s.pixels();
  const Matrices by_y{t.y, first * s.pixels() * s.o, s.o, o};
  const Matrices by_columns{columns, 0, s.groups * depth, depth};
  const Matrices by_weight{t.weight, 0, depth, o * depth};
  const bool y = pass == ConvPass::kY, dweight = pass == ConvPass::kDWeight;
  const Matrices& a = y ? by_columns : by_y;
  const Matrices& b = dweight ? by_columns : by_weight;
  const Matrices& c = y ? by_y : dweight ? by_weight : by_columns;
  Gemm g;
  g.m = dweight ? o : rows;
  g.n = y ? o : depth;
  g.k = y ? depth : dweight ? rows : o;
  g.batch = s.groups;
  g.transpose_a = dweight;
  g.transpose_b = y;
  g.lda = a.ld;
  g.ldb = b.ld;
  g.ldc = c.ld;
  g.stride_a = a.stride;
  g.stride_b = b.stride;
  g.stride_c = c.stride;
  g.beta = (dweight && first > 0) || (y && t.bias.defined()) ? 1 : 0;
  g.dtype = t.x.dtype();
  g.device = t.x.device().index();
  dispatch<cpu::gemm, cuda::gemm>(t.x.device(), g, a.address(), b.address(), c.address(),
                                  Epilogue());
}

void apply_relu(const ConvTensors& t) {
  if (t.relu) unary_into(UnaryOp::kRelu, t.y, t.y);
}

// Computes a convolution of float32 or float64 on any device by matrix products, a limited number
// of images at a time.
void compute_by_products(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  const int64_t per_image = s.pixels() * s.groups * s.depth();
  const int64_t images = std::min(s.n, std::max<int64_t>(1, kMaxColumns / per_image));
  const Tensor columns = Tensor::make({images * per_image}, t.x.dtype(), t.x.device());
  if (t.bias.defined()) copy_into(t.y, t.bias);  // the products are added to it
  for (int64_t first = 0; first < s.n; first += images) {
    const int64_t now = std::min(images, s.n - first);
    on_device<ConvKernels>(t.x.device(), [&](auto k) {
      if (pass != ConvPass::kDx) k.unfold(columns, t.x, s, first, now);
      multiply(pass, s, t, columns, first, now);
      if (pass == ConvPass::kDx) k.fold(t.x, columns, s, first, now);
    });
  }
  apply_relu(t);
}

ConvTensors with_dense_weight(ConvTensors t) {
  t.weight = dense(t.weight);
  return t;
}

bool compute_by_library(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  bool done = false;
  dispatch(
      t.x.device(),
      [&] {
        done = cpu::conv(pass, s, t);
        if (done) apply_relu(t);
      },
      [&] {
        done = cuda::conv_fma(pass, s, t);
        if (done) return;
        const ConvTensors laid_out = with_dense_weight(t);
        done = cuda::conv_by_rows(pass, s, laid_out);
        if constexpr (kHasCudnn) done = done || cuda::conv(pass, s, laid_out);
      },
      pass == ConvPass::kY ? "convolution" : "convolution_backward");
  return done;
}

void compute_in_its_type(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  const Tensor& out = output_of(pass, t);
  if (out.numel() == 0) return;
  if (t.x.numel() == 0 || t.weight.numel() == 0 || t.y.numel() == 0) {
    t.bias.defined() ? copy_into(out, t.bias) : fill(out, 0);
    return apply_relu(t);
  }
  if (compute_by_library(pass, s, t)) return;
  if (!is_half(t.x.dtype())) return compute_by_products(pass, s, with_dense_weight(t));
  const auto widened = [&](const Tensor& x) {
    return &x == &out ? Tensor::make(x.shape(), kFloat32, x.device()) : packed(x, kFloat32);
  };
  const ConvTensors wide{widened(t.x), widened(t.weight), widened(t.y),
                         t.bias.defined() ? packed(t.bias, kFloat32) : Tensor(), t.relu};
  compute_in_its_type(pass, s, wide);
  copy_into(out, output_of(pass, wide));
}

void compute(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  multiply_adds += s.n * s.o * s.pixels() * s.depth();
  compute_in_its_type(pass, as_2d_if_equal(s), t);
}

// --- checks ---

void check_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  same_device(op, {&x, &weight, &bias}, {"input", "weight", "bias"});
  check_floating(op, x);
  const auto check_dtype = [&](const char* name, const Tensor& other) {
    if (!other.defined() || other.dtype() == x.dtype()) return;
    throw Error("Input type (", cpp_name(x.dtype()), ") and ", name, " type (",
                cpp_name(other.dtype()), ") should be the same (", op, " of ", x.shape(), ")");
  };
  check_dtype("weight", weight);
  check_dtype("bias", bias);
}

void check_numbers(const char* op, const Triple& t) { check_window_numbers(op, {t.d, t.h, t.w}); }
int64_t least(const Triple& t) { return std::min({t.d, t.h, t.w}); }

void check_options(const char* op, const Tensor& x, const Tensor& weight,
                   const ConvWindows& options) {
  const auto require = [&](bool good, const char* text) {
    if (!good) throw Error(text, " (", op, " of ", x.shape(), " and ", weight.shape(), ")");
  };
  const auto& [stride, padding, dilation, groups] = options;
  check_numbers(op, stride);
  check_numbers(op, padding);
  check_numbers(op, dilation);
  require(groups > 0, "non-positive groups is not supported");
  require(least(padding) >= 0, "negative padding is not supported");
  require(least(stride) > 0, "non-positive stride is not supported");
  require(least(dilation) > 0, "dilation should be greater than zero");
}

// Checks the shapes. If `transposed`, x and y exchange roles.
void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                  bool transposed = false) {
  require(weight.dim() == x.dim(), "Expected ", weight.dim(), "-dimensional input for ",
          weight.dim(), "-dimensional weight ", weight.shape(), ", but got ", x.dim(),
          "-dimensional input of size ", x.shape(), " instead");
  const int64_t rows = weight.size(0), columns = checked_mul(weight.size(1), groups);
  require(rows >= groups && rows % groups == 0, "Given groups=", groups, ", expected weight to be ",
          rows < groups ? "at least " : "divisible by ", groups,
          " at dimension 0, but got weight of size ", weight.shape(), " instead");
  const int64_t c = transposed ? rows : columns, o = transposed ? columns : rows;
  const std::string given = transposed
                                ? "Given transposed=1, weight of size "
                                : concat_to_string("Given groups=", groups, ", weight of size ");
  require(x.size(1) == c, given, weight.shape(), ", expected input", x.shape(), " to have ", c,
          " channels, but got ", x.size(1), " channels instead");
  if (bias.defined() && bias.shape() != Shape{o}) {
    throw Error(transposed ? given : "Given weight of size ", weight.shape(),
                ", expected bias to be 1-dimensional with ", o, " elements, but got bias of size ",
                bias.shape(), " instead");
  }
}

// Formats the numbers of x's spatial dimensions: "(5 x 7)", or "(7)" for one dimension.
std::string sides(const Tensor& x, const Triple& t) {
  const std::string hw = concat_to_string(t.h, " x ", t.w, ")");
  return x.dim() == 3   ? concat_to_string("(", t.w, ")")
         : x.dim() == 4 ? "(" + hw
                        : concat_to_string("(", t.d, " x ", hw);
}

void check_windows(const ConvSizes& s, const Tensor& x) {
  const auto of_axes = [&](auto number) { return Triple(number(s.d), number(s.h), number(s.w)); };
  const Triple kernel = of_axes([](const ConvAxis& a) { return a.kernel; });
  if (least(kernel) == 0) {
    throw Error("kernel size should be greater than zero, but got ", sides(x, kernel));
  }
  if (least(of_axes([](const ConvAxis& a) { return a.out; })) > 0) return;
  const Triple padded = of_axes([](const ConvAxis& a) { return a.in + 2 * a.padding; });
  const Triple reach = of_axes([](const ConvAxis& a) { return a.dilation * (a.kernel - 1) + 1; });
  throw Error("Calculated padded input size per channel: ", sides(x, padded),
              ". Kernel size: ", sides(x, reach),
              ". Kernel size can't be greater than actual input size");
}

// Formats "name_height: 2 name_width: 2", with the depth if there is one.
std::string named_sides(const Tensor& x, const std::string& name, const Triple& t) {
  const std::string depth = x.dim() == 5 ? concat_to_string(name, "_depth: ", t.d, " ") : "";
  return concat_to_string(depth, name, "_height: ", t.h, " ", name, "_width: ", t.w);
}

void check_output_padding(const char* op, const Tensor& x, const ConvWindows& o,
                          const Triple& output_padding) {
  check_numbers(op, output_padding);
  require(least(output_padding) >= 0, "negative output_padding is not supported");
  for (const auto side : {&Triple::d, &Triple::h, &Triple::w}) {
    if (output_padding.*side < std::max(o.stride.*side, o.dilation.*side)) continue;
    throw Error("output padding must be smaller than either stride or dilation, but got ",
                named_sides(x, "output_padding", output_padding), " ",
                named_sides(x, "stride", o.stride), " ", named_sides(x, "dilation", o.dilation));
  }
}

}  // namespace

Tensor conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvWindows& options, bool relu) {
  check_operands(op, x, weight, bias);
  check_options(op, x, weight, options);
  check_shapes(x, weight, bias, options.groups);
  const ConvSizes s = sizes_of(x.shape(), weight.shape(), options);
  check_windows(s, x);
  Shape shape = {s.n, s.o, s.d.out, s.h.out, s.w.out};
  while (shape.size() > x.dim()) shape.erase(2);
  const Tensor y = make_channels_last(shape, x), filter = channels_last_view(weight);
  const bool is_cuda = x.is_cuda();
  compute(ConvPass::kY, s,
          {to_channels_last(x), is_cuda ? filter : dense(filter), y,
           bias.defined() ? dense(bias) : Tensor(), relu});
  return from_channels_last(y, shape);
}

Tensor conv_dx(const Tensor& dy, const Tensor& weight, const Shape& x, const ConvWindows& options) {
  const Tensor dx = make_channels_last(x, dy);
  compute(ConvPass::kDx, sizes_of(x, weight.shape(), options),
          {dx, to_channels_last(weight), to_channels_last(dy)});
  return from_channels_last(dx, x);
}

Tensor conv_dweight(const Tensor& dy, const Tensor& x, const Shape& weight,
                    const ConvWindows& options) {
  const Tensor dweight = make_channels_last(weight, dy);
  compute(ConvPass::kDWeight, sizes_of(x.shape(), weight, options),
          {to_channels_last(x), dweight, to_channels_last(dy)});
  return dense(from_channels_last(dweight, weight));
}

Shape conv_transpose_shape(const char* op, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const ConvWindows& o, const Triple& output_padding) {
  check_operands(op, x, weight, bias);
  check_options(op, x, weight, o);
  check_shapes(x, weight, bias, o.groups, true);
  check_output_padding(op, x, o, output_padding);
  const Shape in = as_3d(x.shape()), kernel = as_3d(weight.shape());
  require(in[2] != 0 && in[3] != 0 && in[4] != 0,
          "Only zero batch or zero channel inputs are supported, but got input shape: ", x.shape());
  require(weight.numel() != 0, "non-empty ", x.dim() == 5 ? "5D" : "2D or 4D",
          " weight tensor expected, but got: ", weight.shape());
  const auto out = [&](int i, int64_t Triple::*side) {
    return checked_add(checked_mul(in[i] - 1, o.stride.*side) - 2 * (o.padding.*side),
                       checked_mul(o.dilation.*side, kernel[i] - 1) + output_padding.*side + 1);
  };
  const Triple to{out(2, &Triple::d), out(3, &Triple::h), out(4, &Triple::w)};
  if (least(to) < 1) {
    throw Error("Given input size per channel: ", sides(x, {in[2], in[3], in[4]}),
                ". Calculated output size per channel: ", sides(x, to),
                ". Output size is too small (", op, ")");
  }
  Shape shape = {in[0], weight.size(1) * o.groups, to.d, to.h, to.w};
  while (shape.size() > x.dim()) shape.erase(2);
  return shape;
}

Tensor fold(const Tensor& columns, const Shape& x, Pair kernel, const ConvWindows& options) {
  const ConvSizes s = sizes_of(x, {1, x[1], kernel.h, kernel.w}, options);
  const DType wide = compute_type(columns.dtype());
  const Tensor given = dense(columns);
  const int64_t l = s.pixels(), window = kernel.h * kernel.w;
  // The layout is [N, out h, out w, kh, kw, C].
  const Tensor rows = packed(view_as(given, {s.n, l, window, s.c},
                                     {s.c * window * l, 1, l, window * l}, given.storage_offset()),
                             wide);
  const Tensor sums = make_channels_last(x, rows);
  if (sums.numel() > 0) {
    on_device<ConvKernels>(sums.device(), [&](auto k) { k.fold(sums, rows, s, 0, s.n); });
  }
  return packed(from_channels_last(sums, x), columns.dtype());
}

}  // namespace taper::v0::kernels
