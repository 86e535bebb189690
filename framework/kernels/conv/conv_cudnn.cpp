// Convolutions by cuDNN in channels-last memory. Only deterministic algorithms are used, chosen
// once for each shape. float32 multiplies in float32 (or in TF32 if the user allows it), and half
// types accumulate in float32. cuDNN supports fewer convolutions with three spatial dimensions in
// channels-last memory; the others are computed from copies with channels second. float64 and
// everything that cuDNN rejects is computed by matrix products.
#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/cuda/cudnn_handle.h"
#include "framework/cuda/precision.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/plans.h"
#include "framework/kernels/conv/conv.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::check_cudnn;
using taper::cuda::Cudnn;
using taper::cuda::cudnn;
using taper::cuda::CudnnOwner;
using taper::cuda::Launch;
using taper::cuda::Scratch;

constexpr size_t kMaxWorkspace = size_t(1) << 30;

template <class Owner, class Raw> Owner make(cudnnStatus_t (*create)(Raw*), const char* call) {
  Raw raw = nullptr;
  check_cudnn(create(&raw), call);
  return Owner(raw);
}

using TensorLayout = CudnnOwner<cudnnTensorDescriptor_t, &Cudnn::DestroyTensorDescriptor>;
using FilterLayout = CudnnOwner<cudnnFilterDescriptor_t, &Cudnn::DestroyFilterDescriptor>;
using Convolution = CudnnOwner<cudnnConvolutionDescriptor_t, &Cudnn::DestroyConvolutionDescriptor>;

// The plan for a convolution. `supported` is false if cuDNN cannot compute it in this format.
struct Plan {
  cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC;  // or NCHW: channels second
  TensorLayout x, y;
  FilterLayout weight;
  Convolution convolution;
  int algorithm = 0;
  size_t workspace = 0;
  bool supported = false;
};

// Returns a number of each spatial dimension, behind those in `first`.
std::vector<int> with_spatial(std::vector<int> first, const ConvSizes& s,
                              int64_t ConvAxis::*number) {
  if (s.is_3d()) first.push_back(int(s.d.*number));
  first.push_back(int(s.h.*number));
  first.push_back(int(s.w.*number));
  return first;
}

// Describes a dense tensor of sizes [N, C, ...].
cudnnStatus_t set_tensor(const TensorLayout& layout, cudnnTensorFormat_t format,
                         cudnnDataType_t type, const std::vector<int>& sizes) {
  const int rank = int(sizes.size());
  std::vector<int> strides(sizes.size(), 1);
  int step = 1;
  const auto add_outside = [&](int d) {
    strides[size_t(d)] = step;
    step *= sizes[size_t(d)];
  };
  const bool channels_last = format == CUDNN_TENSOR_NHWC;
  if (channels_last) add_outside(1);
  for (int d = rank - 1; d >= 0; --d) {
    if (d != 1 || !channels_last) add_outside(d);
  }
  return cudnn().SetTensorNdDescriptor(layout.get(), type, rank, sizes.data(), strides.data());
}

