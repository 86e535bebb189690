// Passes extreme integers to each integer argument of every function and layer. The call must throw
// an Error or return the right result. A build with -fsanitize=undefined,address detects everything
// else.
#include <cstdio>
#include <functional>
#include <limits>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "modules/models/gpt.h"
#include "taper.h"
#include "tests/testing.h"

#ifdef TAPER_SANITIZED
// The sanitizers reserve terabytes of address space, so MemoryLimit cannot work in their builds.
// Their own limit refuses the same allocations.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=2048";
}
extern "C" const char* __tsan_default_options() { return __asan_default_options(); }
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace taper::v0::test {
namespace {

using taper::cat;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kAbsurd[] = {kMin,
                               kMin + 1,
                               -(int64_t(1) << 62),
                               -(int64_t(1) << 32),
                               -12345,
                               int64_t(12345) << 32,
                               int64_t(1) << 32,
                               (int64_t(1) << 32) + 1,
                               int64_t(1) << 62,
                               kMax - 1,
                               kMax};

// Limits the address space of this process to little more than it has now, so that a call that
// should have been refused does not fill the machine's memory. The destructor restores the limit.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t more) {
    getrlimit(RLIMIT_AS, &before_);
    if (kSanitized) return;
    size_t pages = 0;
    if (FILE* file = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(file, "%zu", &pages) != 1) pages = 0;
      std::fclose(file);
    }
    rlimit now = before_;
    now.rlim_cur = pages * 4096 + more;
    if (pages > 0) setrlimit(RLIMIT_AS, &now);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

struct Absurd {
  const char* name;
  std::function<Tensor(int64_t)> f;
  // Checks the result for n. Without it, only a refusal passes.
  std::function<bool(const Tensor&, int64_t)> right = nullptr;
};

const Tensor kX = arange(6, {.dtype = kFloat32}).view({2, 3});
const Tensor kOne = ones({1});
const Tensor kNone = empty({0});
const Tensor kIndex = tensor({0, 1});
const Tensor kImages = arange(16, {.dtype = kFloat32}).view({1, 1, 4, 4});
const Tensor kWeight = ones({1, 1, 2, 2});
const Tensor kVolumes = arange(16, {.dtype = kFloat32}).view({1, 1, 2, 2, 4});
const Tensor kVolumeWeight = ones({1, 1, 1, 2, 2});
const Tensor kLines = arange(4, {.dtype = kFloat32}).view({1, 1, 4});
const Tensor kTaps = ones({1, 1, 2});

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
}
// Expects all of x if n is positive, otherwise zeros.
auto whole_above(const Tensor& x) {
  return [x](const Tensor& y, int64_t n) { return same(y, n > 0 ? x : zeros_like(x)); };
}
auto has_shape(Shape (*shape)(int64_t)) {
  return [shape](const Tensor& y, int64_t n) { return y.shape() == shape(n); };
}
template <class M> Tensor weight_of(const M& module) { return module.parameters()[0]; }

const Absurd kFactories[] = {
    {"empty", [](int64_t n) { return empty({n}); }},
    {"empty, last",
     [](int64_t n) {
       return empty({2, n});
     }},
    {"empty, without elements",
     [](int64_t n) {
       return empty({0, n, n});
     }},
    {"empty, both",
     [](int64_t n) {
       return empty({n, n}, {.dtype = kBool});
     }},
    {"zeros",
     [](int64_t n) {
       return zeros({n, 1});
     }},
    {"full", [](int64_t n) { return full({n}, n); }},
    {"full, number", [](int64_t n) { return full({1}, n); },
     [](const Tensor& y, int64_t n) { return y.item<int64_t>() == n; }},
    {"rand", [](int64_t n) { return rand({n}); }},
    {"randn",
     [](int64_t n) {
       return randn({2, n});
     }},
    {"randint, shape", [](int64_t n) { return randint(0, 2, {n}); }},
    {"randint, low", [](int64_t n) { return randint(n, kMax, {9}); },
     [](const Tensor& y, int64_t n) { return all(ge(y, n)).item<bool>(); }},
    {"randint, high", [](int64_t n) { return randint(kMin, n, {9}); },
     [](const Tensor& y, int64_t n) { return all(lt(y, n)).item<bool>(); }},
    {"randperm", [](int64_t n) { return randperm(n); }},
    {"eye", [](int64_t n) { return eye(n); }},
    {"eye, wide", [](int64_t n) { return eye(2, n); }},
    {"eye, empty", [](int64_t n) { return eye(0, n); }, has_shape([](int64_t n) {
       return Shape{0, n};
     })},
    {"triu_indices", [](int64_t n) { return triu_indices(n, n); }},
    {"tril_indices", [](int64_t n) { return tril_indices(n, 2); }},
    {"linspace", [](int64_t n) { return linspace(0, 1, n); }},
    {"arange", [](int64_t n) { return arange(n); }},
    {"arange, step", [](int64_t n) { return arange(0, n, n); },
     [](const Tensor& y, int64_t) { return same(y, tensor({0})); }},
    {"arange, wide step", [](int64_t n) { return arange(-3, 3, n); },
     [](const Tensor& y, int64_t) { return same(y, tensor({-3})); }},
    {"arange, all", [](int64_t n) { return arange(kMin, kMax, n); },
     [](const Tensor& y, int64_t n) {
       const uint64_t steps = (~uint64_t(0) - 1) / uint64_t(n);
       const auto last = int64_t(uint64_t(kMin) + uint64_t(n) * steps);
       return y.numel() == int64_t(steps + 1) && y[-1].item<int64_t>() == last;
     }},
    {"arange, one", [](int64_t n) { return arange(n, n == kMax ? n : n + 1); },
     [](const Tensor& y, int64_t n) { return n == kMax || y.item<int64_t>() == n; }},
};

