// Convolutions of float32 by oneDNN, whose versions 2.6 and 3.x have different interfaces. The
// sizes alone determine into which parts the batch is cut, and each part is computed on one thread.
// Gradients of weights are sums over the parts in order. Therefore the bits do not depend on the
// number of threads.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

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

constexpr int64_t kMaxParts = 32;
// Limit on the number of floats in the weight gradients of all parts together.
constexpr int64_t kMaxPartials = int64_t(1) << 24;
// Number of multiply-adds for which waking a thread pays off.
constexpr int64_t kThreadWork = int64_t(1) << 18;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// The convolution of a part. It runs on any thread with scratch memory of the caller.
struct Plan {
  dnnl::primitive primitive;
  memory::desc x, weight, bias, y, scratchpad;
};

// Creates a primitive's description with the interface of oneDNN 3 or of oneDNN 2. For gradients,
// `hint` is the description of the forward pass. If `adds`, the primitive adds to its result.
template <class Primitive, class... Args, class... Hint>
typename Primitive::primitive_desc describe(bool adds, std::tuple<Args...> args,
                                            const Hint&... hint) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (adds) after.append_sum();
  attr.set_post_ops(after);
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

// One task of a convolution: some images, or some planes of an image with three dimensions.
struct Part {
  ConvSizes sizes;
  int64_t end_padding;  // behind the last plane; sizes.d.padding is the padding before the first
  int64_t x, y;         // offsets of the first elements
  // The gradient of x is computed for neighboring planes, too. These elements of it belong to the
  // part; if their number is 0, all do.
  int64_t kept_from = 0, kept = 0;
  size_t plan = 0;
  bool adds = false;  // adds to y instead of writing it
};

std::vector<Part> parts_of_images(const ConvSizes& s, int64_t most) {
  const int64_t images = (s.n + most - 1) / most;
  std::vector<Part> parts;
  for (int64_t first = 0; first < s.n; first += images) {
    Part part{s, s.d.padding, first * s.inputs() * s.c, first * s.pixels() * s.o};
    part.sizes.n = std::min(images, s.n - first);
    parts.push_back(part);
  }
  return parts;
}

// Returns the distance between the first and the last element of a window.
int64_t reach_of(const ConvAxis& a) { return a.dilation * (a.kernel - 1); }

// Returns the part that computes planes [begin, end) of y or, in a backward pass, the contribution
// of these planes to a gradient.
Part part_of_outputs(const ConvSizes& s, int64_t image, int64_t begin, int64_t end) {
  const ConvAxis& d = s.d;
  const int64_t first = begin * d.stride - d.padding;
  const int64_t last = (end - 1) * d.stride - d.padding + reach_of(d) + 1;
  const int64_t from = std::max<int64_t>(first, 0), to = std::min(last, d.in);
  Part part{s, last - to, (image * d.in + from) * (s.h.in * s.w.in * s.c),
            (image * d.out + begin) * (s.h.out * s.w.out * s.o)};
  part.sizes.n = 1;
  part.sizes.d = {to - from, d.kernel, end - begin, d.stride, from - first, d.dilation};
  return part;
}

// Returns the part that computes planes [begin, end) of the gradient of x.
Part part_of_inputs(const ConvSizes& s, int64_t image, int64_t begin, int64_t end) {
  const ConvAxis& d = s.d;
  const int64_t before = std::max<int64_t>(begin + d.padding - reach_of(d), 0);
  Part part = part_of_outputs(s, image, (before + d.stride - 1) / d.stride,
                              std::min(d.out, (end - 1 + d.padding) / d.stride + 1));
  const int64_t plane = s.h.in * s.w.in * s.c, from = part.x / plane - image * d.in;
  // No window reads the planes behind the last window, whose gradient is 0.
  part.sizes.d.in = std::max(part.sizes.d.in, end - from);
  part.kept_from = (begin - from) * plane;
  part.kept = (end - begin) * plane;
  return part;
}

// Cuts the images of a small batch with three dimensions into planes. Gradients of x are cut less
// often, because neighboring parts compute the same planes of y again.
std::vector<Part> make_parts(ConvPass pass, const ConvSizes& s, int64_t most) {
  const bool dx = pass == ConvPass::kDx;
  const int64_t reach = reach_of(s.d), planes = dx ? s.d.in : s.d.out;
  const int64_t least = dx ? std::max<int64_t>(4, 4 * reach) : 2;
  const int64_t count = std::min(most / s.n, planes / least);
  // Every window must read a plane, and every plane but the last ones must be read by a window.
  const bool is_regular = s.d.padding <= reach && s.d.stride <= reach + 1;
  if (!s.is_3d() || count <= 1 || !is_regular) return parts_of_images(s, most);
  std::vector<Part> parts;
  for (int64_t i = 0; i < s.n * count; ++i) {
    const int64_t image = i / count, begin = i % count * planes / count;
    const int64_t end = (i % count + 1) * planes / count;
    parts.push_back((dx ? part_of_inputs : part_of_outputs)(s, image, begin, end));
  }
  return parts;
}