// Returns false if cuDNN cannot represent the sizes.
bool describe(Plan& plan, const ConvSizes& s, DType dtype) {
  const auto type = dtype == kFloat16    ? CUDNN_DATA_HALF
                    : dtype == kBFloat16 ? CUDNN_DATA_BFLOAT16
                                         : CUDNN_DATA_FLOAT;
  const auto make_tensor = [] {
    return make<TensorLayout>(cudnn().CreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  };
  plan.x = make_tensor();
  plan.y = make_tensor();
  plan.weight = make<FilterLayout>(cudnn().CreateFilterDescriptor, "cudnnCreateFilterDescriptor");
  plan.convolution =
      make<Convolution>(cudnn().CreateConvolutionDescriptor, "cudnnCreateConvolutionDescriptor");
  const auto spatial = [&](int64_t ConvAxis::*number) { return with_spatial({}, s, number); };
  const auto padding = spatial(&ConvAxis::padding), stride = spatial(&ConvAxis::stride);
  const auto dilation = spatial(&ConvAxis::dilation);
  const auto weight = with_spatial({int(s.o), int(s.c / s.groups)}, s, &ConvAxis::kernel);
  const cudnnStatus_t all[] = {
      set_tensor(plan.x, plan.format, type, with_spatial({int(s.n), int(s.c)}, s, &ConvAxis::in)),
      set_tensor(plan.y, plan.format, type, with_spatial({int(s.n), int(s.o)}, s, &ConvAxis::out)),
      cudnn().SetFilterNdDescriptor(plan.weight.get(), type, plan.format, int(weight.size()),
                                    weight.data()),
      cudnn().SetConvolutionNdDescriptor(plan.convolution.get(), int(padding.size()),
                                         padding.data(), stride.data(), dilation.data(),
                                         CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      cudnn().SetConvolutionGroupCount(plan.convolution.get(), int(s.groups)),
      cudnn().SetConvolutionMathType(plan.convolution.get(), dtype == kFloat32 && !allows_tf32()
                                                                 ? CUDNN_FMA_MATH
                                                                 : CUDNN_TENSOR_OP_MATH)};
  return std::all_of(std::begin(all), std::end(all),
                     [](cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; });
}

// Selects the first usable algorithm from cuDNN's proposals, which are ordered by expected time.
template <class Algorithm, class F> void choose(Plan& plan, F propose) {
  constexpr int kMost = 16;
  Algorithm found[kMost];
  int count = 0;
  if (propose(kMost, &count, found) != CUDNN_STATUS_SUCCESS) return;
  for (const Algorithm& a : std::span(found, size_t(count))) {
    const bool good = a.status == CUDNN_STATUS_SUCCESS && a.determinism == CUDNN_DETERMINISTIC &&
                      a.memory <= kMaxWorkspace;
    if (!good) continue;
    plan.algorithm = int(a.algo);
    plan.workspace = a.memory;
    plan.supported = true;
    return;
  }
}

Plan make_plan(cudnnHandle_t handle, ConvPass pass, const ConvSizes& s, DType dtype,
               cudnnTensorFormat_t format) {
  Plan plan;
  plan.format = format;
  if (!describe(plan, s, dtype)) return plan;
  const auto x = plan.x.get(), y = plan.y.get();
  const auto weight = plan.weight.get();
  const auto convolution = plan.convolution.get();
  switch (pass) {
    case ConvPass::kY:
      choose<cudnnConvolutionFwdAlgoPerf_t>(plan, [&](int most, int* count, auto* found) {
        return cudnn().GetConvolutionForwardAlgorithm_v7(handle, x, weight, convolution, y, most,
                                                         count, found);
      });
      break;
    case ConvPass::kDx:
      choose<cudnnConvolutionBwdDataAlgoPerf_t>(plan, [&](int most, int* count, auto* found) {
        return cudnn().GetConvolutionBackwardDataAlgorithm_v7(handle, weight, y, convolution, x,
                                                              most, count, found);
      });
      break;
    case ConvPass::kDWeight:
      choose<cudnnConvolutionBwdFilterAlgoPerf_t>(plan, [&](int most, int* count, auto* found) {
        return cudnn().GetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, convolution, weight,
                                                                most, count, found);
      });
  }
  return plan;
}

cudnnStatus_t execute(cudnnHandle_t handle, ConvPass pass, const Plan& plan, const ConvTensors& t,
                      void* workspace) {
  const float one = 1, zero = 0;
  const auto x = plan.x.get(), y = plan.y.get();
  const auto weight = plan.weight.get();
  const auto convolution = plan.convolution.get();
  void *px = t.x.data_ptr(), *pw = t.weight.data_ptr(), *py = t.y.data_ptr();
  switch (pass) {
    case ConvPass::kY:
      return cudnn().ConvolutionForward(handle, &one, x, px, weight, pw, convolution,
                                        cudnnConvolutionFwdAlgo_t(plan.algorithm), workspace,
                                        plan.workspace, &zero, y, py);
    case ConvPass::kDx:
      return cudnn().ConvolutionBackwardData(handle, &one, weight, pw, y, py, convolution,
                                             cudnnConvolutionBwdDataAlgo_t(plan.algorithm),
                                             workspace, plan.workspace, &zero, x, px);
    default:
      return cudnn().ConvolutionBackwardFilter(handle, &one, x, px, y, py, convolution,
                                               cudnnConvolutionBwdFilterAlgo_t(plan.algorithm),
                                               workspace, plan.workspace, &zero, weight, pw);
  }
}

// Returns a view of [N, ..., C] as [N, C, ...].
Tensor channels_second(const Tensor& x) {
  const auto moved = [](Shape s) {
    std::rotate(s.begin() + 1, s.end() - 1, s.end());
    return s;
  };
  return view_as(x, moved(x.shape()), moved(x.strides()), x.storage_offset());
}

cudnnStatus_t execute_channels_second(cudnnHandle_t handle, ConvPass pass, const Plan& plan,
                                      const ConvTensors& t, void* workspace) {
  const bool is_y = pass == ConvPass::kY, is_dx = pass == ConvPass::kDx;
  const Tensor& out = is_y ? t.y : is_dx ? t.x : t.weight;
  const auto copied = [&](const Tensor& x) {
    const Tensor view = channels_second(x);
    return &x == &out ? Tensor::make(view.shape(), x.dtype(), x.device()) : dense(view);
  };
  const ConvTensors copies{copied(t.x), copied(t.weight), copied(t.y)};
  const cudnnStatus_t status = execute(handle, pass, plan, copies, workspace);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  copy_into(channels_second(out), is_y ? copies.y : is_dx ? copies.x : copies.weight);
  return status;
}

// Returns whether the size fits in an int, which cuDNN uses for sizes.
bool fits(const Tensor& x) { return x.numel() <= std::numeric_limits<int>::max(); }
bool fits(const ConvAxis& a) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  return std::max({a.stride, a.padding, a.dilation}) <= most;
}
bool fits(const ConvSizes& s, const ConvTensors& t) {
  return fits(t.x) && fits(t.weight) && fits(t.y) && fits(s.d) && fits(s.h) && fits(s.w);
}

}  // namespace

bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  if (t.x.dtype() == kFloat64) return false;  // not supported in channels-last memory
  if (!fits(s, t)) return false;
  const Launch on(t.x);
  // The first use loads code and may allocate memory; only the launches must be captured.
  const taper::cuda::RelaxedCaptureGuard relaxed;
  const cudnnHandle_t handle = taper::cuda::cudnn_handle(on.device);
  const auto plan_in = [&](cudnnTensorFormat_t format) {
    return make_plan(handle, pass, s, t.x.dtype(), format);
  };
  // Returns the plan to use if `plan` is not supported.
  const auto next_plan = [&](const Plan& plan) {
    const bool is_left = s.is_3d() && plan.format == CUDNN_TENSOR_NHWC;
    return is_left ? plan_in(CUDNN_TENSOR_NCHW) : Plan();
  };
  Plan& plan = plan_of(std::tuple(on.device, pass, t.x.dtype(), allows_tf32(), s), [&] {
    Plan first = plan_in(CUDNN_TENSOR_NHWC);
    return first.supported ? std::move(first) : next_plan(first);
  });
  for (; plan.supported; plan = next_plan(plan)) {
    const Scratch workspace(plan.workspace, on.device);
    const auto run = plan.format == CUDNN_TENSOR_NHWC ? execute : execute_channels_second;
    const cudnnStatus_t status = run(handle, pass, plan, t, workspace.data());
    // The heuristics sometimes propose an algorithm that is then rejected, before anything is
    // launched.
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) continue;
    check_cudnn(status, "cudnnConvolution");
    on.check("conv");
    if (t.bias.defined() || t.relu) add_bias(t);
    return true;
  }
  return false;
}

}  // namespace taper::v0::kernels::cuda
