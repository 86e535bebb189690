// float32 convolutions in float32 precision by Taper's own kernels, where these are faster than
// cuDNN, and the bias of convolutions that cuDNN computes. Only the sizes determine which kernel is
// used and into how many parts the work is divided.
#include <algorithm>
#include <type_traits>

#include "framework/cuda/precision.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/conv/conv_fma.cuh"
#include "framework/kernels/conv/conv_kernels.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

// kBlocks blocks occupy a large GPU in one wave. With fewer than kLeastBlocks blocks these kernels
// are not used, unless each element sums at most kFewTerms terms.
constexpr int64_t kBlocks = 528, kLeastBlocks = 64, kFewTerms = 768;
// Limit on the number of floats that the partial sums of a weight's gradient occupy.
constexpr int64_t kMaxParts = int64_t(1) << 25;
// Minimum number of pixels in each of these partial sums.
constexpr int64_t kLeastPixels = 64;
constexpr int64_t kMaxFewShared = 48 << 10;
constexpr int64_t kFewWeights = 128 << 10;

// Describes the computation of y from x, or of dx from dy if `backward`. In that case x and y
// exchange roles, and the steps are negative.
Gathered gathered(const ConvSizes& s, const ConvTensors& t, bool backward) {
  const auto side = [=](const ConvAxis& a) {
    if (!backward) {
      return GatheredSide{int(a.in),     int(a.out),      int(a.kernel),
                          int(a.stride), int(-a.padding), int(a.dilation)};
    }
    return GatheredSide{int(a.out), int(a.in), int(a.kernel), 1, int(a.padding), int(-a.dilation)};
  };
  Gathered g{};
  g.d = side(s.d), g.h = side(s.h), g.w = side(s.w);
  g.in = pointer<float>(backward ? t.y : t.x), g.out = pointer<float>(backward ? t.x : t.y);
  g.channels = int(backward ? s.o : s.c), g.n = int(backward ? s.c : s.o);
  g.pixels = int(s.n) * g.d.out * g.h.out * g.w.out;
  g.weight = pointer<float>(t.weight);
  if (!backward) g.bias = pointer<float>(t.bias), g.relu = t.relu;
  return g;
}

template <class Tile, class Sizes>
void launch_tiles(void (*kernel)(Sizes), const Sizes& g, dim3 blocks, const Launch& on) {
  TAPER_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kShared));
  on.run(kernel,
         {.grid = blocks, .block = Tile::kThreads, .shared = Tile::kShared, .in_order = true}, g);
}

template <int kTileN, int kSplits> void gather(const Gathered& g, bool is_3d, const Launch& on) {
  using Tile = GatherTile<kTileN, kSplits>;
  const dim3 blocks{unsigned(ceil_div(g.pixels, Tile::kRows)), unsigned(ceil_div(g.n, kTileN))};
  const auto kernel =
      is_3d ? gather_kernel<kTileN, kSplits, true> : gather_kernel<kTileN, kSplits, false>;
  launch_tiles<Tile>(kernel, g, blocks, on);
}

// Returns whether tiles of half as many rows shorten the time of the busiest multiprocessor of a
// large GPU by more than a tenth, which is about what their second halves cost.
bool wants_splits(int64_t blocks) {
  constexpr int64_t kMultiprocessors = kBlocks / 4;
  const int64_t halves = ceil_div(2 * blocks, kMultiprocessors);
  return halves * 10 < ceil_div(blocks, kMultiprocessors) * 2 * 9;
}

