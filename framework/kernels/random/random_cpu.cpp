// Random draws on the CPU. The loop runs over Philox blocks, so that compilers compute one block
// per vector lane. Element i depends only on the key and i.
#include "framework/kernels/random/random.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/random/random_formulas.h"

namespace taper::v0::kernels {
namespace cpu {
namespace {

// Cost of a Philox block in element operations, for splitting work.
constexpr int64_t kBlockWork = 16;

template <class Draw> void draw_all(const Tensor& tensor, PhiloxKey key, Draw draw) {
  constexpr int kCount = Draw::Result::kCount;
  auto* out = pointer<typename Draw::Result::Element>(tensor);
  const int64_t whole = tensor.numel() / kCount;
  parallel_for(whole, host::grain_of(kBlockWork), [=](int64_t begin, int64_t end) {
    vector_for(end - begin, [=, first = out + begin * kCount](int64_t b) {
      const typename Draw::Result drawn = draw(philox(key, uint64_t(begin + b)));
      for (int i = 0; i < kCount; ++i) first[b * kCount + i] = drawn.value[i];
    });
  });
  const typename Draw::Result last = draw(philox(key, uint64_t(whole)));
  for (int64_t i = whole * kCount; i < tensor.numel(); ++i) out[i] = last.value[i - whole * kCount];
}

struct Numbered {
  uint32_t word, index;
};

// Does one stable pass of a radix sort, by the 11 bits of `word` that start at `shift`.
void sort_pass(const std::vector<Numbered>& from, std::vector<Numbered>& to, int shift) {
  constexpr uint32_t kBuckets = 2048;
  std::array<size_t, kBuckets> next{};
  const auto bucket = [&](Numbered x) { return (x.word >> shift) & (kBuckets - 1); };
  for (const Numbered x : from) ++next[bucket(x)];
  size_t before = 0;
  for (size_t& n : next) before += std::exchange(n, before);
  for (const Numbered x : from) to[next[bucket(x)]++] = x;
}

}  // namespace

void randperm(const Tensor& out, PhiloxKey key) {
  const int64_t n = out.numel();
  assert(n < int64_t(1) << 32);
  std::vector<Numbered> drawn(static_cast<size_t>(n)), other(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += 4) {
    const Philox4 words = philox(key, uint64_t(i / 4));
    for (int64_t j = i; j < std::min(i + 4, n); ++j) {
      drawn[size_t(j)] = {words.word[j - i], uint32_t(j)};
    }
  }
  sort_pass(drawn, other, 0);
  sort_pass(other, drawn, 11);
  sort_pass(drawn, other, 22);
  int64_t* to = pointer<int64_t>(out);
  for (const Numbered x : other) *to++ = int64_t(x.index);
}

void dropout(const Tensor& y, const Tensor& x, double p, PhiloxKey key, uint64_t block) {
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = pointer<T>(y);
    const T* from = pointer<const T>(x);
    const DropoutRule<T> rule = dropout_rule<T>(p);
    const int64_t whole = y.numel() / 4;
    parallel_for(whole, host::grain_of(kBlockWork), [=](int64_t begin, int64_t end) {
      vector_for(end - begin, [=, in = from + 4 * begin, out = to + 4 * begin](int64_t b) {
        const Philox4 words = philox(key, block + uint64_t(begin + b));
        for (int i = 0; i < 4; ++i) out[4 * b + i] = rule(in[4 * b + i], words.word[i]);
      });
    });
    const Philox4 words = philox(key, block + uint64_t(whole));
    for (int64_t i = 4 * whole; i < y.numel(); ++i)
      to[i] = rule(from[i], words.word[i - 4 * whole]);
  });
}

}  // namespace cpu

template <> struct Draws<cpu::Backend> {
  template <class Draw> static void run(const char*, const Tensor& out, PhiloxKey key, Draw draw) {
    cpu::draw_all(out, key, draw);
  }
};

template struct RandomKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
