// Copies between layouts, dtypes and devices, fill, and arange. Outputs are overwritten.
#include "framework/kernels/elementwise/copy.h"

#include "framework/cuda/cuda.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Stream;

// Copies an element. The engine converts it between dtypes when it loads and stores.
TAPER_FUNCTOR(Identity, Predicates, (T x), x);

// --- transposing copies, through tiles in shared memory ---

template <class U> constexpr int kTile = sizeof(U) == 8 ? 32 : 64;
// Padding to an odd number of 4-byte words per row (of 8-byte words for 8-byte elements), so that a
// column of the tile uses every bank once.
template <class U> constexpr int kTilePad = sizeof(U) < 4 ? 4 / int(sizeof(U)) : 1;

// Dimension a is innermost in out, and dimension b in x.
template <class U> struct TileArgs {
  U* out;
  const U* in;
  int size_a, size_b;
  int64_t out_b, in_a;  // the strides that are not 1
  FastDivisor tiles_a, tiles_b;
  OffsetCalculator<2, 1> rest;  // the other dimensions
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const __grid_constant__ TileArgs<U> args) {
  begin_kernel();
  constexpr int kSide = kTile<U>;
  constexpr int kRows = kThreads / kSide;  // rows that a block moves at once
  __shared__ U tile[kSide][kSide + kTilePad<U>];

  const uint32_t above_a = args.tiles_a.divide(blockIdx.x);
  const uint32_t above_b = args.tiles_b.divide(above_a);
  const int a0 = int(blockIdx.x - above_a * args.tiles_a.divisor) * kSide;
  const int b0 = int(above_a - above_b * args.tiles_b.divisor) * kSide;
  const Place<2> place = args.rest.at(above_b);
  const int column = int(threadIdx.x) % kSide, row = int(threadIdx.x) / kSide;

  const U* in = args.in + place.offset[1];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const int r = row + k * kRows, a = a0 + r, b = b0 + column;
    if (a < args.size_a && b < args.size_b) tile[r][column] = in[a * args.in_a + b];
  }
  __syncthreads();
  U* out = args.out + place.offset[0];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const int r = row + k * kRows, a = a0 + column, b = b0 + r;
    if (a < args.size_a && b < args.size_b) out[b * args.out_b + a] = tile[column][r];
  }
}

// Returns the dimension with stride 1, or -1.
int innermost(const TensorIterator& iter, const Operand& x) {
  for (int d = iter.dims - 1; d >= 0; --d) {
    if (x.strides[d] == 1 && iter.sizes[d] > 1) return d;
  }
  return -1;
}

// Returns whether both sides have an innermost dimension, these differ, and both are long enough
// for tiles.
bool is_transposed(const TensorIterator& iter) {
  constexpr int64_t kWorthIt = 16;
  const int a = innermost(iter, iter.out), b = innermost(iter, iter.in[0]);
  return a >= 0 && b >= 0 && a != b && iter.in[0].strides[a] != 1 && iter.sizes[a] >= kWorthIt &&
         iter.sizes[b] >= kWorthIt;
}

template <class U> void transpose(const TensorIterator& piece, const Launch& on) {
  const int a = innermost(piece, piece.out), b = innermost(piece, piece.in[0]);
  TileArgs<U> args;
  args.out = static_cast<U*>(piece.out.data);
  args.in = static_cast<const U*>(piece.in[0].data);
  args.size_a = int(piece.sizes[a]);
  args.size_b = int(piece.sizes[b]);
  args.out_b = piece.out.strides[b];
  args.in_a = piece.in[0].strides[a];
  const int64_t tiles_a = ceil_div(args.size_a, kTile<U>),
                tiles_b = ceil_div(args.size_b, kTile<U>);
  args.tiles_a = FastDivisor(uint32_t(tiles_a));
  args.tiles_b = FastDivisor(uint32_t(tiles_b));
  TensorIterator rest = piece;
  rest.sizes[a] = rest.sizes[b] = 1;
  args.rest = make_offsets<2, 1>(rest);
  const int64_t blocks = tiles_a * tiles_b * args.rest.groups;
  on.run(transpose_kernel<U>, {unsigned(blocks), kThreads}, args);
  on.check("copy");
}