// Computes a convolution by gather_kernel. Returns false without computing it if the numbers of
// channels are not suitable, or if too few blocks would run for too long.
bool gather(Gathered g, const ConvSizes& s, const ConvTensors& t, bool backward, const Launch& on) {
  if (g.channels % 4 != 0 || g.channels < 16 || g.n % 4 != 0) return false;
  const int64_t blocks = ceil_div(g.pixels, 128) * ceil_div(g.n, 64);
  if (blocks < kLeastBlocks && s.positions() * g.channels > kFewTerms) return false;
  g.weight_kernel = int(backward ? s.c : s.c * s.o);
  g.weight_channel = int(backward ? s.depth() : s.o);
  const auto transposed = [&] {  // [kh, kw, c, o]
    const auto moved = [](Shape sizes) {
      std::rotate(sizes.begin(), sizes.begin() + 1, sizes.end());
      return sizes;
    };
    // Two copies of a large weight take less time than one that reads with large strides only.
    const Tensor from = t.weight.numel() > kFewWeights ? dense(t.weight) : t.weight;
    return dense(view_as(from, moved(from.shape()), moved(from.strides()), from.storage_offset()));
  };
  const Tensor weight = backward ? t.weight : transposed();
  g.weight = pointer<float>(weight);
  if (g.n <= 32) {
    gather<32, 1>(g, s.is_3d(), on);
  } else if (wants_splits(blocks)) {
    gather<64, 2>(g, s.is_3d(), on);
  } else {
    gather<64, 1>(g, s.is_3d(), on);
  }
  return true;
}

// Computes a convolution by few_kernel. Returns false without computing it if the weight is too
// large, or if n is not a multiple of four.
bool few_channels(const Gathered& g, const ConvTensors& t, bool is_3d, const Launch& on) {
  FewChannels f{g, g.d.kernel * g.h.kernel * g.w.kernel * g.channels};
  if (g.n % 4 != 0 || f.shared() > kMaxFewShared) return false;
  const Tensor weight = dense(t.weight);
  f.g.weight = pointer<float>(weight);
  const int64_t threads = ceil_div(g.pixels, kFewPixels) * (g.n / 4);
  const auto kernel = is_3d ? few_kernel<true> : few_kernel<false>;
  const dim3 blocks(unsigned(std::min(ceil_div(threads, 256), kBlocks)));
  on.run(kernel, {.grid = blocks, .block = 256, .shared = size_t(f.shared()), .in_order = true}, f);
  return true;
}

template <int kWarps, int kStages, int kResident>
void sum_weight(const WeightSums& g, int splits, bool is_3d, const Launch& on) {
  using Tile = WeightTile<kWarps, kStages>;
  const dim3 blocks{unsigned(ceil_div(g.columns, Tile::kColumns)),
                    unsigned(ceil_div(g.from.n, Tile::kRows)), unsigned(splits)};
  const auto kernel = is_3d ? weight_kernel<kWarps, kStages, kResident, true>
                            : weight_kernel<kWarps, kStages, kResident, false>;
  launch_tiles<Tile>(kernel, g, blocks, on);
}

bool weight_gradient(const ConvSizes& s, const ConvTensors& t, const Launch& on) {
  WeightSums g{gathered(s, t, false), nullptr, 0, 0};
  g.columns = int(s.depth());
  const bool few = g.columns <= kMaxTaps;
  if (!few && (g.from.channels % 4 != 0 || g.from.n % 4 != 0)) return false;
  const int64_t n = t.weight.numel();
  // Use tiles of 64 or 96 columns, whichever wastes less.
  const bool narrow = ceil_div(g.columns, 64) * 64 < ceil_div(g.columns, 96) * 96;
  const int64_t tiles =
      few ? ceil_div(g.from.n, 32) : ceil_div(g.columns, narrow ? 64 : 96) * ceil_div(g.from.n, 64);
  const int64_t wanted =
      std::clamp(kBlocks / tiles, int64_t(1), std::max(kMaxParts / n, int64_t(1)));
  g.per_split = int(std::max(ceil_div(g.from.pixels, wanted), kLeastPixels));
  const int splits = int(ceil_div(g.from.pixels, g.per_split));
  const Scratch parts(size_t(splits > 1 ? n * splits : 0) * sizeof(float), on.device);
  g.parts = splits > 1 ? parts.as<float>() : pointer<float>(t.weight);
  if (few) {
    const dim3 blocks{unsigned(splits), unsigned(tiles)};
    const auto of_taps = [&](auto is_3d) {
      return g.columns <= 9 ? few_weight_kernel<9, is_3d()> : few_weight_kernel<kMaxTaps, is_3d()>;
    };
    const auto kernel = s.is_3d() ? of_taps(std::true_type()) : of_taps(std::false_type());
    on.run(kernel, {blocks, 256}, g);
  } else if (narrow) {
    sum_weight<2, 3, 7>(g, splits, s.is_3d(), on);
  } else {
    sum_weight<3, 4, 5>(g, splits, s.is_3d(), on);
  }
  if (splits == 1) return true;
  on.run(sum_parts_kernel, {unsigned(ceil_div(n, 32)), 256}, pointer<float>(t.weight), g.parts,
         int(n), splits);
  return true;
}

