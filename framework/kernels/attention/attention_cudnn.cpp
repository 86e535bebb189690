// Attention by cuDNN for half types without dropout, as one fused graph of operations (its
// FlashAttention). The engine is chosen once for each shape, and sums are in float. The backward
// graph keeps the scores' gradient in the workspace, T * S halves for each batch element. It uses
// no atomics: NVIDIA's cudnn-frontend selects this form when determinism is requested (the engines'
// notes do not document it). Taper's own kernels compute what cuDNN does not support.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/cuda/cudnn_handle.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/plans.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::cudnn;
using taper::cuda::Launch;
using taper::cuda::Scratch;

constexpr int64_t kMaxWorkspace = int64_t(2) << 30;
constexpr int64_t kFewestScores = 64 * 64;  // creating a plan takes up to a second
constexpr int64_t kAlignment = 16;

// --- descriptors ---

struct Refused {};  // cuDNN rejected the problem; caught in this file
void accept(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused();
}

using Raw = cudnnBackendDescriptor_t;
using Attribute = cudnnBackendAttributeName_t;
using Type = cudnnBackendAttributeType_t;

// A backend descriptor. Its parts must be finalized before they are set, and must outlive it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    Raw raw = nullptr;
    accept(cudnn().BackendCreateDescriptor(type, &raw));
    owner_.reset(raw);
  }
  Raw raw() const { return owner_.get(); }

  template <class T> Descriptor& set(Attribute name, Type type, const T& value) {
    accept(cudnn().BackendSetAttribute(raw(), name, type, 1, &value));
    return *this;
  }
  template <class T> Descriptor& set(Attribute name, Type type, const std::vector<T>& values) {
    accept(cudnn().BackendSetAttribute(raw(), name, type, int64_t(values.size()), values.data()));
    return *this;
  }
  Descriptor& set(Attribute name, Raw part) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part);
  }
  Descriptor& finish() {
    accept(cudnn().BackendFinalize(raw()));
    return *this;
  }

 private:
  taper::cuda::CudnnOwner<Raw, &taper::cuda::Cudnn::BackendDestroyDescriptor> owner_;
};

// --- the graphs ---

// IDs of the tensors that have memory, and of scalars passed by value.
using Uid = int64_t;
constexpr Uid kVirtual = 0, kQ = 1, kK = 2, kV = 3, kY = 4, kLse = 5, kDy = 6, kDelta = 7, kDq = 8,
              kDk = 9, kDv = 10, kScale = 11, kHidden = 12, kOne = 13, kFirstFree = 14;

struct Problem {
  bool forward, causal;
  DType dtype;
  int64_t B, H, T, S, D;
  // By the ID of a tensor: the strides of batch, head and row. Zeros mean that it is dense.
  std::array<std::array<int64_t, 3>, kDv + 1> strides{};
  auto operator<=>(const Problem&) const = default;
};

class Graph {
 public:
  explicit Graph(const Problem& p)
      : p_(p), half_(p.dtype == kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16) {
    p.forward ? forward() : backward();
  }
  const std::vector<Raw>& operations() const { return operations_; }
  std::vector<Descriptor> release() { return std::move(all_); }

 private:
  void forward() {
    const Raw s = p_.causal ? hide_future(scores()) : scores();
    const Raw most = reduce(CUDNN_REDUCE_TENSOR_MAX, s);
    const Raw e = pointwise(CUDNN_POINTWISE_EXP, {pointwise(CUDNN_POINTWISE_SUB, {s, most})});
    const Raw sum = reduce(CUDNN_REDUCE_TENSOR_ADD, e);
    const Raw log = pointwise(CUDNN_POINTWISE_LOG, {sum}, column());
    pointwise(CUDNN_POINTWISE_ADD, {most, log}, column(kLse));
    const Raw p = pointwise(CUDNN_POINTWISE_DIV, {e, sum}, matrix(p_.T, p_.S, half_));
    matmul(p, matrix(p_.S, p_.D, half_, kV), matrix(p_.T, p_.D, half_, kY));
  }

