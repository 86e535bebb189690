// Convolutions of half types by products of matrices, where cuDNN has no fast algorithm: the first
// convolution of a network, whose pictures have few channels, and strided ones with windows of one
// pixel. A row of the left matrix has the inputs of a pixel of y.
#include <algorithm>
#include <cstdint>

#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/conv/conv.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/strided_index.cuh"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;

constexpr int kVec = 8;  // elements of 16 bytes
constexpr int kBlock = 256;
// Limits on the elements of the rows at a time, which then stay in the cache, and of one row.
constexpr int64_t kMaxRows = int64_t(1) << 24, kMaxDepth = 64;

using Bits = Vec<uint16_t, kVec>;

struct GatherSide {
  int in, stride, padding, dilation;
  __host__ explicit GatherSide(const ConvAxis& a)
      : in(int(a.in)), stride(int(a.stride)), padding(int(a.padding)), dilation(int(a.dilation)) {}
  __device__ int at(int out, int kernel) const {
    return out * stride - padding + kernel * dilation;
  }
};

struct GatherArgs {
  uint16_t* rows;
  const uint16_t* x;
  GatherSide h, w;
  int channels, depth;
  uint32_t count;  // vectors in all rows
  FastDivisor vectors, out_w, out_h, by_channels, kernel_w;
};

// kWhole: the channels are whole vectors.
template <bool kWhole>
__global__ void __launch_bounds__(kBlock)
    gather_rows_kernel(const __grid_constant__ GatherArgs args) {
  begin_kernel();
  const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
  if (i >= args.count) return;
  const uint32_t pixel = args.vectors.divide(i), line = args.out_w.divide(pixel);
  const uint32_t image = args.out_h.divide(line);
  const int first = int(i - pixel * args.vectors.divisor) * kVec;
  const int ow = int(pixel - line * args.out_w.divisor);
  const int oh = int(line - image * args.out_h.divisor);
  const uint16_t* const picture = args.x + int64_t(image) * args.h.in * args.w.in * args.channels;
  const int position = int(args.by_channels.divide(uint32_t(first)));
  int c = first - position * args.channels;
  int kh = int(args.kernel_w.divide(uint32_t(position)));
  int kw = position - kh * int(args.kernel_w.divisor);
  // Returns the place of the current element, or null outside of the picture.
  const auto place = [&]() -> const uint16_t* {
    const int y = args.h.at(oh, kh), x = args.w.at(ow, kw);
    if (y < 0 || y >= args.h.in || x < 0 || x >= args.w.in) return nullptr;
    return picture + (int64_t(y) * args.w.in + x) * args.channels + c;
  };
  Bits v{};
  if constexpr (kWhole) {
    if (const uint16_t* from = place()) v = load_vec<uint16_t, kVec>(from);
  } else {
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const uint16_t* from = first + j < args.depth ? place() : nullptr;
      if (from) v.at[j] = *from;
      if (++c < args.channels) continue;
      c = 0;
      if (++kw < int(args.kernel_w.divisor)) continue;
      kw = 0;
      ++kh;
    }
  }
  store_vec(args.rows + int64_t(i) * kVec, v);
}

// Writes the rows of images [first, first + images). A row is padded with zeros.
void gather_rows(const Tensor& rows, const Tensor& x, const ConvSizes& s, int64_t first,
                 int64_t images) {
  const Launch on(x);
  const int64_t vectors = rows.size(1) / kVec, count = images * s.pixels() * vectors;
  const GatherArgs args{.rows = pointer<uint16_t>(rows),
                        .x = pointer<const uint16_t>(x) + first * s.inputs() * s.c,
                        .h = GatherSide(s.h),
                        .w = GatherSide(s.w),
                        .channels = int(s.c),
                        .depth = int(s.depth()),
                        .count = uint32_t(count),
                        .vectors = FastDivisor(uint32_t(vectors)),
                        .out_w = FastDivisor(uint32_t(s.w.out)),
                        .out_h = FastDivisor(uint32_t(s.h.out)),
                        .by_channels = FastDivisor(uint32_t(s.c)),
                        .kernel_w = FastDivisor(uint32_t(s.w.kernel))};
  const auto kernel = s.c % kVec == 0 ? gather_rows_kernel<true> : gather_rows_kernel<false>;
  on.run(kernel, {unsigned(ceil_div(count, kBlock)), kBlock}, args);
  on.check("conv");
}

