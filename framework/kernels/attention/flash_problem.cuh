// The arguments of the kernels of attention for half types, and the conditions for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "framework/base/philox.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels::cuda::flash {

// A tensor [B, H, rows, columns]. Columns are contiguous and start at multiples of 16 bytes.
template <class T> struct Matrix {
  T* data;
  int64_t batch, head, row;  // strides
};

// Bits that state which weights dropout has kept. A word holds those of 16 queries and 64 keys that
// one lane computes, as in kept().
struct KeptBits {
  static constexpr int kQueries = 16, kKeys = 64;
  uint32_t* words = nullptr;  // [B * H, query_tiles, key_tiles, 32 lanes], or null
  int query_tiles = 0, key_tiles = 0;

  // Returns the words of the tile that contains query i and key j.
  __device__ uint32_t* tile(int64_t b, int i, int j) const {
    return words + ((b * query_tiles + i / kQueries) * key_tiles + j / kKeys) * 32;
  }
};

template <class T> struct Problem {
  Matrix<T> q, k, v;
  int batch, together, heads, T_, S, D;  // batch: B * H; together: see Place
  float scale;                           // positive
  bool causal;
  float* lse;  // [B, H, T], like delta
  // Dropout drops a weight if its random word is below the threshold. The other weights are
  // multiplied by kept_scale.
  PhiloxKey key;
  uint32_t threshold;
  float kept_scale;
  KeptBits kept = {};
  // Used by the backward pass only.
  Matrix<T> y{}, dy{};
  float* delta = nullptr;

  template <class M> __device__ M* of(const Matrix<M>& x, int b) const {
    return x.data + b / heads * x.batch + b % heads * x.head;
  }
};

inline constexpr double kWords = 4294967296.0;         // number of values of a random word
inline constexpr int64_t kCached = int64_t(16) << 20;  // bytes that safely stay in the L2 cache
inline constexpr int64_t kMaxLength = int64_t(1) << 30;

// Converts p to a threshold for random words. As in uniform_float, 24 bits decide.
inline double threshold_of(double p) { return std::ceil(double(float(p)) * 16777216) * 256; }

// Returns whether a Problem can describe the arguments. `all` are the tensors with rows.
inline bool suits(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                  std::initializer_list<const Tensor*> all) {
  const int64_t D = q.size(3), longest = std::max(q.size(2), k.size(2));
  if (q.element_size() != 2 || !(args.scale > 0)) return false;
  if (D != v.size(3) || D % 8 != 0 || D > 128) return false;
  if (longest > kMaxLength || threshold_of(args.dropout_p) >= kWords) return false;
  return std::ranges::all_of(all, [](const Tensor* x) { return has_whole_rows(*x); });
}

template <class T> Matrix<T> matrix(const Tensor& x) {
  return {pointer<T>(x), x.stride(0), x.stride(1), x.stride(2)};
}

template <class T>
Problem<T> problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lse,
                      const Tensor& kept, const AttentionArgs& args) {
  Problem<T> in{};
  in.q = matrix<T>(q), in.k = matrix<T>(k), in.v = matrix<T>(v);
  in.batch = int(q.size(0) * q.size(1));
  // The number of bytes of k and v of one batch element.
  const int64_t bytes = 4 * q.size(3) * std::max(q.size(2), k.size(2));
  in.together = int(std::clamp<int64_t>(kCached / bytes, 1, in.batch));
  in.heads = int(q.size(1)), in.T_ = int(q.size(2)), in.S = int(k.size(2)), in.D = int(q.size(3));
  in.scale = float(args.scale), in.causal = args.causal;
  in.lse = pointer<float>(lse);
  in.key = args.key;
  in.threshold = uint32_t(threshold_of(args.dropout_p));
  in.kept_scale = float(1 / (1 - args.dropout_p));
  if (kept.defined()) {
    in.kept = {reinterpret_cast<uint32_t*>(pointer<int32_t>(kept)), int(kept.size(1)),
               int(kept.size(2))};
  }
  return in;
}

}  // namespace taper::v0::kernels::cuda::flash