const Absurd kViews[] = {
    {"size", [](int64_t n) { return tensor(kX.size(n)); }},
    {"stride", [](int64_t n) { return tensor(kX.stride(n)); }},
    {"view", [](int64_t n) { return kX.view({n}); }},
    {"view, both",
     [](int64_t n) {
       return kX.view({n, n});
     }},
    {"view of none",
     [](int64_t n) {
       return kNone.view({n, n});
     }},
    {"view of none, 0 first",
     [](int64_t n) {
       return kNone.view({0, n, n});
     }},
    {"view of none, 0 last",
     [](int64_t n) {
       return kNone.view({n, n, 0});
     }},
    {"view, inferred",
     [](int64_t n) {
       return kX.view({-1, n});
     }},
    {"reshape",
     [](int64_t n) {
       return kX.t().reshape({n, n});
     }},
    {"flatten, start", [](int64_t n) { return flatten(kX, n); }},
    {"flatten, end", [](int64_t n) { return flatten(kX, 0, n); }},
    {"unflatten",
     [](int64_t n) {
       return unflatten(kX, 0, {n, n});
     }},
    {"unflatten, dim",
     [](int64_t n) {
       return unflatten(kX, n, {2, 1});
     }},
    {"squeeze", [](int64_t n) { return squeeze(kX, n); }},
    {"squeeze, dims", [](int64_t n) { return squeeze(kX, Shape{n}); }},
    {"unsqueeze", [](int64_t n) { return unsqueeze(kX, n); }},
    {"transpose", [](int64_t n) { return transpose(kX, n, 0); }},
    {"permute",
     [](int64_t n) {
       return permute(kX, {0, n});
     }},
    {"movedim, from", [](int64_t n) { return movedim(kX, n, 0); }},
    {"movedim, to", [](int64_t n) { return movedim(kX, 0, n); }},
    {"expand", [](int64_t n) { return kOne.expand({n}); },
     has_shape([](auto n) { return Shape{n}; })},
    {"expand, bytes", [](int64_t n) { return ones({1}, {.dtype = kBool}).expand({n}); },
     has_shape([](auto n) { return Shape{n}; })},
    {"expand, both",
     [](int64_t n) {
       return kOne.expand({n, n});
     }},
    {"expand of none",
     [](int64_t n) {
       return kNone.expand({n, n, 0});
     }},
    {"expand of more",
     [](int64_t n) {
       return kX.expand({n, 2, 3});
     },
     has_shape([](auto n) {
       return Shape{n, 2, 3};
     })},
    {"narrow, dim", [](int64_t n) { return kX.narrow(n, 0, 1); }},
    {"narrow, start", [](int64_t n) { return kX.narrow(0, n, 1); }},
    {"narrow, length", [](int64_t n) { return kX.narrow(0, 1, n); }},
    {"narrow, both", [](int64_t n) { return kX.narrow(0, n, n); }},
    {"select", [](int64_t n) { return kX[n]; }},
    {"select, dim", [](int64_t n) { return kX.select(n, 0); }},
    {"slice, dim", [](int64_t n) { return slice(kX, n, 0, 1); }},
    {"slice, start", [](int64_t n) { return slice(kX, 0, n); },
     [](const Tensor& y, int64_t n) {
       return same(y, n > 0 ? empty({0, 3}) : kX);
     }},
    {"slice, end", [](int64_t n) { return slice(kX, 0, std::nullopt, n); },
     [](const Tensor& y, int64_t n) {
       return same(y, n > 0 ? kX : empty({0, 3}));
     }},
    {"slice, step", [](int64_t n) { return slice(kX, 0, 0, 2, n) + 0; },
     [](const Tensor& y, int64_t) { return same(y, kX.narrow(0, 0, 1)); }},
    {"split", [](int64_t n) { return split(kX, n).at(0); },
     [](const Tensor& y, int64_t) { return same(y, kX); }},
    {"split, dim", [](int64_t n) { return split(kX, 1, n).at(0); }},
    {"split, sizes",
     [](int64_t n) {
       return split(kX, {1, n}).at(0);
     }},
    {"split, many sizes",
     [](int64_t n) {
       return split(kX, {n, n, n, 4}).at(0);
     }},
    {"chunk", [](int64_t n) { return chunk(kX, n).at(1); },
     [](const Tensor& y, int64_t) { return same(y, kX.narrow(0, 1, 1)); }},
    {"chunk of none", [](int64_t n) { return chunk(kNone, n).at(0); }},
    {"chunk, dim", [](int64_t n) { return chunk(kX, 2, n).at(0); }},
};