// --- copies that move a short dimension, for example that of a kernel's positions ---

constexpr int kMostShort = 16;  // elements of the short dimension
constexpr int kLong = 256;      // elements of the long dimension that a block copies

// On one side, the short dimension is innermost and the long one around it, both dense. On the
// other side, the long dimension is innermost.
template <class U> struct ShortArgs {
  U* out;
  const U* in;
  int size_long, size_short;
  int64_t stride;     // of the short dimension on the other side
  bool out_is_dense;  // whether the short dimension is innermost in out; otherwise in x
  FastDivisor parts;
  OffsetCalculator<2, 1> rest;  // the other dimensions
};

// Both sides are read and written in their order, through shared memory.
template <class U>
__global__ void __launch_bounds__(kThreads)
    move_short_kernel(const __grid_constant__ ShortArgs<U> args) {
  begin_kernel();
  __shared__ U tile[kLong * kMostShort];
  const uint32_t above = args.parts.divide(blockIdx.x);
  const int first = int(blockIdx.x - above * args.parts.divisor) * kLong;
  const Place<2> place = args.rest.at(above);
  const int left = args.size_long - first, count = left < kLong ? left : kLong;
  const int size = args.size_short, tid = int(threadIdx.x);
  U* const out = args.out + place.offset[0];
  const U* const in = args.in + place.offset[1];
  if (args.out_is_dense) {
    for (int s = 0; s < size; ++s) {
      if (tid < count) tile[tid * size + s] = in[s * args.stride + first + tid];
    }
  } else {
    for (int i = tid; i < count * size; i += kThreads) tile[i] = in[int64_t(first) * size + i];
  }
  __syncthreads();
  if (args.out_is_dense) {
    for (int i = tid; i < count * size; i += kThreads) out[int64_t(first) * size + i] = tile[i];
  } else {
    for (int s = 0; s < size; ++s) {
      if (tid < count) out[s * args.stride + first + tid] = tile[tid * size + s];
    }
  }
}

// Copies by move_short_kernel() if it applies, and returns whether it does.
template <class U> bool move_short(const TensorIterator& piece, const Launch& on) {
  static_assert(kLong <= kThreads);
  constexpr int64_t kLeastLong = 128;
  const int a = innermost(piece, piece.out), b = innermost(piece, piece.in[0]);
  if (a < 0 || b < 0 || a == b) return false;
  const bool out_is_dense = piece.sizes[a] <= piece.sizes[b];
  const int inner = out_is_dense ? a : b, outer = out_is_dense ? b : a;
  const Operand &dense = out_is_dense ? piece.out : piece.in[0],
                &other = out_is_dense ? piece.in[0] : piece.out;
  const int64_t shorter = piece.sizes[inner], longer = piece.sizes[outer];
  if (shorter > kMostShort || longer < kLeastLong || dense.strides[outer] != shorter) return false;
  ShortArgs<U> args;
  args.out = static_cast<U*>(piece.out.data);
  args.in = static_cast<const U*>(piece.in[0].data);
  args.size_long = int(longer);
  args.size_short = int(shorter);
  args.stride = other.strides[inner];
  args.out_is_dense = out_is_dense;
  const int64_t parts = ceil_div(longer, kLong);
  args.parts = FastDivisor(uint32_t(parts));
  TensorIterator rest = piece;
  rest.sizes[a] = rest.sizes[b] = 1;
  args.rest = make_offsets<2, 1>(rest);
  on.run(move_short_kernel<U>, {unsigned(parts * args.rest.groups), kThreads}, args);
  on.check("copy");
  return true;
}