  // Computes dv = p^T dy; ds = p * (dy v^T - delta) * scale; dk = ds^T q; dq = ds k. cuDNN
  // recognizes the graph only in this form, with a multiplication by one, and with k transposed
  // twice. The second transpose must have the strides of k in memory: the engine reads k by them,
  // and with dense strides dq is wrong if the heads of a row are adjacent.
  void backward() {
    constexpr auto mul = CUDNN_POINTWISE_MUL, sub = CUDNN_POINTWISE_SUB;
    const Raw dy = matrix(p_.T, p_.D, half_, kDy), y = matrix(p_.T, p_.D, half_, kY);
    const Raw sums = reduce(CUDNN_REDUCE_TENSOR_ADD, pointwise(mul, {dy, y}, matrix(p_.T, p_.D)));
    const Raw delta = pointwise(mul, {sums, number(kOne)}, column(kDelta));

    const Raw s = pointwise(sub, {scores(), column(kLse)});
    const Raw p = pointwise(CUDNN_POINTWISE_EXP, {p_.causal ? hide_future(s) : s});
    matmul(transposed(p), dy, matrix(p_.S, p_.D, half_, kDv));

    const Raw dp = matmul(dy, matrix(p_.D, p_.S, half_, kV, true), matrix(p_.T, p_.S));
    const Raw inner = pointwise(mul, {pointwise(sub, {dp, delta}), p});
    const Raw ds = pointwise(mul, {inner, scale_});
    matmul(transposed(ds), q_, matrix(p_.S, p_.D, half_, kDk));
    const Raw k = reshape(kt_, matrix(p_.S, p_.D, half_, kVirtual, false, kK));
    matmul(ds, k, matrix(p_.T, p_.D, half_, kDq));
  }

  // Adds the scores q k^T * scale to the graph.
  Raw scores() {
    q_ = matrix(p_.T, p_.D, half_, kQ);
    kt_ = matrix(p_.D, p_.S, half_, kK, true);
    scale_ = number(kScale);
    return pointwise(CUDNN_POINTWISE_MUL, {matmul(q_, kt_, matrix(p_.T, p_.S)), scale_});
  }
  Raw hide_future(Raw s) {
    const auto index = [&](int64_t axis) {
      const Raw i = matrix(p_.T, p_.S, CUDNN_DATA_INT32);
      return pointwise(CUDNN_POINTWISE_GEN_INDEX, {s}, i, CUDNN_DATA_FLOAT, axis);
    };
    const Raw query = index(2), key = index(3), seen = matrix(p_.T, p_.S, CUDNN_DATA_BOOLEAN);
    pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, seen, CUDNN_DATA_BOOLEAN);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {s, number(kHidden), seen});
  }

  Raw keep(Descriptor& d) { return all_.emplace_back(std::move(d.finish())).raw(); }

  Raw tensor(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
             cudnnDataType_t type, Uid uid, bool by_value = false) {
    Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid == kVirtual ? next_++ : uid);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, uid == kVirtual);
    return keep(d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value));
  }
  // Adds a tensor with one matrix for each batch element and head. by_columns: the matrices are
  // transposed in memory. A virtual tensor can take the strides of another tensor, `like`.
  Raw matrix(int64_t rows, int64_t columns, cudnnDataType_t type = CUDNN_DATA_FLOAT,
             Uid uid = kVirtual, bool by_columns = false, Uid like = kVirtual) {
    const int64_t row = by_columns ? rows : columns, size = rows * columns;
    auto at = layout(like != kVirtual ? like : uid);
    if (at[2] == 0) at = {p_.H * size, size, row};
    return tensor({p_.B, p_.H, rows, columns},
                  {at[0], at[1], by_columns ? 1 : at[2], by_columns ? at[2] : 1}, type, uid);
  }
  std::array<int64_t, 3> layout(Uid uid) const {
    return size_t(uid) < p_.strides.size() ? p_.strides[size_t(uid)] : std::array<int64_t, 3>{};
  }
  Raw column(Uid uid = kVirtual) { return matrix(p_.T, 1, CUDNN_DATA_FLOAT, uid); }
  Raw number(Uid uid) { return tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, uid, true); }

  Raw operation(Descriptor& d, Raw result) {
    operations_.push_back(keep(d));
    return result;
  }
  Raw matmul(Raw a, Raw b, Raw c) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR), d(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    d.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(how));
    d.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a).set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    return operation(d.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c), c);
  }
  // Reduces over the columns.
  Raw reduce(cudnnReduceTensorOp_t op, Raw x) {
    const Raw y = column();
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    Descriptor d(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(how));
    d.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x).set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    return operation(d, y);
  }
  Raw reshape(Raw x, Raw y) {
    Descriptor d(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return operation(d, y);
  }
  Raw transposed(Raw x) { return reshape(x, matrix(p_.S, p_.T, half_, kVirtual, true)); }

  // Adds an element-wise operation to the graph. If y is not given, the result has one element for
  // each score.
  Raw pointwise(cudnnPointwiseMode_t mode, const std::vector<Raw>& x, Raw y = nullptr,
                cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    constexpr Attribute kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    if (!y) y = matrix(p_.T, p_.S);
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    Descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(how));
    for (size_t i = 0; i < x.size(); ++i) d.set(kInputs[i], x[i]);
    return operation(d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y), y);
  }

  const Problem p_;
  const cudnnDataType_t half_;
  Uid next_ = kFirstFree;
  Raw q_ = nullptr, kt_ = nullptr, scale_ = nullptr;
  std::vector<Descriptor> all_;
  std::vector<Raw> operations_;
};

// --- plans ---

// The plan for an attention problem. `supported` is false if cuDNN cannot compute it.
struct Plan {
  std::vector<Descriptor> parts;  // the last one is the execution plan
  int64_t workspace = 0;
  bool supported = false;
};

