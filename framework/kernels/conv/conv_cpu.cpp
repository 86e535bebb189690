// Convolutions of float32 by oneDNN, whose versions 2.6 and 3.x have different interfaces. The
// batch is cut into slices by its size alone, and each slice is computed on one thread. Gradients
// of weights are sums over the slices in order. Therefore the bits do not depend on the number of
// threads.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include "framework/kernels/common/one_thread_cpu.h"
#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/common/plans.h"
#include "framework/kernels/conv/conv_kernels.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {

template struct ConvKernels<cpu::Backend>;

namespace cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr int64_t kMaxSlices = 32;
// Limit on the number of floats in the weight gradients of all slices together.
constexpr int64_t kMaxPartials = int64_t(1) << 24;
// Number of multiply-adds for which waking a thread pays off.
constexpr int64_t kThreadWork = int64_t(1) << 18;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// One convolution of a slice. It runs on any thread with scratch memory of the caller.
struct Plan {
  dnnl::primitive primitive;
  memory::desc x, weight, bias, y, scratchpad;
};

// Creates a primitive's description with the interface of oneDNN 3 or of oneDNN 2. For gradients,
// `hint` is the description of the forward pass.
template <class Primitive, class... Args, class... Hint>
typename Primitive::primitive_desc describe(std::tuple<Args...> args, const Hint&... hint) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return std::apply(
      [&](const Args&... a) -> typename Primitive::primitive_desc {
#if DNNL_VERSION_MAJOR >= 3
        return {engine(), a..., hint..., attr};
#else
        return {typename Primitive::desc(a...), attr, engine(), hint...};
#endif
      },
      args);
}

// Returns a number of each spatial dimension, behind those in `first`.
Dims with_spatial(Dims first, const ConvSizes& s, int64_t ConvAxis::*number) {
  if (s.is_3d()) first.push_back(s.d.*number);
  first.push_back(s.h.*number);
  first.push_back(s.w.*number);
  return first;
}

Dims weight_dims(const ConvSizes& s) {
  if (s.groups == 1) return with_spatial({s.o, s.c}, s, &ConvAxis::kernel);
  return with_spatial({s.groups, s.o / s.groups, s.c / s.groups}, s, &ConvAxis::kernel);
}

// Returns the description of the weight in the layout of ConvTensors.
memory::desc given_weight(const ConvSizes& s) {
  const int64_t c = s.c / s.groups, kw = s.w.kernel * c, kh = s.h.kernel * kw;
  Dims strides = {s.depth(), 1};
  if (s.is_3d()) strides.push_back(kh);
  strides.insert(strides.end(), {kw, c});
  if (s.groups > 1) strides.insert(strides.begin(), s.o / s.groups * s.depth());
  return {weight_dims(s), memory::data_type::f32, strides};
}

// If no layout of the weight is requested, oneDNN chooses it.
Plan make_plan(ConvPass pass, const ConvSizes& s,
               const std::optional<memory::desc>& weight_layout) {
  using Tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  const Tag channels_last = s.is_3d() ? Tag::ndhwc : Tag::nhwc;
  const memory::desc x(with_spatial({s.n, s.c}, s, &ConvAxis::in), f32, channels_last);
  const memory::desc y(with_spatial({s.n, s.o}, s, &ConvAxis::out), f32, channels_last);
  const memory::desc bias({s.o}, f32, Tag::x);
  const memory::desc weight = weight_layout.value_or(memory::desc(weight_dims(s), f32, Tag::any));
  const Dims strides = with_spatial({}, s, &ConvAxis::stride);
  const Dims padding = with_spatial({}, s, &ConvAxis::padding);
  Dims dilation = with_spatial({}, s, &ConvAxis::dilation);
  for (int64_t& d : dilation) --d;  // oneDNN counts the elements between two elements of a window
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto forward = describe<dnnl::convolution_forward>(
      std::tuple(dnnl::prop_kind::forward_training, direct, x, weight, bias, y, strides, dilation,
                 padding, padding));
  const auto plan = [&](const dnnl::primitive& primitive, const auto& described,
                        const memory::desc& chosen) {
    return Plan{primitive, x, chosen, bias, y, described.scratchpad_desc()};
  };
  if (pass == ConvPass::kY) {
    return plan(dnnl::convolution_forward(forward), forward, forward.weights_desc());
  }
  const auto shapes = std::tuple(direct, x, weight, y, strides, dilation, padding, padding);
  if (pass == ConvPass::kDx) {
    const auto data = describe<dnnl::convolution_backward_data>(shapes, forward);
    return plan(dnnl::convolution_backward_data(data), data, data.weights_desc());
  }
  const auto weights = describe<dnnl::convolution_backward_weights>(shapes, forward);
  return plan(dnnl::convolution_backward_weights(weights), weights, weights.diff_weights_desc());
}

