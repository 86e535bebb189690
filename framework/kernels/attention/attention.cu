// Scaled dot product attention without a matrix of scores (`=`; computed and summed in float, in
// double for double; every sum in a fixed order). After Dao et al. 2022, "FlashAttention": a block
// owns a tile of queries (or of keys, for their gradients) and goes over the other side tile by
// tile; the backward pass computes the scores again. A block makes kTile columns of a result: wider
// heads take several blocks, each of which computes the scores.
#include "framework/kernels/attention/attention.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "framework/cuda/runtime.h"
#include "framework/kernels/per_element.h"
#include "framework/kernels/random/random_formulas.h"
#include "framework/kernels/row_reduce.cuh"

namespace taper::kernels::cuda {
namespace {

// --- kernels ---

constexpr int kSide = 16;
constexpr int kTileThreads = kSide * kSide;
constexpr int kDepth = 16;  // how much of a sum is in shared memory at a time
template <class C> constexpr int kMicro = sizeof(C) == 8 ? 2 : 4;
template <class C> constexpr int kTile = kSide* kMicro<C>;

// A thread owns kMicro x kMicro elements of a tile, from (my_row, my_column) on. kSide neighbouring
// lanes own the same rows.
template <class C> struct Part {
  C at[kMicro<C>][kMicro<C>] = {};
};
template <class C> __device__ int my_row() { return int(threadIdx.x) / kSide * kMicro<C>; }
template <class C> __device__ int my_column() { return int(threadIdx.x) % kSide * kMicro<C>; }

template <class C, class F> __device__ void for_my_part(F f) {
#pragma unroll
  for (int i = 0; i < kMicro<C>; ++i) {
#pragma unroll
    for (int j = 0; j < kMicro<C>; ++j) f(i, j);
  }
}
// Over the lanes that own the same rows; every lane gets the same bits.
template <class C, class F> __device__ C reduce_lanes(C x, F f) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

template <class C> struct Tiles {
  C a[kDepth][kTile<C> + 4], b[kDepth][kTile<C> + 4];
  C p[kTile<C>][kTile<C> + 1];  // query, key
};

// A matrix for each batch element and head; reads as 0 beyond its rows and columns.
template <class T> struct Matrix {
  T* data;
  int64_t heads, rows, columns, batch_stride, head_stride, row_stride, column_stride;

  __device__ Matrix of(int64_t b) const {
    Matrix one = *this;
    one.data += b / heads * batch_stride + b % heads * head_stride;
    return one;
  }
  __device__ T& operator()(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
  __device__ bool has(int64_t row, int64_t column) const { return row < rows && column < columns; }
  __device__ Compute<T> at(int64_t row, int64_t column) const {
    return has(row, column) ? Compute<T>((*this)(row, column)) : Compute<T>(0);
  }
};

template <class T, class C> struct Problem {
  Matrix<T> q, k, v;
  C* lse;  // as delta, a number for each query
  C scale;
  bool causal;
  float dropout_p;
  C dropout_scale;
  PhiloxKey key;
  // For the backward pass.
  Matrix<T> dy{};
  const C* delta = nullptr;
  // The mask, if any: its batch, then queries and keys.
  const C* mask = nullptr;
  int batch_dims = 0;
  int64_t sizes[kMaxDims] = {}, strides[kMaxDims] = {};

  // Where the mask of batch element b begins.
  __device__ int64_t mask_of(int64_t b) const {
    int64_t at = 0;
    for (int d = batch_dims - 1; d >= 0; --d) {
      at += b % sizes[d] * strides[d];
      b /= sizes[d];
    }
    return at;
  }
  // -inf where key j is hidden from query i, or one of them does not exist.
  __device__ C score(C product, int64_t start, int64_t i, int64_t j) const {
    if (i >= q.rows || j >= k.rows || (causal && j > i)) return C(-INFINITY);
    const C s = product * scale;
    return mask ? s + mask[start + i * strides[batch_dims] + j * strides[batch_dims + 1]] : s;
  }
  // What dropout multiplies a probability by.
  __device__ C dropout(int64_t b, int64_t i, int64_t j) const {
    if (dropout_p == 0) return C(1);
    const uint64_t element = uint64_t((b * q.rows + i) * k.rows + j);
    const uint32_t word = philox(resolved(key), element / 4).word[element % 4];
    return uniform_float(word) >= dropout_p ? dropout_scale : C(0);
  }
  // The keys that some of the queries from row0 on see.
  __device__ int64_t end_of_keys(int64_t row0) const {
    return causal && row0 + kTile<C> < k.rows ? row0 + kTile<C> : k.rows;
  }
};

// acc += (rows of a from a0 on) times (rows of b from b0 on) transposed.
template <class T, class C>
__device__ void add_products(Part<C>& acc, const Matrix<T>& a, int64_t a0, const Matrix<T>& b,
                             int64_t b0, Tiles<C>& tiles) {
  for (int64_t k0 = 0; k0 < a.columns; k0 += kDepth) {
    __syncthreads();  // the former part has been read
    for (int e = threadIdx.x; e < kTile<C> * kDepth; e += kTileThreads) {
      const int r = e / kDepth, k = e % kDepth;
      tiles.a[k][r] = a.at(a0 + r, k0 + k);
      tiles.b[k][r] = b.at(b0 + r, k0 + k);
    }
    __syncthreads();
    const int row = my_row<C>(), column = my_column<C>();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      for_my_part<C>(
          [&](int i, int j) { acc.at[i][j] += tiles.a[k][row + i] * tiles.b[k][column + j]; });
    }
  }
}

// acc += tiles.p (or its transpose) times rows x0 .. and columns c0 .. of x.
template <bool kTransposed, class T, class C>
__device__ void add_applied(Part<C>& acc, const Matrix<T>& x, int64_t x0, int64_t c0,
                            Tiles<C>& tiles) {
  for (int k0 = 0; k0 < kTile<C>; k0 += kDepth) {
    __syncthreads();  // p is written, and the former part has been read
    for (int e = threadIdx.x; e < kTile<C> * kDepth; e += kTileThreads) {
      tiles.b[e / kTile<C>][e % kTile<C>] = x.at(x0 + k0 + e / kTile<C>, c0 + e % kTile<C>);
    }
    __syncthreads();
    const int row = my_row<C>(), column = my_column<C>();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      for_my_part<C>([&](int i, int j) {
        const C p = kTransposed ? tiles.p[k0 + k][row + i] : tiles.p[row + i][k0 + k];
        acc.at[i][j] += p * tiles.b[k][column + j];
      });
    }
  }
}

template <class C> __device__ void share(Tiles<C>& tiles, const Part<C>& x) {
  __syncthreads();  // the former p has been read
  for_my_part<C>([&](int i, int j) { tiles.p[my_row<C>() + i][my_column<C>() + j] = x.at[i][j]; });
}

// The part of a result that a block makes; grid: (batch elements x tiles of rows, tiles of
// columns).
template <class C> struct Place {
  int64_t tiles, b, row, column;
  __device__ explicit Place(int64_t rows)
      : tiles((rows + kTile<C> - 1) / kTile<C>),
        b(blockIdx.x / tiles),
        row(blockIdx.x % tiles * kTile<C>),
        column(int64_t(blockIdx.y) * kTile<C>) {}

  template <class T> __device__ void store(Matrix<T> x, const Part<C>& acc, C scale) const {
    x = x.of(b);
    for_my_part<C>([&](int i, int j) {
      const int64_t r = row + my_row<C>() + i, c = column + my_column<C>() + j;
      if (x.has(r, c)) x(r, c) = T(acc.at[i][j] * scale);
    });
  }
};

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kTileThreads) forward_kernel(Problem<T, C> in, Matrix<T> y) {
  __shared__ Tiles<C> tiles;
  const Place<C> at(in.q.rows);
  const int64_t mask = in.mask_of(at.b), end = in.end_of_keys(at.row);
  Part<C> acc;
  MaxSum<C> total[kMicro<C>];
  for (int64_t j0 = 0; j0 < end; j0 += kTile<C>) {
    Part<C> s;
    add_products(s, in.q.of(at.b), at.row, in.k.of(at.b), j0, tiles);
    const int64_t key = j0 + my_column<C>();
#pragma unroll
    for (int i = 0; i < kMicro<C>; ++i) {
      const int64_t query = at.row + my_row<C>() + i;
      const C before = total[i].max;
      C peak = before, sum = 0;
#pragma unroll
      for (int j = 0; j < kMicro<C>; ++j) {
        s.at[i][j] = in.score(s.at[i][j], mask, query, key + j);
        peak = larger(peak, s.at[i][j]);
      }
      total[i].max = reduce_lanes(peak, Larger{});
      const C shrink = math::exp(before - total[i].origin());
#pragma unroll
      for (int j = 0; j < kMicro<C>; ++j) {
        const C p = math::exp(s.at[i][j] - total[i].origin());
        sum += p;
        s.at[i][j] = p * in.dropout(at.b, query, key + j);
        acc.at[i][j] *= shrink;
      }
      total[i].sum = total[i].sum * shrink + reduce_lanes(sum, Plus{});
    }
    share(tiles, s);
    add_applied<false>(acc, in.v.of(at.b), j0, at.column, tiles);
  }
#pragma unroll
  for (int i = 0; i < kMicro<C>; ++i) {
    // Without keys: zeros, and a logsumexp that makes every p of the backward pass zero.
    const bool none = total[i].sum == C(0);
    const int64_t query = at.row + my_row<C>() + i;
#pragma unroll
    for (int j = 0; j < kMicro<C>; ++j) acc.at[i][j] /= none ? C(1) : total[i].sum;
    if (blockIdx.y == 0 && my_column<C>() == 0 && query < in.q.rows) {
      in.lse[at.b * in.q.rows + query] =
          none ? C(INFINITY) : total[i].max + math::log(total[i].sum);
    }
  }
  at.store(y, acc, C(1));
}

