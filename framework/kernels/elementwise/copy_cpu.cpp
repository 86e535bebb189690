#include "framework/kernels/elementwise/copy.h"

#include <algorithm>
#include <cstring>

#include "framework/host/parallel.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/convert.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/convert_cpu.h"
#include "framework/kernels/elementwise/elementwise_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

// Transposed copies use square tiles with this number of elements on a side, which stay in the
// cache from row to row. If rows are a multiple of 1 KiB apart, they share few sets of the L1
// cache, and small tiles are used. (Measured on 4096 x 4096 floats: a copy through a transposed
// buffer takes twice as long.)
constexpr int64_t kTile = 64, kSmallTile = 16;

struct Ends {
  const char* src;
  char* dst;
};

// Copies one box of the iteration space at a time.
struct Copier {
  const TensorIterator& iter;
  ConvertFn convert;
  int64_t src_size, dst_size;  // bytes of an element

  explicit Copier(const TensorIterator& l)
      : iter(l),
        convert(converter(l.in[0].dtype, l.out.dtype)),
        src_size(int64_t(size_of(l.in[0].dtype))),
        dst_size(int64_t(size_of(l.out.dtype))) {}

  int64_t src_stride(int d) const { return iter.in[0].strides[d]; }
  int64_t dst_stride(int d) const { return iter.out.strides[d]; }
  Ends start() const {
    return {static_cast<const char*>(iter.in[0].data), static_cast<char*>(iter.out.data)};
  }
  Ends step(Ends at, int d, int64_t by) const {
    return {at.src + by * src_stride(d) * src_size, at.dst + by * dst_stride(d) * dst_size};
  }
  void run(Ends at, int d, int64_t n) const {
    convert(at.src, src_stride(d), at.dst, dst_stride(d), n);
  }
};

// Returns the dimension along which the source is dense, if the target is dense along another one.
// Returns -1 otherwise.
int crossing_dim(const TensorIterator& iter) {
  const int last = iter.dims - 1;
  if (iter.in[0].strides[last] <= 1) return -1;
  for (int d = 0; d < last; ++d) {
    if (iter.in[0].strides[d] == 1 && iter.sizes[d] > 1) return d;
  }
  return -1;
}

// Returns the start of box `i`. A box spans the dimensions a and b, and i counts the boxes along
// all others.
Ends box_start(const Copier& copier, int64_t i, int a, int b) {
  Ends at = copier.start();
  for (int d = copier.iter.dims - 1; d >= 0; --d) {
    if (d == a || d == b) continue;
    at = copier.step(at, d, i % copier.iter.sizes[d]);
    i /= copier.iter.sizes[d];
  }
  return at;
}

void copy_rows(const Copier& copier) {
  const auto& sizes = copier.iter.sizes;
  int d = copier.iter.dims - 1;
  if (sizes[d] < 8 && sizes[d - 1] > sizes[d]) --d;  // short runs cost more than strided access
  const int64_t rows = copier.iter.numel / sizes[d];
  parallel_for(rows, host::grain_of(sizes[d]), [&](int64_t begin, int64_t end) {
    // The position of the row along each dimension but d, which is advanced like an odometer.
    int64_t position[kMaxDims] = {};
    for (int64_t k = copier.iter.dims - 1, rest = begin; k >= 0; --k) {
      if (k == d) continue;
      position[k] = rest % sizes[k];
      rest /= sizes[k];
    }
    Ends at = box_start(copier, begin, d, d);
    for (int64_t i = begin; i < end; ++i) {
      copier.run(at, d, sizes[d]);
      for (int k = copier.iter.dims - 1; k >= 0; --k) {
        if (k == d) continue;
        at = copier.step(at, k, 1);
        if (++position[k] < sizes[k]) break;
        at = copier.step(at, k, -sizes[k]);
        position[k] = 0;
      }
    }
  });
}

