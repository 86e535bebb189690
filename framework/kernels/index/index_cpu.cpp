// Gathering and combining rows by key. Every row of y is combined in the order of the positions, in
// float for half types.
#include "framework/kernels/index/index.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/convert.h"
#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/convert_cpu.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/index/index_kernels.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {

// Returns the position of row r of an index (all elements that differ only in its last dimension)
// in a tensor with these strides, without `dim`.
static int64_t row_start(int64_t r, const Tensor& index, const Shape& strides, int dim) {
  int64_t first = 0;
  for (int d = index.dim() - 2; d >= 0; r /= index.size(d--)) {
    if (d != dim) first += r % index.size(d) * strides[d];
  }
  return first;
}

// Processes one row of the index at a time. check_on_host() must have checked all indices.
template <>
void IndexKernels<cpu::Backend>::row_keys(const IndexRules& rules, const Tensor& key,
                                          const Tensor& index, const Shape& shape, int dim) {
  const Shape strides = contiguous_strides(shape);
  const int last = shape.size() - 1;
  const int64_t n = index.size(last), stride = strides[dim], step = dim == last ? 0 : 1;
  const int64_t wrapped = rules.wrap ? shape[dim] : 0;
  host::parallel_each(key.numel() / n, 4 * n, [&](int64_t r) {
    const int64_t first = row_start(r, index, strides, dim);
    const int64_t* at = pointer<const int64_t>(index) + r * n;
    int64_t* row = pointer<int64_t>(key) + r * n;
    cpu::vector_for(n, [=](int64_t i) {
      row[i] = first + i * step + (at[i] + (at[i] < 0 ? wrapped : 0)) * stride;
    });
  });
}

// Copies the kept part of each row and fills the rest with zeros.
template <>
void IndexKernels<cpu::Backend>::band(const Tensor& y, const Tensor& x, int64_t diagonal,
                                      bool lower) {
  const int64_t rows = x.size(-2), columns = x.size(-1), bytes = int64_t(x.element_size());
  char* to = static_cast<char*>(y.data_ptr());
  const char* from = static_cast<const char*>(x.data_ptr());
  host::parallel_each(x.numel() / columns, columns, [=](int64_t r) {
    const int64_t split = std::clamp<int64_t>(r % rows + diagonal + lower, 0, columns);
    const int64_t begin = lower ? 0 : split, end = lower ? split : columns;
    char* row = to + r * columns * bytes;
    std::memset(row, 0, size_t(begin * bytes));
    std::memcpy(row + begin * bytes, from + (r * columns + begin) * bytes,
                size_t((end - begin) * bytes));
    std::memset(row + end * bytes, 0, size_t((columns - end) * bytes));
  });
}

template struct IndexKernels<cpu::Backend>;

TAPER_CLONES static std::pair<int64_t, int64_t> range_of(const int64_t* x, int64_t n) {
  int64_t low = x[0], high = x[0];
#pragma omp simd reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  return {low, high};
}

std::pair<int64_t, int64_t> range_of(const Tensor& x) {
  note_read(x);  // its values determine a size
  return range_of(pointer<const int64_t>(x), x.numel());
}

// An array of ones.
struct EachOnce {
  int64_t operator[](int64_t) const { return 1; }
};
// Adds weights[i] to sums[at[i]], in order. A function of its own keeps the addresses in registers.
template <class T, class Weights>
static void add_at(T* sums, const int64_t* at, Weights weights, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[at[i]] = plus(sums[at[i]], T(weights[i]));
}

Tensor count_numbers(const Tensor& x, const Tensor& weights, int64_t bins) {
  Tensor y = Tensor::make({bins}, weights.defined() ? weights.dtype() : kInt64, x.device());
  fill(y, 0);
  const auto* at = pointer<const int64_t>(x);
  const auto with_weights = [&]<class T>(TypeTag<T>) {
    const Tensor each = dense(weights);
    add_at(pointer<T>(y), at, pointer<const T>(each), x.numel());
  };
  if (!weights.defined()) {
    add_at(pointer<int64_t>(y), at, EachOnce(), x.numel());
  } else if (y.dtype() == kFloat32) {
    with_weights(TypeTag<float>());
  } else {
    with_weights(TypeTag<double>());
  }
  trace("bincount", y, {x, weights});
  return y;
}

