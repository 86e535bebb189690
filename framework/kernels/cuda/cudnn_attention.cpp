// Attention by cuDNN (`=`): half types without mask and dropout, as one fused graph of operations
// (its FlashAttention), chosen once for each shape; sums are in float. The backward graph keeps the
// scores' gradient in the workspace, T S halves for each batch element, and adds nothing with
// atomics: by this form NVIDIA's cudnn-frontend asks for determinism (the engines' notes do not
// tell). What is not taken is left to attention.cu.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/cuda/cudnn_handle.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/attention.h"

namespace taper::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

constexpr size_t kMaxPlans = 1024;
constexpr int64_t kMaxWorkspace = int64_t(1) << 30;
constexpr int64_t kFewestScores = 64 * 64;  // a plan takes up to a second to make
constexpr int64_t kAlignment = 16;

// --- descriptors ---

struct Refused {};  // by cuDNN; never leaves this file
void accept(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused();
}

using Raw = cudnnBackendDescriptor_t;
using Attribute = cudnnBackendAttributeName_t;

constexpr auto type_of(Raw) { return CUDNN_TYPE_BACKEND_DESCRIPTOR; }
constexpr auto type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr auto type_of(int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto type_of(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto type_of(cudnnReduceTensorOp_t) { return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE; }
constexpr auto type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }

// Parts are finished before they are set, and outlive the whole.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    Raw raw = nullptr;
    accept(cudnnBackendCreateDescriptor(type, &raw));
    owner_.reset(raw);
  }
  Raw raw() const { return owner_.get(); }

  template <class T> Descriptor& set(Attribute name, const T& value) {
    return set(name, std::span(&value, 1), type_of(value));
  }
  template <class Values>
  Descriptor& set(Attribute name, const Values& all, cudnnBackendAttributeType_t type) {
    accept(cudnnBackendSetAttribute(raw(), name, type, int64_t(all.size()), all.data()));
    return *this;
  }
  // How many were written.
  template <class T> size_t get(Attribute name, T* values, int64_t most) const {
    int64_t count = 0;
    accept(cudnnBackendGetAttribute(raw(), name, type_of(T{}), most, &count, values));
    return size_t(std::min(count, most));
  }
  Descriptor& finish() {
    accept(cudnnBackendFinalize(raw()));
    return *this;
  }

 private:
  taper::cuda::CudnnOwner<Raw, cudnnBackendDestroyDescriptor> owner_;
};

// --- the graphs ---

struct Problem {
  bool forward, causal;
  DType dtype;
  int64_t B, T, S, D;
  auto operator<=>(const Problem&) const = default;
};

// Names of the tensors of which there is memory, and of numbers given by value.
using Uid = int64_t;
constexpr Uid kVirtual = 0, kQ = 1, kK = 2, kV = 3, kY = 4, kLse = 5, kDy = 6, kDelta = 7, kDq = 8,
              kDk = 9, kDv = 10, kScale = 11, kHidden = 12, kOne = 13, kFirstFree = 14;

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

  // dv = p^T dy; ds = p (dy v^T - delta) scale; dk = ds^T q; dq = ds k. cuDNN knows just this form:
  // with a product by one, and with k transposed twice.
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
    matmul(ds, reshape(kt_, matrix(p_.S, p_.D, half_)), matrix(p_.T, p_.D, half_, kDq));
  }

  // q k^T scale
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
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes, CUDNN_TYPE_INT64);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, strides, CUDNN_TYPE_INT64);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid == kVirtual ? next_++ : uid);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, uid == kVirtual);
    return keep(d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value));
  }
  // One for each batch element, which is a head to cuDNN; by_columns: so it lies in memory.
  Raw matrix(int64_t rows, int64_t columns, cudnnDataType_t type = CUDNN_DATA_FLOAT,
             Uid uid = kVirtual, bool by_columns = false) {
    const int64_t size = rows * columns;
    return tensor({1, p_.B, rows, columns},
                  {p_.B * size, size, by_columns ? 1 : columns, by_columns ? rows : 1}, type, uid);
  }
  Raw column(Uid uid = kVirtual) { return matrix(p_.T, 1, CUDNN_DATA_FLOAT, uid); }
  Raw number(Uid uid) { return tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, uid, true); }

  // The last part is the result.
  using Parts = std::vector<std::pair<Attribute, Raw>>;
  Raw operation(cudnnBackendDescriptorType_t type, const Parts& parts) {
    Descriptor d(type);
    for (const auto& [name, part] : parts) d.set(name, part);
    operations_.push_back(keep(d));
    return parts.back().second;
  }
  Raw matmul(Raw a, Raw b, Raw c) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    return operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                     {{CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(how)},
                      {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                      {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                      {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}});
  }
  // Over the columns.
  Raw reduce(cudnnReduceTensorOp_t op, Raw x) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    return operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                     {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(how)},
                      {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
                      {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, column()}});
  }
  Raw reshape(Raw x, Raw y) {
    const Parts parts = {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x},
                         {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y}};
    return operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, parts);
  }
  Raw transposed(Raw x) { return reshape(x, matrix(p_.S, p_.T, half_, kVirtual, true)); }

  // Without y: one number for each score.
  Raw pointwise(cudnnPointwiseMode_t mode, const std::vector<Raw>& x, Raw y = nullptr,
                cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    constexpr Attribute kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    Parts parts = {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(how)}};
    for (size_t i = 0; i < x.size(); ++i) parts.emplace_back(kInputs[i], x[i]);
    parts.emplace_back(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y ? y : matrix(p_.T, p_.S));
    return operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, parts);
  }

  const Problem p_;
  const cudnnDataType_t half_;
  Uid next_ = kFirstFree;
  Raw q_ = nullptr, kt_ = nullptr, scale_ = nullptr;
  std::vector<Descriptor> all_;
  std::vector<Raw> operations_;
};

