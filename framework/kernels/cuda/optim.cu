// Optimizer updates (in place): one launch for all parameters of a dtype. Every tensor is cut into
// chunks, a block updates one chunk. Pointers travel in the kernel's arguments; the learning rate
// and the step count are read from device memory, so that a captured graph replays them.
#include "framework/kernels/optim.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/cuda/runtime.h"
#include "framework/kernels/cuda/elementwise.cuh"
#include "framework/kernels/math.h"

namespace taper::kernels::cuda {
namespace {

using taper::cuda::Launch;

// The tensors of one launch. Chunks are counted through all of them.
template <int kMax> struct TensorList {
  void* param[kMax];
  const void* grad[kMax];
  void* state1[kMax];  // null where the rule keeps none
  void* state2[kMax];
  int64_t numel[kMax];
  uint32_t first_chunk[kMax + 1];
  int count;
  int chunk;  // elements, a multiple of 4
};
constexpr int kFew = 80;    // arguments below 4 KiB, the cheap size
constexpr int kMany = 720;  // below the limit of 32,764 bytes
static_assert(sizeof(TensorList<kFew>) < 4000 && sizeof(TensorList<kMany>) < 32500);

// --- rules: prepare() once a block, then one call an element ---

struct SgdRule {
  const double* lr;
  SgdArgs args;

  template <class C> struct Step {
    C lr, momentum, weight_decay;
    bool nesterov;

    // d = grad + weight_decay p; buf = momentum buf + d; p -= lr (nesterov ? d + momentum buf :
    // buf)
    __device__ void operator()(C& p, C grad, C& buf, C&) const {
      C d = grad + weight_decay * p;
      if (momentum != C(0)) {
        buf = momentum * buf + d;
        d = nesterov ? d + momentum * buf : buf;
      }
      p -= lr * d;
    }
  };
  template <class C> __device__ Step<C> prepare() const {
    return {C(*lr), C(args.momentum), C(args.weight_decay), args.nesterov};
  }
};

struct AdamRule {
  const double* lr;
  const double* step;
  AdamArgs args;

  template <class C> struct Step {
    C beta1, beta2, rest1, rest2;  // rest: 1 - beta, before it is rounded to C
    C eps, step_size, root2;
    C keep;   // what weight decay leaves of p (AdamW)
    C decay;  // what it adds to the gradient (Adam)

    // m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
    // p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
    __device__ void operator()(C& p, C grad, C& m, C& v) const {
      const C g = grad + decay * p;
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * g * g;
      const C denominator = math::sqrt(v) / root2 + eps;
      p = p * keep - step_size * (m / denominator);
    }
  };
  // 1 - beta^t, without cancellation.
  __device__ static double correction(double beta, double t) {
    return -math::expm1(t * math::log(beta));
  }
  template <class C> __device__ Step<C> prepare() const {
    const double t = *step, rate = *lr, weight_decay = args.weight_decay;
    return {C(args.beta1),
            C(args.beta2),
            C(1 - args.beta1),
            C(1 - args.beta2),
            C(args.eps),
            C(rate / correction(args.beta1, t)),
            C(math::sqrt(correction(args.beta2, t))),
            C(args.decoupled ? 1 - rate * weight_decay : 1),
            C(args.decoupled ? 0 : weight_decay)};
  }
};

// The tensor that a chunk belongs to.
template <int kMax> __device__ int tensor_of(const TensorList<kMax>& list, uint32_t chunk) {
  int low = 0, high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.first_chunk[middle] <= chunk ? low : high) = middle;
  }
  return low;
}

__device__ bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// kVec elements from i on, of a parameter and its state.
template <int kVec, class T, class C, class Step>
__device__ void update(T* p, const T* g, C* s1, C* s2, int64_t i, const Step& step) {
  Vec<T, kVec> param = load_vec<T, kVec>(p + i);
  const Vec<T, kVec> grad = load_vec<T, kVec>(g + i);
  Vec<C, kVec> state1{}, state2{};
  if (s1) state1 = load_vec<C, kVec>(s1 + i);
  if (s2) state2 = load_vec<C, kVec>(s2 + i);
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    C x = C(param.at[j]);
    step(x, C(grad.at[j]), state1.at[j], state2.at[j]);
    param.at[j] = T(x);
  }
  store_vec(p + i, param);
  if (s1) store_vec(s1 + i, state1);
  if (s2) store_vec(s2 + i, state2);
}