const Absurd kCopies[] = {
    {"cat, dim",
     [](int64_t n) {
       return cat({kX, kX}, n);
     }},
    {"cat",
     [](int64_t n) {
       const Tensor x = ones({1}, {.dtype = kBool}).expand({n});
       return cat({x, x, x, x});
     }},
    {"to", [](int64_t n) { return ones({1}, {.dtype = kBool}).expand({n}).to(kFloat64); }},
    {"add", [](int64_t n) { return kOne.expand({n}) + kOne; }},
    {"stack",
     [](int64_t n) {
       return stack({kX, kX}, n);
     }},
    {"repeat",
     [](int64_t n) {
       return repeat(kX, {n, 1});
     }},
    {"repeat, both",
     [](int64_t n) {
       return repeat(kX, {n, n});
     }},
    {"repeat of none",
     [](int64_t n) {
       return repeat(kNone, {n, n});
     }},
    // Without a memory limit (under sanitizers) the 4 GiB are available.
    {"repeat, bytes", [](int64_t n) { return repeat(ones({1}, {.dtype = kBool}), {n}); },
     [](const Tensor& y, int64_t n) {
       return y.shape() == Shape{n} && y[0].item<bool>() && y[n - 1].item<bool>();
     }},
    {"index_select", [](int64_t n) { return index_select(kX, n, kIndex); }},
    {"gather",
     [](int64_t n) {
       return gather(kX, n, kIndex.view({2, 1}));
     }},
    {"scatter_add",
     [](int64_t n) {
       return scatter_add(kX, n, kIndex.view({2, 1}), kX);
     }},
    {"embedding", [](int64_t n) { return embedding(kX, kIndex, n); }},
    {"embedding, index", [](int64_t n) { return embedding(kX, tensor({n})); }},
    {"index", [](int64_t n) { return kX[tensor({n})] + 0; }},
    {"one_hot", [](int64_t n) { return one_hot(kIndex, n); }},
    {"one_hot, index", [](int64_t n) { return one_hot(tensor({n}), 3); }},
    {"tril", [](int64_t n) { return tril(kX, n); }, whole_above(kX)},
    {"triu", [](int64_t n) { return triu(kX, n); },
     [](const Tensor& y, int64_t n) { return same(y, n < 0 ? kX : zeros_like(kX)); }},
    {"flip", [](int64_t n) { return flip(kX, {n}); }},
    {"pad, before",
     [](int64_t n) {
       return pad(kX, {n, 1});
     }},
    {"pad, behind",
     [](int64_t n) {
       return pad(kX, {1, n});
     }},
    {"pad, both",
     [](int64_t n) {
       return pad(kX, {n, n});
     }},
    {"pad, all",
     [](int64_t n) {
       return pad(kX, {n, n, n, n});
     }},
    {"pad, opposite",
     [](int64_t n) {
       return pad(kX, {n, n == kMin ? kMax : -n});
     }},
    {"sort", [](int64_t n) { return sort(kX, n).values; }},
    {"argsort", [](int64_t n) { return argsort(kX, n); }},
    {"topk", [](int64_t n) { return topk(kX, n).values; }},
    {"topk, dim", [](int64_t n) { return topk(kX, 1, n).values; }},
    {"cumsum", [](int64_t n) { return cumsum(kX, n); }},
    {"multinomial", [](int64_t n) { return multinomial(kOne, n, true); }},
    {"multinomial, without replacement", [](int64_t n) { return multinomial(kOne, n); }},
};