// --- copies of one dtype with any strides; fill ---

template <class U> struct BitsArgs {
  OffsetCalculator<2> offsets;
  U* out;
  const U* in;  // null: writes `value` everywhere
  U value;
  bool out_vector, in_vector;
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    copy_bits_kernel(const __grid_constant__ BitsArgs<U> args) {
  begin_kernel();
  const uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  if (group >= args.offsets.groups) return;
  const Place<2> place = args.offsets.at(group);
  const int count = args.offsets.count(place.inner);
  U* out = args.out + place.offset[0];
  const U* in = args.in + place.offset[1];

  Vec<U, kGroup> v;
  if (args.in && args.in_vector) {
    v = load_vec<U, kGroup>(in);
  } else {
    const bool one = !args.in || args.offsets.inner_stride[1] == 0;
    const U value = args.in ? *in : args.value;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      v.at[j] = one || j >= count ? value : in[j * args.offsets.inner_stride[1]];
    }
  }
  if (args.out_vector) return store_vec(out, v);
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (j < count) out[j * args.offsets.inner_stride[0]] = v.at[j];
  }
}

// Writes one element everywhere. `out` is dense and aligned to 16 bytes.
template <class U>
__global__ void __launch_bounds__(kThreads) spread_kernel(U* out, const U* in, int64_t n) {
  begin_kernel();
  constexpr int kVec = 16 / sizeof(U);
  const int64_t at = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kVec;
  Vec<U, kVec> v;
  const U value = *in;
#pragma unroll
  for (int j = 0; j < kVec; ++j) v.at[j] = value;
  if (at + kVec <= n) return store_vec(out + at, v);
  for (int64_t i = at; i < n; ++i) out[i] = value;
}
template <class U> void spread(const TensorIterator& iter, const Launch& on) {
  const int64_t blocks = ceil_div(ceil_div(iter.numel, 16 / sizeof(U)), kThreads);
  on.run(spread_kernel<U>, {unsigned(blocks), kThreads}, static_cast<U*>(iter.out.data),
         static_cast<const U*>(iter.in[0].data), iter.numel);
  on.check("copy");
}

// If piece.in[0].data is null, the result is filled with a number.
template <class U>
void copy_bits(const char* op, const TensorIterator& piece, U value, const Launch& on) {
  BitsArgs<U> args;
  args.offsets = make_offsets<2>(piece);
  args.out = static_cast<U*>(piece.out.data);
  args.in = static_cast<const U*>(piece.in[0].data);
  args.value = value;
  args.out_vector = has_vectors(args.offsets, 0, piece.out);
  args.in_vector = has_vectors(args.offsets, 1, piece.in[0]);
  const int64_t blocks = ceil_div(args.offsets.groups, kThreads);
  on.run(copy_bits_kernel<U>, {unsigned(blocks), kThreads}, args);
  on.check(op);
}

// --- arange ---

template <class T, class C> struct Arange {
  T* out;
  C start, step;

  TAPER_HD void operator()(int64_t i) const {
    if constexpr (std::is_same_v<C, double>) {
      // Multiplication and addition are not fused, so that the bits equal the CPU's.
      out[i] = convert<T>(math::add_rn(start, math::mul_rn(double(i), step)));
    } else {
      out[i] = convert<T>(start + i * step);
    }
  }
};

template <class C> void run_arange(const Tensor& out, C start, C step) {
  visit(out.dtype(), [&]<class T>(TypeTag<T>) {
    Backend::run("arange", out, out.numel(), 1, Arange<T, C>{pointer<T>(out), start, step});
  });
}

// --- between devices ---

// Makes later work of one stream wait for the work submitted so far to the other.
void wait_for(const Stream& later, const Stream& earlier) {
  taper::cuda::Event event;
  event.record(earlier);
  event.wait(later);
}