template <class T, class Rule, int kMax>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ TensorList<kMax> list, const Rule rule) {
  using C = Compute<T>;
  using Step = typename Rule::template Step<C>;
  __shared__ Step shared;
  if (threadIdx.x == 0) shared = rule.template prepare<C>();
  __syncthreads();
  const Step step = shared;

  const int t = tensor_of(list, blockIdx.x);
  T* p = static_cast<T*>(list.param[t]);
  const T* g = static_cast<const T*>(list.grad[t]);
  C* s1 = static_cast<C*>(list.state1[t]);
  C* s2 = static_cast<C*>(list.state2[t]);
  const int64_t begin = int64_t(blockIdx.x - list.first_chunk[t]) * list.chunk;
  const int64_t end = min(begin + list.chunk, list.numel[t]);
  const bool vectors = aligned(p) && aligned(g) && aligned(s1) && aligned(s2);
  const int64_t middle = vectors ? begin + (end - begin) / 4 * 4 : begin;
  for (int64_t i = begin + threadIdx.x * 4; i < middle; i += kThreads * 4) {
    update<4>(p, g, s1, s2, i, step);
  }
  for (int64_t i = middle + threadIdx.x; i < end; i += kThreads) {
    update<1>(p, g, s1, s2, i, step);
  }
}

void* data_of(const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }

template <class T, int kMax, class Rule>
void launch(const Launch& on, std::span<const Update* const> updates, const Rule& rule) {
  TensorList<kMax> list;
  list.count = int(updates.size());
  int64_t numel = 0, chunks = 0;
  for (const Update* u : updates) numel += u->param.numel();
  // Small models need many blocks, large ones few starts.
  list.chunk = numel < (int64_t(1) << 22) ? 2048 : 8192;
  for (int i = 0; i < list.count; ++i) {
    const Update& u = *updates[i];
    list.param[i] = u.param.data_ptr();
    list.grad[i] = u.grad.data_ptr();
    list.state1[i] = data_of(u.state1);
    list.state2[i] = data_of(u.state2);
    list.numel[i] = u.param.numel();
    list.first_chunk[i] = uint32_t(chunks);
    chunks += ceil_div(list.numel[i], list.chunk);
  }
  list.first_chunk[list.count] = uint32_t(chunks);
  assert(chunks <= kMaxPiece);
  update_kernel<T, Rule, kMax><<<unsigned(chunks), kThreads, 0, on.stream>>>(list, rule);
}

template <class Rule>
void run(const char* op, const std::vector<Update>& updates, const Tensor& lr, const Rule& rule) {
  const Launch on(lr);
  std::vector<const Update*> same;
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
    same.clear();
    for (const Update& u : updates) {
      if (u.param.dtype() == dtype && u.param.numel() > 0) same.push_back(&u);
    }
    for (size_t done = 0; done < same.size(); done += kMany) {
      const auto part = std::span(same).subspan(done, std::min<size_t>(same.size() - done, kMany));
      visit_floating(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (part.size() <= kFew) return launch<T, kFew>(on, part, rule);
        launch<T, kMany>(on, part, rule);
      });
      on.check(op);
    }
  }
}

const double* scalar_of(const Tensor& x) {
  assert(x.dtype() == kFloat64);
  return static_cast<const double*>(x.data_ptr());
}

}  // namespace

void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args) {
  run("sgd", updates, lr, SgdRule{scalar_of(lr), args});
}

void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args) {
  run("adam", updates, lr, AdamRule{scalar_of(lr), scalar_of(step), args});
}

}  // namespace taper::kernels::cuda