const Absurd kArranged[] = {
    {"unbind", [](int64_t n) { return unbind(kX, n).at(0); }},
    {"tensor_split, sections", [](int64_t n) { return tensor_split(kX, n).at(0); }},
    {"tensor_split, index",
     [](int64_t n) { return tensor_split(kX, std::vector<int64_t>{n}).at(0); },
     [](const Tensor& y, int64_t n) {
       return same(y, n > 0 ? kX : empty({0, 3}));
     }},
    {"tensor_split, dim", [](int64_t n) { return tensor_split(kX, 2, n).at(0); }},
    {"roll", [](int64_t n) { return roll(kX, {n}, {0}); },
     [](const Tensor& y, int64_t n) { return same(y, n % 2 == 0 ? kX : flip(kX, {0})); }},
    {"roll, dim", [](int64_t n) { return roll(kX, {1}, {n}); }},
    {"diagonal", [](int64_t n) { return diagonal(kX, n); },
     has_shape([](int64_t) { return Shape{0}; })},
    {"diagonal, dim", [](int64_t n) { return diagonal(kX, 0, n); }},
    {"diag", [](int64_t n) { return diag(kX, n); }, has_shape([](int64_t) { return Shape{0}; })},
    {"diag_embed", [](int64_t n) { return diag_embed(kX, n); }, has_shape([](int64_t n) {
       return Shape{2, 3 + std::abs(n), 3 + std::abs(n)};
     })},
    {"diag_embed, dim", [](int64_t n) { return diag_embed(kX, 0, n); }},
    {"tensordot", [](int64_t n) { return tensordot(kX, kX, n); }},
    {"tensordot, dim", [](int64_t n) { return tensordot(kX, kX, {n}, {0}); }},
    {"cumprod", [](int64_t n) { return cumprod(kX, n); }},
    {"max", [](int64_t n) { return max(kX, n).values; }},
    {"median", [](int64_t n) { return median(kX, n).values; }},
    {"quantile", [](int64_t n) { return quantile(kX, 0.5, n); }},
    {"normalize", [](int64_t n) { return normalize(kX, 2, n); }},
};

const Absurd kReductions[] = {
    {"sum", [](int64_t n) { return sum(kX, {n}); }},
    {"mean",
     [](int64_t n) {
       return mean(kX, {0, n});
     }},
    {"prod", [](int64_t n) { return prod(kX, n); }},
    {"var", [](int64_t n) { return var(kX, {n}); }},
    {"std", [](int64_t n) { return taper::std(kX, {n}); }},
    {"norm", [](int64_t n) { return norm(kX, 2, {n}); }},
    {"logsumexp", [](int64_t n) { return logsumexp(kX, {n}); }},
    {"amax", [](int64_t n) { return amax(kX, {n}); }},
    {"amin", [](int64_t n) { return amin(kX, {n}); }},
    {"argmax", [](int64_t n) { return argmax(kX, n); }},
    {"argmin", [](int64_t n) { return argmin(kX, n); }},
    {"all", [](int64_t n) { return all(kX, {n}); }},
    {"any", [](int64_t n) { return any(kX, {n}); }},
    {"softmax", [](int64_t n) { return softmax(kX, n); }},
    {"log_softmax", [](int64_t n) { return log_softmax(kX, n); }},
    {"layer_norm", [](int64_t n) { return layer_norm(kX, {n}); }},
    {"rms_norm",
     [](int64_t n) {
       return rms_norm(kX, {n, n});
     }},
    {"group_norm", [](int64_t n) { return group_norm(kImages, n); }},
    {"group_norm, no channels",
     [](int64_t n) {
       return group_norm(ones({3, 0, 9}), n);
     },
     [](const Tensor& y, int64_t) {
       return y.shape() == Shape({3, 0, 9});
     }},
    {"cross_entropy, ignored",
     [](int64_t n) { return cross_entropy(kX, kIndex, Reduction::kSum, n); },
     [](const Tensor& y, int64_t) { return same(y, cross_entropy(kX, kIndex, Reduction::kSum)); }},
    {"cross_entropy, target",
     [](int64_t n) {
       return cross_entropy(kX, tensor({n, n}));
     }},
    {"packed_attention",
     [](int64_t n) {
       return packed_attention(ones({1, 2, 12}), n);
     }},
    {"packed_attention, no width",
     [](int64_t n) {
       return packed_attention(ones({1, 2, 0}), n);
     }},
};