// One tile of the probabilities after dropout, and of the gradient of the scores.
template <class T, class C>
__device__ void backward_tile(Part<C>& p, Part<C>& ds, const Problem<T, C>& in, int64_t b,
                              int64_t i0, int64_t j0, Tiles<C>& tiles) {
  p = ds = Part<C>();
  add_products(p, in.q.of(b), i0, in.k.of(b), j0, tiles);
  add_products(ds, in.dy.of(b), i0, in.v.of(b), j0, tiles);
  const int64_t mask = in.mask_of(b);
  for_my_part<C>([&](int i, int j) {
    const int64_t query = i0 + my_row<C>() + i, key = j0 + my_column<C>() + j;
    const bool exists = query < in.q.rows;
    const C lse = exists ? in.lse[b * in.q.rows + query] : C(0);
    const C delta = exists ? in.delta[b * in.q.rows + query] : C(0);
    const C whole = math::exp(in.score(p.at[i][j], mask, query, key) - lse);
    const C kept = in.dropout(b, query, key);
    p.at[i][j] = whole * kept;
    ds.at[i][j] = whole * (ds.at[i][j] * kept - delta);
  });
}

// dq = scale ds k.
template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kTileThreads) query_kernel(Problem<T, C> in, Matrix<T> dq) {
  __shared__ Tiles<C> tiles;
  const Place<C> at(in.q.rows);
  Part<C> acc, p, ds;
  for (int64_t j0 = 0; j0 < in.end_of_keys(at.row); j0 += kTile<C>) {
    backward_tile(p, ds, in, at.b, at.row, j0, tiles);
    share(tiles, ds);
    add_applied<false>(acc, in.k.of(at.b), j0, at.column, tiles);
  }
  at.store(dq, acc, in.scale);
}