// Transposes blocks of 8 x 8 elements in registers: element (r, c) is at src[r + c * from_step],
// and is copied to dst[r * to_step + c]. T is an unsigned integer with the size of an element.
template <class T>
TAPER_CLONES void transpose_tile(const T* src, int64_t from_step, T* dst, int64_t to_step,
                                 int64_t rows, int64_t columns) {
  constexpr int kSide = 8;
  using Vector [[gnu::vector_size(kSide * sizeof(T))]] = T;
  const int64_t whole = rows - rows % kSide, across = columns - columns % kSide;
  for (int64_t c = 0; c < across; c += kSide) {
    for (int64_t r = 0; r < whole; r += kSide) {
      Vector a[kSide], b[kSide];
      for (int i = 0; i < kSide; ++i) {
        std::memcpy(&a[i], src + r + (c + i) * from_step, sizeof(Vector));
      }
      // Three times, vectors i and i + 4 are interleaved, which moves a bit of the column's number
      // to the row's.
      const auto interleave = [](const Vector* from, Vector* to) {
        for (int i = 0; i < kSide / 2; ++i) {
          to[2 * i] = __builtin_shufflevector(from[i], from[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
          to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
      };
      interleave(a, b);
      interleave(b, a);
      interleave(a, b);
      for (int i = 0; i < kSide; ++i) {
        std::memcpy(dst + (r + i) * to_step + c, &b[i], sizeof(Vector));
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole ? across : 0; c < columns; ++c) {
      dst[r * to_step + c] = src[r + c * from_step];
    }
  }
}

// Copies a tile of `rows` along the dimension `cross` and n elements of the last one.
void copy_tile(const Copier& copier, Ends at, int cross, int64_t rows, int64_t n) {
  const int last = copier.iter.dims - 1;
  const bool moves = copier.iter.in[0].dtype == copier.iter.out.dtype && copier.src_size > 1 &&
                     copier.dst_stride(last) == 1;
  if (!moves) {
    for (int64_t r = 0; r < rows; ++r) copier.run(copier.step(at, cross, r), last, n);
    return;
  }
  visit_size(size_t(copier.src_size), [&]<class T>(TypeTag<T>) {
    transpose_tile(reinterpret_cast<const T*>(at.src), copier.src_stride(last),
                   reinterpret_cast<T*>(at.dst), copier.dst_stride(cross), rows, n);
  });
}

void copy_tiles(const Copier& copier, int cross) {
  const int last = copier.iter.dims - 1;
  const int64_t height = copier.iter.sizes[cross], width = copier.iter.sizes[last];
  const bool apart = copier.src_stride(last) * copier.src_size % 1024 != 0;
  const int64_t tile = apart ? kTile : kSmallTile;
  const int64_t down = (height + tile - 1) / tile, across = (width + tile - 1) / tile;
  const int64_t boxes = copier.iter.numel / (height * width);
  host::parallel_each(boxes * down * across, tile * tile, [&](int64_t i) {
    const int64_t y = i / across % down * tile, x = i % across * tile;
    Ends at = box_start(copier, i / across / down, cross, last);
    at = copier.step(copier.step(at, cross, y), last, x);
    copy_tile(copier, at, cross, std::min(tile, height - y), std::min(tile, width - x));
  });
}

template <class T> void arange_as(const Tensor& out, T start, T step) {
  const Writer<T> y(out, dtype_of<T>);
  T values[kChunk];
  for (int64_t first = 0; first < out.numel(); first += kChunk) {
    const int64_t n = std::min(kChunk, out.numel() - first);
    for (int64_t i = 0; i < n; ++i) values[i] = plus(start, times(T(first + i), step));
    y.write(first, n, values);
  }
}

}  // namespace

void copy(const TensorIterator& iter) {
  if (iter.numel == 0) return;
  const Copier copier(iter);
  if (iter.dims == 1) {
    const int64_t grain = copier.src_stride(0) == 0 ? host::kSerialWork : host::kSerialWork / 2;
    parallel_for(iter.numel, grain, [&](int64_t first, int64_t end) {
      copier.run(copier.step(copier.start(), 0, first), 0, end - first);
    });
    return;
  }
  const int cross = crossing_dim(iter);
  if (cross >= 0) return copy_tiles(copier, cross);
  copy_rows(copier);
}

void arange(const Tensor& out, Scalar start, Scalar step) {
  if (start.dtype() == kFloat64 || step.dtype() == kFloat64) {
    return arange_as<double>(out, start.to_double(), step.to_double());
  }
  arange_as<int64_t>(out, start.to_int(), step.to_int());
}

}  // namespace taper::v0::kernels::cpu