// Returns the first of cuDNN's proposals, ordered by expected time, for which a plan can be
// created.
Plan make_plan(cudnnHandle_t handle, const Problem& p) try {
  Graph graph(p);
  Descriptor whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph.operations());
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole.finish().raw());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A).finish();

  std::vector<Descriptor> configs;
  Raw raws[8];
  for (Raw& raw : raws) raw = configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw();
  int64_t count = 0, workspace = 0, found = 0;
  accept(cudnn().BackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raws), &count,
                                     raws));
  configs.erase(configs.begin() + std::min(count, std::ssize(raws)), configs.end());
  for (Descriptor& config : configs) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.raw());
    if (cudnn().BackendFinalize(plan.raw()) != CUDNN_STATUS_SUCCESS) continue;
    accept(cudnn().BackendGetAttribute(plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &found, &workspace));
    if (workspace > kMaxWorkspace) continue;
    Plan made{graph.release(), workspace, true};
    for (Descriptor* part : {&whole, &config, &plan}) made.parts.push_back(std::move(*part));
    return made;
  }
  return {};
} catch (const Refused&) {
  return {};
}

bool takes(const Problem& p, const Tensor& v, const AttentionArgs& args, int device) {
  constexpr int64_t kMaxBlocks = 65535, kMaxColumns = 128;
  if (args.dropout_p > 0 || p.T * p.S < kFewestScores) return false;
  if (p.D != v.size(3) || p.D % 8 != 0 || p.D > kMaxColumns) return false;
  if (p.B * p.H > kMaxBlocks || p.S == 1) return false;
  if (p.forward) return true;
  // Determinism is documented up to Hopper. Before 9.15.1, captured graphs read beyond the keys if
  // these do not fill their tiles.
  return taper::cuda::compute_capability(device) < 1000 &&
         (p.S % 128 == 0 || cudnn().GetVersion() >= 91501);
}

// Binds memory to the IDs of all tensors and runs the graph. `tensors` contains all but logsumexp,
// which is `lse`, and delta, which is scratch memory.
bool run(bool forward, const AttentionArgs& args, const Tensor& lse,
         const std::vector<std::pair<Uid, Tensor>>& tensors) try {
  const Tensor &q = tensors[0].second, &k = tensors[1].second, &v = tensors[2].second;
  Problem p{forward, args.causal, q.dtype(), q.size(0), q.size(1), q.size(2), k.size(2), q.size(3)};
  if (!takes(p, v, args, q.device().index())) return false;
  std::vector<Uid> uids{kLse};
  std::vector<void*> data{lse.data_ptr()};
  const auto bind = [&](Uid uid, void* at) {
    uids.push_back(uid);
    data.push_back(at);
  };
  for (const auto& [uid, x] : tensors) {
    if (!has_whole_rows(x)) return false;
    p.strides[size_t(uid)] = {x.stride(0), x.stride(1), x.size(2) == 1 ? x.size(3) : x.stride(2)};
    bind(uid, x.data_ptr());
  }
  const Launch on(q);
  // The first use loads code and may allocate memory; only the launches must be captured.
  const taper::cuda::RelaxedCaptureGuard relaxed;
  const cudnnHandle_t handle = taper::cuda::cudnn_handle(on.device);
  Plan& plan = plan_of(std::tuple(on.device, p), [&] { return make_plan(handle, p); });
  if (!plan.supported) return false;

  const Scratch workspace(size_t(plan.workspace), on.device);
  const Scratch delta(forward ? 0 : lse.nbytes(), on.device);
  float scale = float(args.scale), hidden = -std::numeric_limits<float>::infinity(), one = 1;
  bind(kScale, &scale);
  if (p.causal) bind(kHidden, &hidden);
  if (!forward) bind(kOne, &one);
  if (!forward) bind(kDelta, delta.data());
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace.data());
  const auto status = cudnn().BackendExecute(handle, plan.parts.back().raw(), pack.finish().raw());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return plan.supported = false;
  taper::cuda::check_cudnn(status, "cudnnBackendExecute");
  on.check("scaled_dot_product_attention");
  return true;
} catch (const Refused&) {
  return false;
}

}  // namespace

bool cudnn_attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionArgs& args) {
  return run(true, args, out.logsumexp, {{kQ, q}, {kK, k}, {kV, v}, {kY, out.y}});
}

bool cudnn_attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                              const Tensor& k, const Tensor& v, const AttentionResult& forward,
                              const AttentionArgs& args) {
  return run(false, args, forward.logsumexp,
             {{kQ, q},
              {kK, k},
              {kV, v},
              {kY, forward.y},
              {kDy, dy},
              {kDq, out.dq},
              {kDk, out.dk},
              {kDv, out.dv}});
}

}  // namespace taper::v0::kernels::cuda
