// Launches the kernel of sgemm.cuh, C = activation(op(A) op(B) + bias), and contains the rule for
// when it is used.
#include "framework/kernels/matmul/sgemm.cuh"

#include <atomic>

#include "framework/cuda/precision.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/matmul/matmul.h"

namespace taper::v0::kernels::cuda {
namespace {

constexpr int kTile = 32;
// If k is long, the warps of a block divide it. If A is stored along m, as for gradients of
// weights, where k is the batch, smaller blocks are faster. Three of these fit on a multiprocessor.
using LongTile = SgemmTile<kTile, kTile, 8, 4, 8, 16, 3>;
using ShortTile = SgemmTile<kTile, kTile, 8, 4, 4, 16, 4, 3>;
constexpr int kMaxBlocks = LongTile::kMaxBlocks;

int64_t tiles_of(const Gemm& g) { return ceil_div(g.m, kTile) * ceil_div(g.n, kTile); }

// Returns the number of blocks among which k is split. Each of them must have a free multiprocessor
// and enough work.
int blocks_for(const Gemm& g) {
  constexpr int64_t kMultiprocessors = 128, kLeast = 32;
  int blocks = 1;
  while (blocks < kMaxBlocks && 2 * blocks * tiles_of(g) <= kMultiprocessors &&
         2 * blocks * kLeast <= g.k) {
    blocks *= 2;
  }
  return blocks;
}

bool suits(const Gemm& g) {
  if (g.dtype != kFloat32 || allows_tf32() || g.batch != 1 || g.alpha != 1 || g.beta != 0 ||
      g.ldc != g.n || (g.transpose_a && g.transpose_b)) {
    return false;
  }
  // Above these numbers of tiles or steps, cuBLASLt is faster, because it has larger tiles and
  // finer splits.
  constexpr int64_t kMostTiles = 264, kMostSteps = 512;
  if (tiles_of(g) > kMostTiles || g.k > kMostSteps * blocks_for(g)) return false;
  return taper::cuda::compute_capability(g.device) >= 900;  // clusters require 9.0
}

// Allows the kernel to use more than 48 KiB of shared memory, once per device.
void allow_shared_memory(const void* kernel, int bytes, std::atomic<uint64_t>& done, int device) {
  const uint64_t bit = uint64_t(1) << (device % 64);
  if (done.load() & bit) return;
  TAPER_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  done |= bit;
}

template <class Tile, bool kAlongA, bool kAlongB>
void launch(const taper::cuda::Launch& on, SgemmArgs args, int blocks) {
  args.k_of_warp = int(ceil_div(ceil_div(args.k, blocks * Tile::kWarps), 4) * 4);
  args.of_warp = Tile::of_warp(args.k_of_warp);
  static std::atomic<uint64_t> allowed{0};
  const auto kernel = sgemm_kernel<Tile, kAlongA, kAlongB>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel),
                      Tile::shared_bytes(1 << 20, kMaxBlocks), allowed, on.device);
  const dim3 grid(unsigned(blocks), unsigned(ceil_div(args.n, Tile::kN)),
                  unsigned(ceil_div(args.m, Tile::kM)));
  const size_t shared = size_t(Tile::shared_bytes(args.k_of_warp, blocks));
  on.run(kernel, {grid, Tile::kThreads, shared, unsigned(blocks)}, args);
}

}  // namespace

bool small_gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then) {
  if (!suits(g)) return false;
  const taper::cuda::Launch on(g.device);
  const int blocks = blocks_for(g);
  SgemmArgs args{};
  args.a = static_cast<const float*>(a);
  args.b = static_cast<const float*>(b);
  args.bias = static_cast<const float*>(then.bias);
  args.c = static_cast<float*>(c);
  args.before = static_cast<float*>(then.before);
  args.m = int(g.m);
  args.n = int(g.n);
  args.k = int(g.k);
  args.lda = g.lda;
  args.ldb = g.ldb;
  // Stored rows extend along k, or along m or n.
  args.vec_a = is_aligned(a, 16) && g.lda % 4 == 0 && (g.transpose_a ? g.m : g.k) % 4 == 0;
  args.vec_b = is_aligned(b, 16) && g.ldb % 4 == 0 && (g.transpose_b ? g.k : g.n) % 4 == 0;
  args.vec_c = is_aligned(c, 16) && g.n % 4 == 0 && (!then.before || is_aligned(then.before, 16));
  args.activation = then.activation;
  if (g.transpose_a) {
    launch<ShortTile, false, false>(on, args, blocks);
  } else if (g.transpose_b) {
    launch<LongTile, true, true>(on, args, blocks);
  } else {
    launch<LongTile, true, false>(on, args, blocks);
  }
  on.check("matmul");
  return true;
}

}  // namespace taper::v0::kernels::cuda