// The plans for full slices and for the last, smaller one, with the same layout of the weight.
struct Plans {
  Plan whole, last;
};

// Returns nullopt if oneDNN does not support this convolution.
std::optional<Plans> make_plans(ConvPass pass, ConvSizes s, int64_t per_slice) try {
  const OneThreadGuard one;
  const int64_t last = (s.n - 1) % per_slice + 1;
  s.n = per_slice;
  const Plan whole = make_plan(pass, s, {});
  s.n = last;
  return Plans{whole, make_plan(pass, s, whole.weight)};
} catch (const dnnl::error&) {
  return {};
}

void reorder(const memory::desc& from, void* x, const memory::desc& to, void* y) {
  const OneThreadGuard one;
  dnnl::stream stream(engine());
  memory source(from, engine(), x), target(to, engine(), y);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

void execute(ConvPass pass, const Plan& plan, float* x, float* weight, float* bias, float* y) {
  const OneThreadGuard one;
  dnnl::stream stream(engine());
  const Tensor scratch = Tensor::make({int64_t(plan.scratchpad.get_size())}, kUInt8, Device());
  const bool dx = pass == ConvPass::kDx, dweight = pass == ConvPass::kDWeight;
  plan.primitive.execute(
      stream,
      {{dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(plan.x, engine(), x)},
       {dweight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, memory(plan.weight, engine(), weight)},
       {DNNL_ARG_BIAS, memory(plan.bias, engine(), bias)},
       {pass == ConvPass::kY ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, memory(plan.y, engine(), y)},
       {DNNL_ARG_SCRATCHPAD, memory(plan.scratchpad, engine(), scratch.data_ptr())}});
  stream.wait();
}

// Sums `count` runs of n floats into the first run.
void sum_runs(float* x, int64_t n, int64_t count) {
  parallel_for(n, host::grain_of(count), [&](int64_t begin, int64_t end) {
    for (int64_t k = 1; k < count; ++k) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) x[i] += x[k * n + i];
    }
  });
}

// Returns whether oneDNN would write beyond the tensor. oneDNN 2.6 computes 1x1 kernels with a
// stride in whole vectors of channels. If the last vector is not full, it writes beyond each pixel,
// and after the last pixel beyond the tensor.
bool spills(const ConvSizes& s) {
  const bool is_strided = std::max({s.d.stride, s.h.stride, s.w.stride}) > 1;
  return s.positions() == 1 && is_strided && (s.c % 16 != 0 || s.o % 16 != 0);
}

}  // namespace

bool conv(ConvPass pass, const ConvSizes& s, const ConvTensors& t) {
  if (t.x.dtype() != kFloat32 || spills(s)) return false;
  const bool dweight = pass == ConvPass::kDWeight;
  const int64_t most =
      dweight ? std::clamp<int64_t>(kMaxPartials / t.weight.numel(), 1, kMaxSlices) : kMaxSlices;
  const int64_t per_slice = (s.n + most - 1) / most, slices = (s.n + per_slice - 1) / per_slice;
  auto& plans = plan_of(std::pair(pass, s), [&] { return make_plans(pass, s, per_slice); });
  if (!plans) return false;

  const memory::desc& layout = plans->whole.weight;
  const int64_t weight_size = int64_t(layout.get_size() / sizeof(float));
  const Tensor weights = Tensor::make({weight_size * (dweight ? slices : 1)}, kFloat32, Device());
  float* const weight = weights.data<float>();
  void* const given = t.weight.data_ptr();
  if (!dweight) reorder(given_weight(s), given, layout, weight);
  Tensor bias = t.bias;  // always present, so that one plan serves both cases
  if (!bias.defined()) kernels::fill(bias = Tensor::make({s.o}, kFloat32, Device()), 0);
  const int64_t x_slice = per_slice * s.inputs() * s.c, y_slice = per_slice * s.pixels() * s.o;
  const int64_t work = s.n * s.pixels() * s.o * s.depth();
  host::parallel_tasks(
      slices, host::threads_for(std::min(slices, work / kThreadWork), 1), [&](int64_t i) {
        execute(pass, i + 1 < slices ? plans->whole : plans->last,
                pointer<float>(t.x) + i * x_slice, weight + (dweight ? i * weight_size : 0),
                bias.data<float>(), pointer<float>(t.y) + i * y_slice);
      });
  if (!dweight) return true;
  sum_runs(weight, weight_size, slices);
  reorder(layout, weight, given_weight(s), given);
  return true;
}

}  // namespace cpu
}  // namespace taper::v0::kernels