// If no layout of the weight is requested, oneDNN chooses it.
Plan make_plan(ConvPass pass, const Part& part, const std::optional<memory::desc>& weight_layout) {
  const ConvSizes& s = part.sizes;
  using Tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  const Tag channels_last = s.is_3d() ? Tag::ndhwc : Tag::nhwc;
  const memory::desc x(with_spatial({s.n, s.c}, s, &ConvAxis::in), f32, channels_last);
  const memory::desc y(with_spatial({s.n, s.o}, s, &ConvAxis::out), f32, channels_last);
  const memory::desc bias({s.o}, f32, Tag::x);
  const memory::desc weight = weight_layout.value_or(memory::desc(weight_dims(s), f32, Tag::any));
  const Dims strides = with_spatial({}, s, &ConvAxis::stride);
  const Dims padding = with_spatial({}, s, &ConvAxis::padding);
  Dims end_padding = padding;
  if (s.is_3d()) end_padding[0] = part.end_padding;
  Dims dilation = with_spatial({}, s, &ConvAxis::dilation);
  for (int64_t& d : dilation) --d;  // oneDNN counts the elements between two elements of a window
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto forward = describe<dnnl::convolution_forward>(
      part.adds, std::tuple(dnnl::prop_kind::forward_training, direct, x, weight, bias, y, strides,
                            dilation, padding, end_padding));
  const auto plan = [&](const dnnl::primitive& primitive, const auto& described,
                        const memory::desc& chosen) {
    return Plan{primitive, x, chosen, bias, y, described.scratchpad_desc()};
  };
  if (pass == ConvPass::kY) {
    return plan(dnnl::convolution_forward(forward), forward, forward.weights_desc());
  }
  const auto shapes = std::tuple(direct, x, weight, y, strides, dilation, padding, end_padding);
  if (pass == ConvPass::kDx) {
    const auto data = describe<dnnl::convolution_backward_data>(false, shapes, forward);
    return plan(dnnl::convolution_backward_data(data), data, data.weights_desc());
  }
  const auto weights = describe<dnnl::convolution_backward_weights>(false, shapes, forward);
  return plan(dnnl::convolution_backward_weights(weights), weights, weights.diff_weights_desc());
}

// The parts of a convolution and their plans, which have the same layout of the weight.
struct Plans {
  std::vector<Part> parts;
  std::vector<Plan> plans;
};