// dv = p^T dy, dk = scale ds^T q.
template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kTileThreads)
    key_kernel(Problem<T, C> in, Matrix<T> dk, Matrix<T> dv) {
  __shared__ Tiles<C> tiles;
  const Place<C> at(in.k.rows);
  Part<C> acc_k, acc_v, p, ds;
  for (int64_t i0 = in.causal ? at.row : 0; i0 < in.q.rows; i0 += kTile<C>) {
    backward_tile(p, ds, in, at.b, i0, at.row, tiles);
    share(tiles, p);
    add_applied<true>(acc_v, in.dy.of(at.b), i0, at.column, tiles);
    share(tiles, ds);
    add_applied<true>(acc_k, in.q.of(at.b), i0, at.column, tiles);
  }
  at.store(dk, acc_k, in.scale);
  at.store(dv, acc_v, C(1));
}

// --- launchers ---

template <class T> Matrix<T> matrix(const Tensor& x) {
  return {pointer<T>(x), x.size(1),   x.size(2),   x.size(3),
          x.stride(0),   x.stride(1), x.stride(2), x.stride(3)};
}

template <class T, class C = Compute<T>>
Problem<T, C> problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lse,
                         const AttentionArgs& args) {
  Problem<T, C> in{matrix<T>(q),  matrix<T>(k), matrix<T>(v),          pointer<C>(lse),
                   C(args.scale), args.causal,  float(args.dropout_p), C(1 / (1 - args.dropout_p)),
                   args.key};
  if (!args.mask.defined()) return in;
  in.mask = pointer<const C>(args.mask);
  in.batch_dims = args.mask.dim() - 2;
  std::copy(args.mask.shape().begin(), args.mask.shape().end(), in.sizes);
  std::copy(args.mask.strides().begin(), args.mask.strides().end(), in.strides);
  return in;
}

