// Rows of a table by index (`=`), and their gradient (`=`): each row of dtable is summed in the
// order of positions, in float for half types.
#include "framework/kernels/embedding.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "framework/kernels/cpu/convert.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/simd.h"

namespace taper::kernels::cpu {
namespace {

std::vector<int64_t> read_index(const Tensor& index) {
  std::vector<int64_t> at(static_cast<size_t>(index.numel()));
  if (at.empty()) return at;  // there is no memory to read
  converter(index.dtype(), kInt64)(index.data_ptr(), 1, at.data(), 1, index.numel());
  return at;
}

void check_index(const char* op, const std::vector<int64_t>& index, int64_t rows) {
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] >= 0 && index[i] < rows) continue;
    throw IndexError(cat("index out of range in self. ", op, ": element ", i, " of index is ",
                         index[i], ", it must be in [0, ", rows, ")"));
  }
}

// Positions grouped by the row that they name, each group in order: those of row r are
// positions[first[r]] up to positions[first[r + 1]].
struct Groups {
  std::vector<int64_t> first, positions;
};
Groups group_positions(const std::vector<int64_t>& index, int64_t rows) {
  Groups g{std::vector<int64_t>(size_t(rows) + 1), std::vector<int64_t>(index.size())};
  for (const int64_t row : index) ++g.first[size_t(row) + 1];
  for (size_t r = 0; r < size_t(rows); ++r) g.first[r + 1] += g.first[r];
  std::vector<int64_t> next = g.first;
  for (size_t i = 0; i < index.size(); ++i) {
    g.positions[size_t(next[size_t(index[i])]++)] = int64_t(i);
  }
  return g;
}

template <class S, class T> TAPER_CLONES void add_row(S* sum, const T* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += S(x[i]);
}

template <class T>
void sum_groups(T* dtable, const T* dy, const Groups& groups, int64_t rows, int64_t width) {
  using Sum = std::conditional_t<is_half(dtype_of<T>), float, T>;
  const ConvertFn narrow = converter(dtype_of<Sum>, dtype_of<T>);
  const int64_t work = width * (1 + int64_t(groups.positions.size()) / rows);
  parallel_for(rows, grain_of(work), [&](int64_t begin, int64_t end) {
    std::vector<Sum> sum(static_cast<size_t>(width));
    for (int64_t r = begin; r < end; ++r) {
      std::fill(sum.begin(), sum.end(), Sum(0));
      for (int64_t i = groups.first[size_t(r)]; i < groups.first[size_t(r) + 1]; ++i) {
        add_row(sum.data(), dy + groups.positions[size_t(i)] * width, width);
      }
      narrow(sum.data(), 1, dtable + r * width, 1, width);
    }
  });
}

}  // namespace

void take_rows(const char* op, const Tensor& out, const Tensor& table, const Tensor& index) {
  const int64_t rows = table.shape()[0];
  const std::vector<int64_t> at = read_index(index);
  check_index(op, at, rows);
  if (rows == 0 || out.numel() == 0) return;
  const size_t bytes = table.nbytes() / size_t(rows);
  const char* from = static_cast<const char*>(table.data_ptr());
  char* to = static_cast<char*>(out.data_ptr());
  parallel_for(int64_t(at.size()), grain_of(int64_t(bytes) / 8), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + size_t(i) * bytes, from + size_t(at[size_t(i)]) * bytes, bytes);
    }
  });
}

void take_rows_backward(const Tensor& dtable, const Tensor& dy, const Tensor& index) {
  const int64_t rows = dtable.shape()[0];
  if (dtable.numel() == 0) return;
  const std::vector<int64_t> at = read_index(index);
  check_index("embedding_backward", at, rows);
  const Groups groups = group_positions(at, rows);
  visit_floating(dtable.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_groups(static_cast<T*>(dtable.data_ptr()), static_cast<const T*>(dy.data_ptr()), groups,
               rows, dtable.numel() / rows);
  });
}

}  // namespace taper::kernels::cpu