// Returns whether places in the picture, which the kernel computes as int, cannot overflow.
bool fits(const ConvAxis& a) {
  constexpr int64_t most = int64_t(1) << 28;
  return std::max({a.in, a.stride, a.padding, a.dilation}) <= most;
}

bool is_strided_pixel(const ConvAxis& a) { return a.kernel == 1 && a.padding == 0; }

// Returns whether products are faster than cuDNN.
bool is_faster(ConvPass pass, const ConvSizes& s, DType dtype) {
  if (!is_half(dtype) || s.groups != 1 || s.is_3d() || s.o % kVec != 0) return false;
  if (!fits(s.h) || !fits(s.w)) return false;
  if (s.depth() > kMaxDepth || s.pixels() * kMaxDepth > kMaxRows) return false;
  const bool few_channels = s.c < kVec && pass != ConvPass::kDx;
  const bool is_strided = s.h.stride > 1 || s.w.stride > 1;
  return few_channels || (pass == ConvPass::kY && is_strided && s.c % kVec == 0 &&
                          is_strided_pixel(s.h) && is_strided_pixel(s.w));
}

// Returns the weight as [O, row], padded with zeros.
Tensor weight_rows(const Tensor& weight, int64_t o, int64_t depth, int64_t row) {
  const Tensor dense_rows = view_as(weight, {o, depth}, {depth, 1}, weight.storage_offset());
  if (depth == row) return dense_rows;
  const Tensor padded = Tensor::make({o, row}, weight.dtype(), weight.device());
  kernels::fill(padded, 0);
  kernels::copy_into(view_as(padded, {o, depth}, {row, 1}, 0), dense_rows);
  return padded;
}

}  // namespace

bool conv_by_rows(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  if (!is_faster(pass, s, t.x.dtype())) return false;
  const int64_t depth = s.depth(), row = ceil_div(depth, kVec) * kVec;
  const int64_t images = std::min(s.n, std::max<int64_t>(1, kMaxRows / (s.pixels() * row)));
  const Tensor rows = Tensor::make({images * s.pixels(), row}, t.x.dtype(), t.x.device());
  const bool is_y = pass == ConvPass::kY;
  const Tensor weight = is_y ? weight_rows(t.weight, s.o, depth, row)
                             : Tensor::make({s.o, row}, kFloat32, t.x.device());
  for (int64_t first = 0; first < s.n; first += images) {
    const int64_t now = std::min(images, s.n - first), pixels = now * s.pixels();
    gather_rows(rows, t.x, s, first, now);
    uint16_t* const y = pointer<uint16_t>(t.y) + first * s.pixels() * s.o;
    Gemm g;
    g.dtype = t.x.dtype();
    g.device = t.x.device().index();
    if (is_y) {  // y = rows weight^T
      g.m = pixels;
      g.n = s.o;
      g.k = g.lda = g.ldb = row;
      g.ldc = s.o;
      g.transpose_b = true;
      gemm(g, rows.data_ptr(), weight.data_ptr(), y);
    } else {  // weight += y^T rows
      g.m = g.lda = s.o;
      g.n = g.ldb = g.ldc = row;
      g.k = pixels;
      g.transpose_a = true;
      g.float32_c = true;
      g.beta = first > 0 ? 1 : 0;
      gemm(g, y, rows.data_ptr(), weight.data_ptr());
    }
  }
  if (is_y && (t.bias.defined() || t.relu)) add_bias(t);
  if (!is_y) {
    kernels::copy_into(view_as(t.weight, {s.o, depth}, {depth, 1}, t.weight.storage_offset()),
                       view_as(weight, {s.o, depth}, {row, 1}, 0));
  }
  return true;
}

}  // namespace taper::v0::kernels::cuda