const Absurd kWindows[] = {
    {"conv1d, stride", [](int64_t n) { return conv1d(kLines, kTaps, {}, {.stride = n}); }},
    {"conv1d, padding", [](int64_t n) { return conv1d(kLines, kTaps, {}, {.padding = n}); }},
    {"conv1d, dilation", [](int64_t n) { return conv1d(kLines, kTaps, {}, {.dilation = n}); }},
    {"conv1d, groups", [](int64_t n) { return conv1d(kLines, kTaps, {}, {.groups = n}); }},
    {"conv2d, stride",
     [](int64_t n) {
       return conv2d(kImages, kWeight, {}, {.stride = {n, 1}});
     }},
    {"conv2d, padding", [](int64_t n) { return conv2d(kImages, kWeight, {}, {.padding = n}); }},
    {"conv2d, dilation",
     [](int64_t n) {
       return conv2d(kImages, kWeight, {}, {.dilation = {1, n}});
     }},
    {"conv2d, groups", [](int64_t n) { return conv2d(kImages, kWeight, {}, {.groups = n}); }},
    {"conv2d, all",
     [](int64_t n) {
       return conv2d(kImages, kWeight, {}, {n, n, n, n});
     }},
    {"conv2d, same",
     [](int64_t n) { return conv2d(kImages, kWeight, {}, {.padding = "same", .dilation = n}); }},
    {"conv3d, stride",
     [](int64_t n) {
       return conv3d(kVolumes, kVolumeWeight, {}, {.stride = {n, 1, 1}});
     }},
    {"conv3d, padding",
     [](int64_t n) {
       return conv3d(kVolumes, kVolumeWeight, {}, {.padding = {n, 0, 0}});
     }},
    {"conv3d, dilation",
     [](int64_t n) { return conv3d(kVolumes, kVolumeWeight, {}, {.dilation = n}); }},
    {"conv3d, all",
     [](int64_t n) {
       return conv3d(kVolumes, kVolumeWeight, {}, {n, n, n, n});
     }},
    {"conv3d, same",
     [](int64_t n) {
       return conv3d(kVolumes, kVolumeWeight, {}, {.padding = "same", .dilation = n});
     }},
    {"conv_transpose1d, stride",
     [](int64_t n) { return conv_transpose1d(kLines, kTaps, {}, {.stride = n}); }},
    {"conv_transpose1d, dilation",
     [](int64_t n) { return conv_transpose1d(kLines, kTaps, {}, {.dilation = n}); }},
    {"conv_transpose2d, padding",
     [](int64_t n) { return conv_transpose2d(kImages, kWeight, {}, {.padding = n}); }},
    {"conv_transpose2d, output_padding",
     [](int64_t n) { return conv_transpose2d(kImages, kWeight, {}, {.output_padding = n}); }},
    {"conv_transpose2d, all",
     [](int64_t n) {
       return conv_transpose2d(kImages, kWeight, {}, {n, n, n, n, n});
     }},
    {"conv_transpose3d, padding",
     [](int64_t n) { return conv_transpose3d(kVolumes, kVolumeWeight, {}, {.padding = n}); }},
    {"conv_transpose3d, output_padding",
     [](int64_t n) {
       return conv_transpose3d(kVolumes, kVolumeWeight, {}, {.output_padding = {n, 0, 0}});
     }},
    {"conv_transpose3d, all",
     [](int64_t n) {
       return conv_transpose3d(kVolumes, kVolumeWeight, {}, {n, n, n, n, n});
     }},
    {"max_pool1d", [](int64_t n) { return max_pool1d(kLines, n); }},
    {"max_pool2d",
     [](int64_t n) {
       return max_pool2d(kImages, {n, 1});
     }},
    {"max_pool2d, stride",
     [](int64_t n) { return max_pool2d(kImages, 2, {.stride = Pair(1, n)}); }},
    {"max_pool2d, padding", [](int64_t n) { return max_pool2d(kImages, 2, {.padding = n}); }},
    {"max_pool2d, dilation", [](int64_t n) { return max_pool2d(kImages, 2, {.dilation = n}); }},
    {"max_pool2d, all",
     [](int64_t n) {
       return max_pool2d(kImages, n, {Pair(n), n, n, true});
     }},
    {"max_pool2d, ceil",
     [](int64_t n) { return max_pool2d(kImages, 2, {.stride = n, .ceil_mode = true}); }},
    {"max_pool3d",
     [](int64_t n) {
       return max_pool3d(kVolumes, {n, 1, 1});
     }},
    {"max_pool3d, stride",
     [](int64_t n) { return max_pool3d(kVolumes, 2, {.stride = Triple(1, 1, n)}); }},
    {"max_pool3d, padding", [](int64_t n) { return max_pool3d(kVolumes, 2, {.padding = n}); }},
    {"max_pool3d, dilation", [](int64_t n) { return max_pool3d(kVolumes, 2, {.dilation = n}); }},
    {"max_pool3d, all",
     [](int64_t n) {
       return max_pool3d(kVolumes, n, {Triple(n), n, n, true});
     }},
    {"avg_pool1d", [](int64_t n) { return avg_pool1d(kLines, n); }},
    {"avg_pool1d, stride", [](int64_t n) { return avg_pool1d(kLines, 2, {.stride = n}); }},
    {"avg_pool2d", [](int64_t n) { return avg_pool2d(kImages, n); }},
    {"avg_pool2d, stride", [](int64_t n) { return avg_pool2d(kImages, 2, {.stride = n}); }},
    {"avg_pool2d, padding", [](int64_t n) { return avg_pool2d(kImages, 2, {.padding = n}); }},
    {"avg_pool2d, all",
     [](int64_t n) {
       return avg_pool2d(kImages, n, {Pair(n), n, true});
     }},
    {"avg_pool3d", [](int64_t n) { return avg_pool3d(kVolumes, n); }},
    {"avg_pool3d, all",
     [](int64_t n) {
       return avg_pool3d(kVolumes, n, {Triple(n), n, true});
     }},
    {"adaptive_avg_pool1d", [](int64_t n) { return adaptive_avg_pool1d(kLines, n); }},
    {"adaptive_avg_pool2d",
     [](int64_t n) {
       return adaptive_avg_pool2d(kImages, {1, n});
     }},
    {"adaptive_avg_pool2d, both", [](int64_t n) { return adaptive_avg_pool2d(kImages, n); }},
    {"adaptive_avg_pool3d",
     [](int64_t n) {
       return adaptive_avg_pool3d(kVolumes, {1, n, 1});
     }},
    {"adaptive_avg_pool3d, all", [](int64_t n) { return adaptive_avg_pool3d(kVolumes, n); }},
    {"adaptive_max_pool3d", [](int64_t n) { return adaptive_max_pool3d(kVolumes, n); }},
    {"adaptive_max_pool1d", [](int64_t n) { return adaptive_max_pool1d(kLines, n); }},
    {"adaptive_max_pool2d", [](int64_t n) { return adaptive_max_pool2d(kImages, n); }},
    {"max_pool2d_with_indices, padding",
     [](int64_t n) { return max_pool2d_with_indices(kImages, 2, {.padding = n}).indices; }},
    {"max_unpool2d",
     [](int64_t n) { return max_unpool2d(kImages, zeros_like(kImages).to(kInt64), n); }},
    {"max_unpool2d, size",
     [](int64_t n) {
       return max_unpool2d(kImages, zeros_like(kImages).to(kInt64), 2, {.output_size = n});
     }},
    {"max_unpool3d",
     [](int64_t n) { return max_unpool3d(kVolumes, zeros_like(kVolumes).to(kInt64), n); }},
    {"max_unpool3d, size",
     [](int64_t n) {
       return max_unpool3d(kVolumes, zeros_like(kVolumes).to(kInt64), 2, {.output_size = n});
     }},
    {"embedding_bag, padding",
     [](int64_t n) {
       return embedding_bag(kIndex.view({1, 2}), kX, {}, {.padding_idx = n});
     }},
    {"pad, volumes",
     [](int64_t n) {
       return pad(kVolumes, {n, 1, 0, n, n, n}, PadMode::kReplicate);
     }},
    {"pad, reflect",
     [](int64_t n) {
       return pad(kImages, {n, 1, 0, n}, PadMode::kReflect);
     }},
    {"pad, replicate",
     [](int64_t n) {
       return pad(kLines, {1, n}, PadMode::kReplicate);
     }},
    {"pad, circular",
     [](int64_t n) {
       return pad(kLines, {n, n}, PadMode::kCircular);
     }},
    {"unfold",
     [](int64_t n) {
       return unfold(kImages, {1, n});
     }},
    {"unfold, all",
     [](int64_t n) {
       return unfold(kImages, 2, {n, n, n});
     }},
    {"fold",
     [](int64_t n) {
       return fold(kImages[0], n, {1, n});
     }},
    {"fold, all",
     [](int64_t n) {
       return fold(kImages[0], 3, 1, {n, n, n});
     }},
    {"pixel_shuffle", [](int64_t n) { return pixel_shuffle(kImages, n); }},
    {"pixel_unshuffle", [](int64_t n) { return pixel_unshuffle(kImages, n); }},
    {"affine_grid",
     [](int64_t n) {
       return affine_grid(ones({1, 2, 3}), {1, 1, n, 2});
     }},
    {"interpolate", [](int64_t n) { return interpolate(kImages, {.size = n}); }},
    {"interpolate, bicubic",
     [](int64_t n) {
       return interpolate(kImages, {.size = Pair(n, 1), .mode = Interpolation::kBicubic});
     }},
    {"interpolate, area",
     [](int64_t n) {
       return interpolate(kImages, {.size = Pair(n, 1), .mode = Interpolation::kArea});
     }},
    {"interpolate, rows", [](int64_t n) { return interpolate(kLines, {.size = n}); }},
    {"interpolate, bilinear",
     [](int64_t n) {
       return interpolate(kImages, {.size = Pair(1, n), .mode = Interpolation::kBilinear});
     }},
    {"interpolate, volumes", [](int64_t n) { return interpolate(kVolumes, {.size = n}); }},
    {"interpolate, trilinear",
     [](int64_t n) {
       return interpolate(kVolumes, {.size = Triple(n, 1, 1), .mode = Interpolation::kTrilinear});
     }},
    {"interpolate, volumes, area",
     [](int64_t n) {
       return interpolate(kVolumes, {.size = Triple(1, 1, n), .mode = Interpolation::kArea});
     }},
    {"interpolate, scale",
     [](int64_t n) { return interpolate(kImages, {.scale_factor = double(n)}); }},
    {"interpolate, inf",
     [](int64_t n) { return interpolate(kImages, {.scale_factor = double(n) * 1e300}); }},
};