template <class T> dim3 grid_of(const Tensor& rows, int64_t columns) {
  constexpr int kSize = kTile<Compute<T>>;
  const int64_t blocks = rows.size(0) * rows.size(1) * ceil_div(rows.size(2), kSize);
  assert(blocks <= kMaxPiece);
  // One tile of columns at least: it writes the logsumexp.
  return dim3(unsigned(blocks), unsigned(std::max<int64_t>(1, ceil_div(columns, kSize))));
}

}  // namespace

void attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
               const AttentionArgs& args) {
  if (out.logsumexp.numel() == 0) return;
  const taper::cuda::Launch on(q);
  visit_floating(q.dtype(), [&]<class T>(TypeTag<T>) {
    forward_kernel<T><<<grid_of<T>(q, v.size(3)), kTileThreads, 0, on.stream>>>(
        problem_of<T>(q, k, v, out.logsumexp, args), matrix<T>(out.y));
  });
  on.check("scaled_dot_product_attention");
}

void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& logsumexp,
                        const Tensor& delta, const AttentionArgs& args) {
  const taper::cuda::Launch on(q);
  visit_floating(q.dtype(), [&]<class T>(TypeTag<T>) {
    auto in = problem_of<T>(q, k, v, logsumexp, args);
    in.dy = matrix<T>(dy);
    in.delta = pointer<const Compute<T>>(delta);
    if (out.dq.numel() > 0) {
      query_kernel<T>
          <<<grid_of<T>(q, q.size(3)), kTileThreads, 0, on.stream>>>(in, matrix<T>(out.dq));
    }
    if (k.size(0) * k.size(1) * k.size(2) > 0) {
      key_kernel<T><<<grid_of<T>(k, std::max(q.size(3), v.size(3))), kTileThreads, 0, on.stream>>>(
          in, matrix<T>(out.dk), matrix<T>(out.dv));
    }
  });
  on.check("scaled_dot_product_attention_backward");
}

}  // namespace taper::kernels::cuda