namespace cpu {
namespace {

template <class T> std::span<const T> elements(const Tensor& x) {
  return {pointer<const T>(x), size_t(x.numel())};
}

// Positions grouped by key, each group in order. The positions of row r are positions[first[r]] up
// to, but not including, positions[first[r + 1]].
struct Groups {
  std::vector<int64_t> first, positions;
};
Groups group_positions(std::span<const int64_t> key, int64_t rows) {
  Groups g{std::vector<int64_t>(size_t(rows) + 1), std::vector<int64_t>(key.size())};
  for (const int64_t row : key) ++g.first[size_t(row) + 1];
  for (size_t r = 0; r < size_t(rows); ++r) g.first[r + 1] += g.first[r];
  std::vector<int64_t> next = g.first;
  for (size_t i = 0; i < key.size(); ++i) {
    g.positions[size_t(next[size_t(key[i])]++)] = int64_t(i);
  }
  return g;
}

template <class Fold, class S, class T>
TAPER_CLONES void fold_row(Fold fold, S* sum, const T* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] = fold(sum[i], S(x[i]));
}

// Combines rows in the order of the keys. Width: an integer or an integral constant.
template <class Fold, class T, class Width>
void fold_run(Fold fold, T* y, const T* src, std::span<const int64_t> key, Width width) {
  for (const int64_t number : key) {
    T* row = y + number * width;
    for (int64_t j = 0; j < width; ++j) row[j] = fold(row[j], src[j]);
    src += width;
  }
}

template <class Fold, class T>
void fold_by_key(Fold fold, T* y, const T* src, std::span<const int64_t> key, int64_t rows,
                 int64_t width) {
  constexpr bool kHalf = is_half(dtype_of<T>);
  if constexpr (!kHalf) {
    // If there are few elements per row, grouping costs more than it saves.
    if (width == 1) return fold_run(fold, y, src, key, std::integral_constant<int64_t, 1>());
    if (width < 16) return fold_run(fold, y, src, key, width);
  }
  const Groups groups = group_positions(key, rows);
  using Sum = std::conditional_t<kHalf, float, T>;
  const ConvertFn widen = converter(dtype_of<T>, dtype_of<Sum>);
  const ConvertFn narrow = converter(dtype_of<Sum>, dtype_of<T>);
  const int64_t work = width * (1 + int64_t(groups.positions.size()) / rows);
  parallel_for(rows, host::grain_of(work), [&](int64_t begin, int64_t end) {
    std::vector<Sum> wide(kHalf ? size_t(width) : 0);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = groups.first[size_t(r)], last = groups.first[size_t(r) + 1];
      if (first == last) continue;
      T* row = y + r * width;
      Sum* sum = wide.data();
      if constexpr (!kHalf) sum = row;
      if (kHalf) widen(row, 1, sum, 1, width);
      for (int64_t i = first; i < last; ++i) {
        fold_row(fold, sum, src + groups.positions[size_t(i)] * width, width);
      }
      if (kHalf) narrow(sum, 1, row, 1, width);
    }
  });
}

// Copies n slices. A function of its own keeps the addresses in registers.
template <class Bytes>  // an integer or an integral constant
void take_run(char* to, const char* from, const int64_t* key, int64_t n, Bytes bytes) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * bytes, from + key[i] * bytes, size_t(bytes));
  }
}

// Copies slices of x [outer, n, bytes] to y [outer, number of keys, bytes].
template <class Bytes>
void take_bytes(const Tensor& y, const Tensor& x, std::span<const int64_t> key, int64_t outer,
                Bytes bytes) {
  char* to = pointer<char>(y);
  const char* from = pointer<const char>(x);
  const int64_t count = int64_t(key.size()), all = int64_t(x.nbytes()) / outer;
  parallel_for(outer * count, host::grain_of(2 + bytes / 8), [=](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t first = begin % count, n = std::min(count - first, end - begin);
      take_run(to + begin * bytes, from + begin / count * all, key.data() + first, n, bytes);
      begin += n;
    }
  });
}

// Adds slices in the order of the keys.
template <class T>
void add_run(T* sums, const T* src, std::span<const int64_t> key, int64_t width) {
  for (const int64_t number : key) {
    T* sum = sums + number * width;
    for (int64_t j = 0; j < width; ++j) sum[j] += src[j];
    src += width;
  }
}

// Copies rows in the order of the positions. On the CPU no key is out of range.
template <class Bytes>
void put_bytes(const Tensor& y, const Tensor& src, std::span<const int64_t> key, Bytes bytes) {
  char* to = pointer<char>(y);
  const char* from = pointer<const char>(src);
  for (const int64_t number : key) {
    std::memcpy(to + number * bytes, from, size_t(bytes));
    from += bytes;
  }
}

// Calls f with the bytes of a slice, as a constant if an element of an integer type has as many.
template <class F> void with_bytes(int64_t bytes, F f) {
  if (bytes > 8 || !std::has_single_bit(uint64_t(bytes))) return f(bytes);
  visit_size(size_t(bytes), [&]<class Word>(TypeTag<Word>) {
    f(std::integral_constant<int64_t, sizeof(Word)>());
  });
}

// Adds src[i] to element i of the row at[i], for rows that are `stride` elements apart.
template <class T>
void add_to_rows(T* to, const int64_t* at, const T* src, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) to[i + at[i] * stride] = plus(to[i + at[i] * stride], src[i]);
}

// Copies element i of the row at[i], for rows that are `stride` elements apart.
template <class Bytes>
void take_from_rows(char* to, const char* from, const int64_t* at, int64_t n, int64_t stride,
                    Bytes bytes) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * bytes, from + (i + at[i] * stride) * bytes, size_t(bytes));
  }
}

}  // namespace