// Returns nullopt if oneDNN does not support this convolution.
std::optional<Plans> make_plans(ConvPass pass, const ConvSizes& s, int64_t most) try {
  const OneThreadGuard one;
  Plans out{make_parts(pass, s, most), {}};
  std::vector<const Part*> planned;  // one part for each plan
  for (Part& part : out.parts) {
    const auto is_equal = [&](const Part* other) {
      return std::tie(other->sizes, other->end_padding) == std::tie(part.sizes, part.end_padding);
    };
    part.plan = size_t(std::ranges::find_if(planned, is_equal) - planned.begin());
    if (part.plan < planned.size()) continue;
    const auto layout = planned.empty() ? std::nullopt : std::optional(out.plans[0].weight);
    out.plans.push_back(make_plan(pass, part, layout));
    planned.push_back(&part);
  }
  return out;
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

// Computes the gradient of x for a part. Other parts write the planes beside those that it keeps.
void execute_dx(const Part& part, const Plan& plan, float* x, float* weight, float* bias,
                float* y) {
  if (part.kept == 0) return execute(ConvPass::kDx, plan, x, weight, bias, y);
  const int64_t size = int64_t(plan.x.get_size() / sizeof(float));
  const Tensor all = Tensor::make({size}, kFloat32, Device());
  execute(ConvPass::kDx, plan, all.data<float>(), weight, bias, y);
  std::copy_n(all.data<float>() + part.kept_from, part.kept, x + part.kept_from);
}

// Returns the bias, which is always present, so that one plan serves both cases. To be called once
// the other memory of the convolution exists: the estimate of a run's memory (memory_probe.h)
// measures it at this fill.
Tensor bias_or_zeros(const ConvSizes& s, const Tensor& bias) {
  if (bias.defined()) return bias;
  const Tensor zeros = Tensor::make({s.o}, kFloat32, Device());
  kernels::fill(zeros, 0);
  return zeros;
}

// --- depthwise convolutions of volumes ---

// Returns the plans of a convolution of one plane that writes y, and of one that adds to y.
std::optional<Plans> make_plane_plans(const ConvSizes& s) try {
  const OneThreadGuard one;
  Part part{s, 0, 0, 0};
  part.sizes.n = 1;
  part.sizes.d = kNoConvAxis;
  Plans out{{}, {make_plan(ConvPass::kY, part, {})}};
  part.adds = true;
  out.plans.push_back(make_plan(ConvPass::kY, part, out.plans[0].weight));
  return out;
} catch (const dnnl::error&) {
  return {};
}

// Returns the weights of all planes of the kernel in the layout of a plan.
Tensor weights_of_planes(const ConvSizes& s, const Tensor& weight, const memory::desc& layout) {
  const int64_t area = s.h.kernel * s.w.kernel, size = int64_t(layout.get_size() / sizeof(float));
  const Tensor out = Tensor::make({s.d.kernel, size}, kFloat32, Device());
  const memory::desc given({s.groups, 1, 1, s.h.kernel, s.w.kernel}, memory::data_type::f32,
                           {s.depth(), s.depth(), area, s.w.kernel, 1});
  for (int64_t k = 0; k < s.d.kernel; ++k) {
    reorder(given, pointer<float>(weight) + k * area, layout, pointer<float>(out) + k * size);
  }
  return out;
}

// Sums convolutions of planes, because oneDNN 2.6 computes volumes of separate channels by matrix
// products, which takes three times as long. Returns false if oneDNN does not support them, or if a
// window may read no plane.
bool conv_depthwise(const ConvSizes& s, const ConvTensors& t) {
  const bool is_depthwise = s.is_3d() && s.groups > 1 && s.groups == s.c && s.groups == s.o;
  if (!is_depthwise || s.d.padding > reach_of(s.d) || s.d.dilation > s.d.in) return false;
  const auto key = std::pair(ConvPass::kY, s);
  const auto& planned = plan_of(key, [&] { return make_plane_plans(s); });
  if (!planned) return false;
  const Tensor weights = weights_of_planes(s, t.weight, planned->plans[0].weight);
  const Tensor bias = bias_or_zeros(s, t.bias), zeros = bias_or_zeros(s, {});
  const int64_t plane_of_x = s.h.in * s.w.in * s.c, plane_of_y = s.h.out * s.w.out * s.o;
  const int64_t tasks = s.n * s.d.out, work = tasks * plane_of_y * s.depth();
  const int threads = host::threads_for(std::min(tasks, work / kThreadWork), 1);
  host::parallel_tasks(tasks, threads, [&](int64_t task) {
    const int64_t first = task % s.d.out * s.d.stride - s.d.padding;
    bool adds = false;
    for (int64_t k = 0; k < s.d.kernel; ++k) {
      const int64_t plane = first + k * s.d.dilation;
      if (plane < 0 || plane >= s.d.in) continue;
      execute(ConvPass::kY, planned->plans[adds],
              pointer<float>(t.x) + (task / s.d.out * s.d.in + plane) * plane_of_x,
              pointer<float>(weights) + k * weights.size(1), pointer<float>(adds ? zeros : bias),
              pointer<float>(t.y) + task * plane_of_y);
      adds = true;
    }
  });
  return true;
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
  if (pass == ConvPass::kY && conv_depthwise(s, t)) return true;
  const bool dweight = pass == ConvPass::kDWeight;
  const int64_t most =
      dweight ? std::clamp<int64_t>(kMaxPartials / t.weight.numel(), 1, kMaxParts) : kMaxParts;
  const std::pair key(pass, s);
  const auto& planned = plan_of(key, [&] { return make_plans(pass, s, most); });
  if (!planned) return false;

  const std::vector<Part>& parts = planned->parts;
  const int64_t count = std::ssize(parts);
  const memory::desc& layout = planned->plans[0].weight;
  const int64_t weight_size = int64_t(layout.get_size() / sizeof(float));
  const Tensor weights = Tensor::make({weight_size * (dweight ? count : 1)}, kFloat32, Device());
  float* const weight = weights.data<float>();
  void* const given = t.weight.data_ptr();
  if (!dweight) reorder(given_weight(s), given, layout, weight);
  const Tensor bias = bias_or_zeros(s, t.bias);
  const int64_t work = s.n * s.pixels() * s.o * s.depth();
  host::parallel_tasks(
      count, host::threads_for(std::min(count, work / kThreadWork), 1), [&](int64_t i) {
        const Part& part = parts[size_t(i)];
        const Plan& plan = planned->plans[part.plan];
        float *const x = pointer<float>(t.x) + part.x, *const y = pointer<float>(t.y) + part.y;
        if (pass == ConvPass::kDx) return execute_dx(part, plan, x, weight, bias.data<float>(), y);
        execute(pass, plan, x, weight + (dweight ? i * weight_size : 0), bias.data<float>(), y);
      });
  if (!dweight) return true;
  sum_runs(weight, weight_size, count);
  reorder(layout, weight, given_weight(s), given);
  return true;
}

}  // namespace cpu
}  // namespace taper::v0::kernels