// Returns whether the sizes fit in int, and the memory can be read in quads of floats.
bool fits(const ConvSizes& s, const ConvTensors& t) {
  for (const ConvAxis& a : {s.d, s.h, s.w}) {
    if (std::max({a.in, a.stride, a.padding, a.kernel * a.dilation}) > 1 << 20) return false;
  }
  for (const Tensor* x : {&t.x, &t.weight, &t.y, &t.bias}) {
    if (!x->defined()) continue;
    const bool is_copied = !x->is_contiguous();  // a weight
    if (x->numel() > 1 << 30 || !(is_copied || is_aligned(x->data_ptr(), 16))) return false;
  }
  // Offsets of kernel positions beyond the first and last plane are computed, too.
  const int64_t planes = std::max(s.d.padding, s.d.kernel * s.d.dilation);
  const int64_t plane = std::max(s.h.in * s.w.in * s.c, s.h.out * s.w.out * s.o);
  return planes * plane <= 1 << 30;
}

template <class T, int kVec> struct AddBias {
  T* y;
  const T* bias;
  int vectors;  // per row
  bool relu;

  __device__ void operator()(int64_t i) const {
    auto v = load_vec<T, kVec>(y + i * kVec);
    const int64_t first = i % vectors * kVec;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const Compute<T> sum = Compute<T>(v.at[j]) + (bias ? Compute<T>(bias[first + j]) : 0);
      v.at[j] = T(relu ? Relu{}(sum) : sum);
    }
    store_vec<T, kVec>(y + i * kVec, v);
  }
};

}  // namespace

bool conv_fma(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  if (t.x.dtype() != kFloat32 || allows_tf32() || s.groups > 1 || !fits(s, t)) return false;
  const Launch on(t.x);
  const bool dx = pass == ConvPass::kDx;
  if (dx && std::max({s.d.stride, s.h.stride, s.w.stride}) > 1) return false;
  const Gathered g = gathered(s, t, dx);
  const bool done = pass == ConvPass::kDWeight
                        ? weight_gradient(s, t, on)
                        : gather(g, s, t, dx, on) ||
                              (!dx && g.channels < 16 && few_channels(g, t, s.is_3d(), on));
  on.check("conv");
  return done;
}

void add_bias(const ConvTensors& t) {
  const int64_t o = t.y.size(-1);
  visit_floating(t.y.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int kVec = 16 / sizeof(T);
    const auto run = [&](auto width) {
      const AddBias<T, width()> f{pointer<T>(t.y), pointer<T>(t.bias), int(o / width()), t.relu};
      Backend::run("conv", t.y, t.y.numel() / width(), 1, f);
    };
    const bool whole = o % kVec == 0 && is_aligned(t.y.data_ptr(), 16);
    whole ? run(std::integral_constant<int, kVec>()) : run(std::integral_constant<int, 1>());
  });
}

}  // namespace cuda

template struct ConvKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