bool gather(const Tensor& y, const Tensor& x, const Tensor& index, int dim) {
  const Shape strides = contiguous_strides(x.shape());
  const int64_t n = index.size(-1);
  const bool is_last = dim == index.dim() - 1;
  std::atomic<bool> are_valid = true;
  with_bytes(int64_t(x.element_size()), [&](auto bytes) {
    host::parallel_each(index.numel() / n, 2 * n, [&](int64_t r) {
      const int64_t* at = pointer<const int64_t>(index) + r * n;
      if (!are_within(at, n, 0, x.size(dim))) {
        are_valid.store(false, std::memory_order_relaxed);
        return;
      }
      const char* from = pointer<const char>(x) + row_start(r, index, strides, dim) * bytes;
      char* to = pointer<char>(y) + r * n * bytes;
      if (is_last) return take_run(to, from, at, n, bytes);
      take_from_rows(to, from, at, n, strides[dim], bytes);
    });
  });
  return are_valid;
}

bool scatter_add(const Tensor& y, const Tensor& index, int dim, const Tensor& src) {
  const Shape strides = contiguous_strides(y.shape());
  const int64_t n = index.size(-1), stride = strides[dim];
  const bool is_last = dim == index.dim() - 1;
  int64_t outer = 1;  // parts without a common target
  for (int d = 0; d < dim; ++d) outer *= index.size(d);
  const int64_t rows = index.numel() / n / outer;
  std::atomic<bool> are_valid = true;
  const auto add = [&]<class T>(TypeTag<T>) {
    host::parallel_each(outer, 2 * n * rows, [&](int64_t part) {
      for (int64_t r = part * rows; r < (part + 1) * rows; ++r) {
        const int64_t* at = pointer<const int64_t>(index) + r * n;
        if (!are_within(at, n, 0, y.size(dim))) {
          are_valid.store(false, std::memory_order_relaxed);
          return;
        }
        T* to = pointer<T>(y) + row_start(r, index, strides, dim);
        const T* added = pointer<const T>(src) + r * n;
        is_last ? add_at(to, at, added, n) : add_to_rows(to, at, added, n, stride);
      }
    });
  };
  y.dtype() == kInt64     ? add(TypeTag<int64_t>())
  : y.dtype() == kFloat32 ? add(TypeTag<float>())
                          : add(TypeTag<double>());
  return are_valid;
}

void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width) {
  take_slices(y, x, key, 1, width);
}

void take_slices(const Tensor& y, const Tensor& x, const Tensor& key, int64_t outer,
                 int64_t width) {
  const std::span<const int64_t> at = elements<int64_t>(key);
  with_bytes(width * int64_t(x.element_size()),
             [&](auto bytes) { take_bytes(y, x, at, outer, bytes); });
}

void add_slices(const Tensor& y, const Tensor& src, const Tensor& key, int64_t outer,
                int64_t width) {
  const std::span<const int64_t> at = elements<int64_t>(key);
  const int64_t all = y.numel() / outer, added = src.numel() / outer;
  const auto add = [&]<class T>(TypeTag<T>) {
    host::parallel_each(outer, 2 * added, [&](int64_t o) {
      add_run(pointer<T>(y) + o * all, pointer<const T>(src) + o * added, at, width);
    });
  };
  y.dtype() == kFloat64 ? add(TypeTag<double>()) : add(TypeTag<float>());
}

void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src) {
  if (op == RowOp::kPut) {
    return with_bytes(width * int64_t(y.element_size()),
                      [&](auto bytes) { put_bytes(y, src, elements<int64_t>(key), bytes); });
  }
  const int64_t rows = y.numel() / width;
  with_fold(op, y.dtype(), [&]<class T>(auto fold, TypeTag<T>) {
    fold_by_key(fold, pointer<T>(y), pointer<const T>(src), elements<int64_t>(key), rows, width);
  });
}

// Returns a number that is negative if one of x is below `lowest` or above `most`.
TAPER_CLONES static int64_t sign_of_range(const int64_t* x, int64_t n, int64_t lowest,
                                          int64_t most) {
  uint64_t signs = 0;
#pragma omp simd reduction(| : signs)
  for (int64_t i = 0; i < n; ++i) {
    signs |= (uint64_t(x[i]) - uint64_t(lowest)) | (uint64_t(most) - uint64_t(x[i]));
  }
  return int64_t(signs);
}

bool are_within(const int64_t* x, int64_t n, int64_t lowest, int64_t bound) {
  return sign_of_range(x, n, lowest, bound - 1) >= 0;
}

Tensor nonzero(const Tensor& mask) {
  const std::span<const bool> chosen = elements<bool>(mask);
  Tensor places =
      Tensor::make({std::count(chosen.begin(), chosen.end(), true)}, kInt64, mask.device());
  int64_t *to = pointer<int64_t>(places), *const end = to + places.numel();
  for (int64_t i = 0; to != end; ++i) {
    *to = i;
    to += chosen[size_t(i)];  // branch-free, since a branch would be unpredictable
  }
  return places;
}

}  // namespace cpu
}  // namespace taper::v0::kernels