// --- plans ---

// How one attention is computed; no parts: not by cuDNN.
struct Plan {
  std::vector<Descriptor> parts;  // the last is the plan
  int64_t workspace = 0;
};

// The first of cuDNN's proposals, which are in the order of their expected time, that it can make.
Plan make_plan(cudnnHandle_t handle, const Problem& p) {
  Graph graph(p);
  Descriptor whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.operations(), CUDNN_TYPE_BACKEND_DESCRIPTOR);
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole.finish().raw());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A).finish();

  std::vector<Descriptor> configs;
  Raw raws[8];
  for (Raw& raw : raws) raw = configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw();
  const size_t count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, raws, std::ssize(raws));
  for (Descriptor& config : std::span(configs).first(count)) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.raw());
    if (cudnnBackendFinalize(plan.raw()) != CUDNN_STATUS_SUCCESS) continue;
    int64_t workspace = 0;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &workspace, 1);
    if (workspace > kMaxWorkspace) continue;
    Plan made{graph.release(), workspace};
    for (Descriptor* part : {&whole, &config, &plan}) made.parts.push_back(std::move(*part));
    return made;
  }
  return {};
}

// Kept per thread, so that a lookup needs no lock; stays empty where making it throws.
Plan& plan_of(cudnnHandle_t handle, int device, const Problem& p) {
  thread_local std::map<std::tuple<int, Problem>, Plan> plans;
  const std::tuple key(device, p);
  const auto known = plans.find(key);
  if (known != plans.end()) return known->second;
  if (plans.size() >= kMaxPlans) plans.clear();
  Plan& plan = plans[key];
  plan = make_plan(handle, p);
  return plan;
}

bool run(const Problem& p, int device, double scale, std::vector<Uid> uids,
         std::vector<void*> data) try {
  for (const void* at : data) {
    if (reinterpret_cast<uintptr_t>(at) % kAlignment != 0) return false;
  }
  const Launch on(device);
  // The first use loads code and may allocate; the work itself is captured.
  const taper::cuda::RelaxedCapture relaxed;
  const cudnnHandle_t handle = taper::cuda::cudnn_handle(device);
  Plan& plan = plan_of(handle, device, p);
  if (plan.parts.empty()) return false;

  const Scratch workspace(size_t(plan.workspace), device);
  const Scratch delta(size_t(p.B * p.T) * sizeof(float), device);
  float numbers[] = {float(scale), -std::numeric_limits<float>::infinity(), 1};
  const Uid more[] = {kScale, kHidden, kOne, kDelta};
  void* const more_data[] = {&numbers[0], &numbers[1], &numbers[2], delta.data()};
  uids.insert(uids.end(), std::begin(more), std::end(more));
  data.insert(data.end(), std::begin(more_data), std::end(more_data));
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids, CUDNN_TYPE_INT64);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data, CUDNN_TYPE_VOID_PTR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector{workspace.data()}, CUDNN_TYPE_VOID_PTR);
  const auto status = cudnnBackendExecute(handle, plan.parts.back().raw(), pack.finish().raw());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) plan = {};
  if (plan.parts.empty()) return false;
  taper::cuda::check_cudnn(status, "cudnnBackendExecute");
  on.check("scaled_dot_product_attention");
  return true;
} catch (const Refused&) {
  return false;
}