// Copies on the source's stream, after out's earlier readers have finished.
void copy_peer(const Tensor& out, const Tensor& x) {
  const Stream target = Stream::current(out.device().index());
  const Stream source = Stream::current(x.device().index());
  for (const Stream& stream : {source, target}) {
    require(!taper::cuda::is_capturing(static_cast<cudaStream_t>(stream.handle())), "a copy from ",
            x.device(), " to ", out.device(),
            " cannot be part of a CUDA graph, which contains the work of one GPU");
  }
  wait_for(source, target);
  const Launch on(x);
  TAPER_CUDA_CHECK(cudaMemcpyPeerAsync(out.data_ptr(), target.device(), x.data_ptr(),
                                       source.device(), x.nbytes(), on.stream));
  wait_for(target, source);
}

}  // namespace

void copy(const TensorIterator& iter) {
  if (iter.numel == 0) return;
  const Operand &out = iter.out, &x = iter.in[0];
  const Launch on(iter.device);
  if (!x.data || x.dtype != out.dtype) {
    return run_elementwise<1>("copy", Identity{}, iter, compute_type(x.dtype));
  }
  if (iter.dense && (x.strides[0] == 1 || iter.numel == 1)) {
    const size_t bytes = size_t(iter.numel) * size_of(x.dtype);
    if (out.data == x.data) return;
    TAPER_CUDA_CHECK(cudaMemcpyAsync(out.data, x.data, bytes, cudaMemcpyDeviceToDevice, on.stream));
    return;
  }
  const bool spreads = iter.dense && x.strides[0] == 0 && is_aligned(out.data, 16);
  visit_size(size_of(x.dtype), [&]<class U>(TypeTag<U>) {
    if (spreads) return spread<U>(iter, on);
    for_each_piece(iter, [&](const TensorIterator& piece) {
      if (is_transposed(piece)) return transpose<U>(piece, on);
      if (move_short<U>(piece, on)) return;
      copy_bits<U>("copy", piece, 0, on);
    });
  });
}

void fill(const TensorIterator& iter, uint64_t bits) {
  if (iter.numel == 0) return;
  const Launch on(iter.device);
  const size_t size = size_of(iter.out.dtype);
  if (iter.dense && bits == 0) {
    TAPER_CUDA_CHECK(cudaMemsetAsync(iter.out.data, 0, size_t(iter.numel) * size, on.stream));
    return;
  }
  visit_size(size, [&]<class U>(TypeTag<U>) {
    for_each_piece(iter,
                   [&](const TensorIterator& piece) { copy_bits<U>("fill", piece, U(bits), on); });
  });
}

void arange(const Tensor& out, Scalar start, Scalar step) {
  if (start.dtype() == kFloat64 || step.dtype() == kFloat64) {
    return run_arange<double>(out, start.to_double(), step.to_double());
  }
  run_arange<int64_t>(out, start.to_int(), step.to_int());
}

void copy_bytes(const Tensor& out, const Tensor& x, bool non_blocking) {
  assert(out.nbytes() == x.nbytes());
  if (x.nbytes() == 0) return;
  if (out.is_cuda() && x.is_cuda() && out.device() != x.device()) return copy_peer(out, x);

  const Launch on(out.is_cuda() ? out : x);
  TAPER_CUDA_CHECK(cudaMemcpyAsync(out.impl()->address(), x.impl()->address(), x.nbytes(),
                                   cudaMemcpyDefault, on.stream));
  if (out.is_cuda() && x.is_cuda()) return;
  // Waits, because the caller may free or change pageable memory before the GPU has read it.
  const Tensor& host = out.is_cuda() ? x : out;
  if (non_blocking && host.is_pinned()) {
    return taper::cuda::mark_in_flight(host.storage(), on.device);
  }
  TAPER_CUDA_CHECK(cudaStreamSynchronize(on.stream));
  if (out.is_cpu()) taper::cuda::throw_bad_index(on.device);
}

}  // namespace taper::v0::kernels::cuda