const Absurd kModules[] = {
    {"Linear, in", [](int64_t n) { return weight_of(Linear(n, 1)); }},
    {"Linear, out", [](int64_t n) { return weight_of(Linear(1, n)); }},
    {"Linear, both", [](int64_t n) { return weight_of(Linear(n, n)); }},
    {"Embedding, rows", [](int64_t n) { return weight_of(Embedding(n, 2)); }},
    {"Embedding, width", [](int64_t n) { return weight_of(Embedding(2, n)); }},
    {"Embedding, padding",
     [](int64_t n) { return weight_of(Embedding(2, 2, {.padding_idx = n})); }},
    {"EmbeddingBag", [](int64_t n) { return weight_of(EmbeddingBag(n, n)); }},
    {"InstanceNorm2d", [](int64_t n) { return weight_of(InstanceNorm2d(n, {.affine = true})); }},
    {"Conv1d, in", [](int64_t n) { return weight_of(Conv1d(n, 1, 1)); }},
    {"Conv1d, out", [](int64_t n) { return weight_of(Conv1d(1, n, 1)); }},
    {"Conv2d, kernel", [](int64_t n) { return weight_of(Conv2d(1, 1, n)); }},
    {"Conv2d, all", [](int64_t n) { return weight_of(Conv2d(n, n, n)); }},
    {"Conv2d, groups", [](int64_t n) { return weight_of(Conv2d(1, 1, 1, {.groups = n})); }},
    {"Conv2d, same",
     [](int64_t n) { return Conv2d(1, 1, 4, {.padding = "same", .dilation = n})(kImages); }},
    {"Conv2d, reflect",
     [](int64_t n) {
       return Conv2d(1, 1, 4, {.padding = n, .padding_mode = PaddingMode::kReflect})(kImages);
     }},
    {"Conv3d, kernel",
     [](int64_t n) {
       return weight_of(Conv3d(1, 1, {n, 1, 1}));
     }},
    {"Conv3d, all", [](int64_t n) { return weight_of(Conv3d(n, n, n)); }},
    {"Conv3d, same",
     [](int64_t n) { return Conv3d(1, 1, 4, {.padding = "same", .dilation = n})(kVolumes); }},
    {"Conv3d, reflect",
     [](int64_t n) {
       return Conv3d(1, 1, 4, {.padding = n, .padding_mode = PaddingMode::kReflect})(kVolumes);
     }},
    {"ConvTranspose3d, all", [](int64_t n) { return weight_of(ConvTranspose3d(n, n, n)); }},
    {"ConvTranspose1d, all", [](int64_t n) { return weight_of(ConvTranspose1d(n, n, n)); }},
    {"ConvTranspose2d, groups",
     [](int64_t n) { return weight_of(ConvTranspose2d(1, 1, 1, {.groups = n})); }},
    {"PixelShuffle", [](int64_t n) { return PixelShuffle(n)(kImages); }},
    {"ZeroPad2d", [](int64_t n) { return ZeroPad2d(n)(kImages); }},
    {"ZeroPad3d", [](int64_t n) { return ZeroPad3d(n)(kVolumes); }},
    {"LSTM, input", [](int64_t n) { return weight_of(LSTM(n, 1)); }},
    {"LSTM, hidden", [](int64_t n) { return weight_of(LSTM(1, n)); }},
    {"GRU, both", [](int64_t n) { return weight_of(GRU(n, n)); }},
    {"LayerNorm", [](int64_t n) { return weight_of(LayerNorm({n})); }},
    {"RMSNorm",
     [](int64_t n) {
       return weight_of(RMSNorm({n, n}));
     }},
    {"GroupNorm, groups", [](int64_t n) { return weight_of(GroupNorm(n, 4)); }},
    {"GroupNorm, channels", [](int64_t n) { return weight_of(GroupNorm(1, n)); }},
    {"BatchNorm1d", [](int64_t n) { return weight_of(BatchNorm1d(n)); }},
    {"BatchNorm2d", [](int64_t n) { return weight_of(BatchNorm2d(n)); }},
    {"BatchNorm3d", [](int64_t n) { return weight_of(BatchNorm3d(n)); }},
    {"MultiheadAttention, width", [](int64_t n) { return weight_of(MultiheadAttention(n, 1)); }},
    {"MultiheadAttention, heads", [](int64_t n) { return weight_of(MultiheadAttention(4, n)); }},
    {"TransformerEncoderLayer", [](int64_t n) { return weight_of(TransformerEncoderLayer(n, 1)); }},
    {"TransformerEncoderLayer, inner",
     [](int64_t n) { return weight_of(TransformerEncoderLayer(2, 1, {.dim_feedforward = n})); }},
    {"GPT, vocabulary",
     [](int64_t n) {
       return weight_of(GPT({.vocab_size = n, .n_layer = 1, .n_head = 1, .n_embd = 2}));
     }},
    {"GPT, block",
     [](int64_t n) {
       return weight_of(
           GPT({.vocab_size = 2, .block_size = n, .n_layer = 1, .n_head = 1, .n_embd = 2}));
     }},
    {"GPT, width",
     [](int64_t n) {
       return weight_of(GPT({.vocab_size = 1, .n_layer = 1, .n_head = 1, .n_embd = n}));
     }},
    {"GPT, heads",
     [](int64_t n) {
       return weight_of(GPT({.vocab_size = 2, .n_layer = 1, .n_head = n, .n_embd = 2}));
     }},
    {"GPTMLP", [](int64_t n) { return weight_of(GPTMLP({.n_embd = n})); }},
};

