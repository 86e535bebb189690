// Matrix products by cuBLASLt: C = alpha * op(A) op(B) + beta * C. C is overwritten if beta is 0. A
// row-major C = op(A) op(B) is passed as the column-major C' = op(B)' op(A)'. float32 is computed
// in float32 (or in TF32 if the user allows it), and half types accumulate in float32. An algorithm
// is chosen once for each shape. If k is split, partial sums are combined through the workspace in
// a fixed order, never by atomics.
#include "framework/kernels/matmul/matmul.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/cuda/cublaslt.h"
#include "framework/cuda/precision.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/matmul/matmul_into.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::cublaslt;
using taper::cuda::CublasLt;
using taper::cuda::Launch;
using taper::cuda::Scratch;

constexpr size_t kMaxWorkspace = size_t(32) << 20;
// The matrices of a batch are one dimension of the grid, which is limited to 16 bits.
constexpr int64_t kMaxBatch = 65535;
constexpr size_t kMaxPlans = 4096;

std::string describe(const Gemm& g) {
  return concat_to_string(g.dtype, " [", g.batch, ", ", g.m, ", ", g.k, "] x [", g.batch, ", ", g.k,
                          ", ", g.n, "]");
}

void check(cublasStatus_t status, const char* call, const Gemm& g) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw AcceleratorError(concat_to_string("matmul: ", call, " failed with ",
                                          cublaslt().GetStatusName(status), " for ", describe(g)));
}

// Owners of cuBLASLt objects.
template <class T, auto kDestroy> using Owner = LoadedOwner<T, cublaslt, kDestroy>;
using Handle = Owner<cublasLtHandle_t, &CublasLt::Destroy>;
using Operation = Owner<cublasLtMatmulDesc_t, &CublasLt::MatmulDescDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, &CublasLt::MatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, &CublasLt::MatmulPreferenceDestroy>;

// Everything that determines the algorithm. It has no padding, because it is hashed and compared as
// bytes.
struct Key {
  int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
  uint32_t align_a, align_b, align_c;
  uint8_t types, transpose_a, transpose_b, bias;

  bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(std::has_unique_object_representations_v<Key>);

struct KeyHash {
  size_t operator()(const Key& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

struct Plan {
  Operation operation;
  Layout a, b, c;  // named as by the caller, column-major
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace = 0;
  bool supported = false;
};

// The cuBLASLt state of one thread on one device.
struct Blas {
  Handle handle;
  std::unordered_map<Key, Plan, KeyHash> plans;
};

cudaDataType_t data_type(DType t) {
  switch (t) {
    case DType::kFloat64: return CUDA_R_64F;
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kBFloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

// Returns the largest power of two, up to 256, that divides an address.
uint32_t alignment(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return uint32_t(std::min<uintptr_t>(address & (~address + 1), 256));
}

cublasComputeType_t product_type(DType t) {
  if (t == kFloat64) return CUBLAS_COMPUTE_64F;
  return t == kFloat32 && allows_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Operation make_operation(const Gemm& g, const void* bias) {
  cublasLtMatmulDesc_t raw;
  check(cublaslt().MatmulDescCreate(&raw, product_type(g.dtype),
                                    g.dtype == kFloat64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate", g);
  Operation operation(raw);
  const auto set = [&](cublasLtMatmulDescAttributes_t name, auto value) {
    check(cublaslt().MatmulDescSetAttribute(raw, name, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", g);
  };
  // cuBLASLt's first operand is B and its second is A.
  set(CUBLASLT_MATMUL_DESC_TRANSA, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  return operation;
}

DType type_of_c(const Gemm& g) { return g.float32_c ? kFloat32 : g.dtype; }

// Describes a matrix. A stored row-major rows x cols matrix is a column-major cols x rows matrix.
Layout make_layout(const Gemm& g, DType dtype, int64_t rows, int64_t cols, int64_t ld,
                   int64_t stride) {
  cublasLtMatrixLayout_t raw;
  check(cublaslt().MatrixLayoutCreate(&raw, data_type(dtype), uint64_t(cols), uint64_t(rows), ld),
        "cublasLtMatrixLayoutCreate", g);
  Layout layout(raw);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t name, auto value) {
    check(cublaslt().MatrixLayoutSetAttribute(raw, name, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute", g);
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(g.batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return layout;
}

Preference make_preference(const Gemm& g, const Key& key) {
  cublasLtMatmulPreference_t raw;
  check(cublaslt().MatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate", g);
  Preference preference(raw);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(cublaslt().MatmulPreferenceSetAttribute(raw, name, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", g);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kMaxWorkspace));
  // Splits are summed in the compute type by a second step, always in the same order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_c);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_c);
  return preference;
}

// Returns cuBLASLt's first suggestion, except for half-type products with many rows and a small k.
// For these, smaller tiles allow more of them to be stored while others compute (9 to 14 % faster
// at the sizes of small GPTs on an H200).
int best_of(const Gemm& g, const cublasLtMatmulHeuristicResult_t* found, int count) {
  constexpr int64_t kFewSteps = 768, kMany = int64_t(1) << 23;
  if (!is_half(g.dtype) || g.k > kFewSteps || g.batch * g.m * g.n < kMany) return 0;
  int second = 0;
  for (int i = count - 1; i >= 0; --i) {
    int32_t tile = 0, splits = 0;
    size_t written = 0;
    const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t name, int32_t& value) {
      check(cublaslt().MatmulAlgoConfigGetAttribute(&found[i].algo, name, &value, sizeof value,
                                                    &written),
            "cublasLtMatmulAlgoConfigGetAttribute", g);
    };
    get(CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
    get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits);
    if (splits > 1) continue;
    if (tile == CUBLASLT_MATMUL_TILE_128x128) return i;
    if (tile == CUBLASLT_MATMUL_TILE_128x160) second = i;
  }
  return second;
}

Plan make_plan(cublasLtHandle_t handle, const Gemm& g, const Key& key, const void* bias) {
  Plan plan;
  plan.operation = make_operation(g, bias);
  const auto operand = [&](bool transposed, int64_t rows, int64_t cols, int64_t ld,
                           int64_t stride) {
    return make_layout(g, g.dtype, transposed ? cols : rows, transposed ? rows : cols, ld, stride);
  };
  plan.a = operand(g.transpose_a, g.m, g.k, g.lda, g.stride_a);
  plan.b = operand(g.transpose_b, g.k, g.n, g.ldb, g.stride_b);
  plan.c = make_layout(g, type_of_c(g), g.m, g.n, g.ldc, g.stride_c);
  const Preference preference = make_preference(g, key);
  constexpr int kResults = 8;
  cublasLtMatmulHeuristicResult_t found[kResults] = {};
  int count = 0;
  const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(
      handle, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
      preference.get(), kResults, found, &count);
  plan.supported = status == CUBLAS_STATUS_SUCCESS && count > 0;
  // Only a bias can be added without cuBLASLt. Nothing else has an alternative.
  if (!plan.supported && !bias) {
    check(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
          "cublasLtMatmulAlgoGetHeuristic", g);
  }
  const cublasLtMatmulHeuristicResult_t& best = found[best_of(g, found, count)];
  plan.algorithm = best.algo;
  plan.workspace = best.workspaceSize;
  return plan;
}

// Returns the state of this thread, so that a lookup needs no lock. It is destroyed while the CUDA
// runtime still exists.
Blas& blas_of(int device, const Gemm& g) {
  thread_local std::unordered_map<int, Blas> all;
  Blas& blas = all[device];
  if (!blas.handle) {
    cublasLtHandle_t raw;
    check(cublaslt().Create(&raw), "cublasLtCreate", g);
    blas.handle.reset(raw);
  }
  return blas;
}

Plan& plan_of(Blas& blas, const Gemm& g, const void* a, const void* b, const void* c,
              const void* bias) {
  const Key key{g.m,
                g.n,
                g.k,
                g.batch,
                g.lda,
                g.ldb,
                g.ldc,
                g.stride_a,
                g.stride_b,
                g.stride_c,
                alignment(a),
                alignment(b),
                alignment(c),
                uint8_t(uint8_t(g.dtype) << 4 | int(g.float32_c) << 1 |
                        int(g.dtype == kFloat32 && allows_tf32())),
                g.transpose_a,
                g.transpose_b,
                bias != nullptr};
  const auto known = blas.plans.find(key);
  if (known != blas.plans.end()) return known->second;
  if (blas.plans.size() >= kMaxPlans) blas.plans.clear();
  return blas.plans.emplace(key, make_plan(blas.handle.get(), g, key, bias)).first->second;
}

// Computes C = beta * C + bias, for cases that cuBLASLt does not support. C is not read if beta is
// 0.
template <class T> struct ScaleAndBias {
  T* c;
  const T* bias;
  float beta;
  int64_t m, n, ldc, stride_c;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t row = i / n, column = i % n;
    T& at = c[row / m * stride_c + row % m * ldc + column];
    Compute<T> x = beta == 0 ? Compute<T>(0) : Compute<T>(beta) * Compute<T>(at);
    if (bias) x += Compute<T>(bias[column]);
    at = T(x);
  }
};

void prepare_c(const Gemm& g, void* c, const void* bias) {
  if (g.beta == 1 && !bias) return;
  visit_floating(type_of_c(g), [&]<class T>(TypeTag<T>) {
    const ScaleAndBias<T> f{
        static_cast<T*>(c), static_cast<const T*>(bias), g.beta, g.m, g.n, g.ldc, g.stride_c};
    Backend::run("matmul", g.device, g.batch * g.m * g.n, f);
  });
}

void multiply(const Launch& on, const Gemm& g, const void* a, const void* b, void* c,
              const void* bias) {
  Blas& blas = blas_of(on.device, g);
  // The epilogue reads its bias in 16-byte pieces, and support for double is not guaranteed.
  const bool fits = !bias || (g.dtype != kFloat64 && alignment(bias) >= 16);
  Plan* const known = fits ? &plan_of(blas, g, a, b, c, bias) : nullptr;
  if (!known || !known->supported) {  // two steps: C = beta * C + bias, then C += alpha * A B
    prepare_c(g, c, bias);
    Gemm then = g;
    then.beta = 1;
    return multiply(on, then, a, b, c, nullptr);
  }
  Plan& plan = *known;
  if (bias) {
    check(cublaslt().MatmulDescSetAttribute(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &bias, sizeof bias),
          "cublasLtMatmulDescSetAttribute", g);
  }
  const double wide_alpha = g.alpha, wide_beta = g.beta;
  const bool wide = g.dtype == kFloat64;
  const void* alpha = wide ? static_cast<const void*>(&wide_alpha) : &g.alpha;
  const void* beta = wide ? static_cast<const void*>(&wide_beta) : &g.beta;
  const auto run = [&](void* workspace) {
    check(cublaslt().Matmul(blas.handle.get(), plan.operation.get(), alpha, b, plan.b.get(), a,
                            plan.a.get(), beta, c, plan.c.get(), c, plan.c.get(), &plan.algorithm,
                            workspace, plan.workspace, on.stream),
          "cublasLtMatmul", g);
  };
  if (plan.workspace == 0) return run(nullptr);
  run(Scratch(plan.workspace, on.device).data());
}

// Computes c = activation(z). Both are dense and have g's dtype. They may be the same.
void activate(const Gemm& g, Activation activation, const void* z, void* c) {
  const UnaryOp op = activation == Activation::kRelu   ? UnaryOp::kRelu
                     : activation == Activation::kGelu ? UnaryOp::kGelu
                                                       : UnaryOp::kGeluTanh;
  unary(op, {}, make_iterator(c, g.dtype, z, g.dtype, g.m * g.n, g.device), compute_type(g.dtype));
}

// --- half types whose rows do not start at multiples of 16 bytes ---

// Copies stored rows to a matrix with another size and row length. New elements are 0.
struct Rows {
  int64_t count, length, ld;
};
struct CopyRows {
  uint16_t* to;
  Rows wanted;
  const uint16_t* from;
  Rows given;

  TAPER_HD void operator()(int64_t i) const {
    const int64_t row = i / wanted.length, column = i % wanted.length;
    const bool inside = row < given.count && column < given.length;
    to[row * wanted.ld + column] = inside ? from[row * given.ld + column] : uint16_t(0);
  }
};

void copy_rows(const Launch& on, void* to, Rows wanted, const void* from, Rows given) {
  Backend::run(
      "matmul", on.device, wanted.count * wanted.length,
      CopyRows{static_cast<uint16_t*>(to), wanted, static_cast<const uint16_t*>(from), given});
}

// Returns whether padded copies of the operands pay off. Rows of 65 elements, for example, keep
// cuBLASLt from using its fast kernels. Only large products gain more than the copies cost.
bool wants_padding(const Gemm& g) {
  const bool odd = g.lda % 8 != 0 || g.ldb % 8 != 0 || g.ldc % 8 != 0;
  constexpr int64_t kWorth = int64_t(1) << 27;
  return is_half(g.dtype) && odd && g.batch == 1 && g.beta == 0 && !g.float32_c &&
         g.m * g.n * g.k >= kWorth;
}

void multiply_padded(const Launch& on, const Gemm& g, const void* a, const void* b, void* c,
                     const void* bias) {
  const auto padded = [](int64_t n) { return (n + 7) / 8 * 8; };
  Gemm p = g;
  p.n = padded(g.n);
  p.k = padded(g.k);
  p.ldc = g.n == p.n ? g.ldc : p.n;
  std::optional<Scratch> copies[4];
  const auto room = [&](int which, int64_t numel) {
    return copies[which].emplace(size_t(numel) * 2, on.device).data();
  };
  // Returns a padded copy with count x length elements, or the operand itself if it already has
  // that size.
  const auto pad = [&](int which, const void* x, int64_t& ld, Rows given, int64_t count,
                       int64_t length) {
    if (ld % 8 == 0 && count == given.count && length == given.length) return x;
    ld = padded(length);
    void* copy = room(which, count * ld);
    copy_rows(on, copy, {count, length, ld}, x, given);
    return static_cast<const void*>(copy);
  };
  const void* from_a = g.transpose_a ? pad(0, a, p.lda, {g.k, g.m, g.lda}, p.k, g.m)
                                     : pad(0, a, p.lda, {g.m, g.k, g.lda}, g.m, p.k);
  const void* from_b = g.transpose_b ? pad(1, b, p.ldb, {g.n, g.k, g.ldb}, p.n, p.k)
                                     : pad(1, b, p.ldb, {g.k, g.n, g.ldb}, p.k, p.n);
  int64_t row = g.n;
  const void* added = bias ? pad(2, bias, row, {1, g.n, g.n}, 1, p.n) : nullptr;
  void* to = p.n == g.n ? c : room(3, g.m * p.ldc);
  multiply(on, p, from_a, from_b, to, added);
  if (to != c) copy_rows(on, c, {g.m, g.n, g.ldc}, to, {g.m, g.n, p.ldc});
}

}  // namespace

int64_t rows_of_full_wave(int64_t columns, int device) {
  constexpr int64_t kTileRows = 128, kTileColumns = 256;
  const int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  return taper::cuda::multi_processor_count(device) / std::max<int64_t>(tiles, 1) * kTileRows;
}

void gemm(const Gemm& whole, const void* a, const void* b, void* c, const Epilogue& then) {
  if (whole.m == 0 || whole.n == 0 || whole.batch == 0) return;
  if (small_gemm(whole, a, b, c, then)) return;
  const Launch on(whole.device);
  void* z = then.before ? then.before : c;
  if (whole.k == 0) {
    prepare_c(whole, z, then.bias);
  } else if (wants_padding(whole)) {
    multiply_padded(on, whole, a, b, z, then.bias);
  } else {
    Gemm g = whole;
    const int64_t size = int64_t(size_of(g.dtype));
    for (int64_t done = 0; done < whole.batch; done += kMaxBatch) {
      g.batch = std::min(whole.batch - done, kMaxBatch);
      multiply(on, g, static_cast<const char*>(a) + done * g.stride_a * size,
               static_cast<const char*>(b) + done * g.stride_b * size,
               static_cast<char*>(z) + done * g.stride_c * size, then.bias);
    }
  }
  on.check("matmul");
  if (then.activation != Activation::kNone) activate(whole, then.activation, z, c);
}

}  // namespace taper::v0::kernels::cuda