class AbsurdSizes : public ::testing::TestWithParam<std::span<const Absurd>> {};

TEST_P(AbsurdSizes, AreRefusedOrGiveTheRightResult) {
  for (const Absurd& row : GetParam()) {
    for (const int64_t n : kAbsurd) {
      std::string wrong;
      {
        const MemoryLimit limit(size_t(1) << 30);
        try {
          const Tensor y = row.f(n);
          if (!row.right) wrong = concat_to_string("gave shape ", y.shape());
          if (row.right && !row.right(y, n))
            wrong = concat_to_string("gave a wrong result of ", y.shape());
        } catch (const Error&) {
        } catch (const std::exception& error) {
          wrong = error.what();
        }
      }
      EXPECT_EQ(wrong, "") << row.name << " of " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AbsurdSizes,
                         ::testing::Values(std::span(kFactories), std::span(kViews),
                                           std::span(kCopies), std::span(kArranged),
                                           std::span(kReductions), std::span(kWindows),
                                           std::span(kModules)));

TEST(Sizes, BeyondWhatCanBeCountedAreRefusedInPyTorchsWords) {
  constexpr int64_t kBig = int64_t(1) << 32;
  struct Refused {
    std::function<Tensor()> f;
    const char* text;
  };
  const Refused rows[] = {
      {[] {
         return empty({kBig, kBig});
       },
       "Storage size calculation overflowed with sizes=[4294967296, 4294967296]"},
      {[] {
         return empty({0, kBig, kBig});
       },
       "Storage size calculation overflowed with sizes=[0, 4294967296, 4294967296]"},
      {[] {
         return kNone.view({kBig, kBig});
       },
       "integer multiplication overflow"},
      {[] {
         return kOne.expand({kBig, kBig});
       },
       "Storage size calculation overflowed with sizes=[4294967296, 4294967296]"},
      {[] {
         return repeat(kOne, {kBig, kBig});
       },
       "Storage size calculation overflowed with sizes=[4294967296, 4294967296]"},
      {[] {
         return repeat(kX, {-1, 1});
       },
       "Trying to create tensor with negative dimension -2: [-2, 3]"},
      {[] { return kOne.narrow(0, kMax, 1); },
       "start out of range (expected to be in range of [-1, 1], but got 9223372036854775807)"},
      {[] { return kOne.narrow(0, 1, kMax); },
       "start (1) + length (9223372036854775807) exceeds dimension size (1)."},
      {[] { return kOne.narrow(0, 0, -1); }, "narrow(): length must be non-negative."},
      {[] {
         return split(kX, {kMax, kMax}).at(0);
       },
       "split_with_sizes expects split_sizes to sum exactly to 2"},
      {[] { return max_pool2d(kImages, kBig); }, "integer out of range"},
  };
  for (const Refused& row : rows) EXPECT_TRUE(refuses<Error>(row.f, row.text));
}

// Small blocks have an allocator of their own, which fails with the same message as that of large
// ones.
TEST(Sizes, ASmallTensorThatFindsNoMemoryIsAnOutOfMemoryError) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve the address space that the test would limit";
  for (const int64_t count : {1, 400, 4'000}) {
    std::vector<Tensor> held;
    held.reserve(size_t(1) << 20);
    std::string text;
    {
      const MemoryLimit limit(size_t(64) << 20);
      try {
        while (held.size() < held.capacity()) held.push_back(empty({count}));
      } catch (const OutOfMemoryError& error) {
        text = error.what();
      } catch (const std::exception& error) {
        text = concat_to_string("another kind: ", error.what());
      }
    }
    EXPECT_TRUE(text.starts_with("CPU out of memory. Tried to allocate ")) << text;
  }
}

}  // namespace
}  // namespace taper::v0::test
